"""What a worker uses: parameters of all servers as if they were of one, and gradients that count exactly once.

    parameters = job.parameters()
    parameters.define([TableSpec("users", 16), DenseSpec("w", (8, 1))])
    parameters.initialize({"w": w})
    model = parameters.pull(rows={"users": ids})         # of one iteration (ps-sync), or of the newest (ps-async)
    ...
    pushed = parameters.push(model.iteration, examples=len(ids), dense={"w": gw}, rows={"users": (ids, gu)}, shards=[(shard, 32)])
    if not pushed.accepted: ...                           # computed on an old model: pull, compute again

``push`` stages the gradient on every server that owns a share of it, then asks the master to decide: the gradient and the
records of ``shards`` are accepted together, or neither is. Gradients are means over the examples of the batch. Ids may be
repeated; their gradients are added up. Servers that die, are replaced, or move parameters cost time and nothing else.

Not thread-safe. Neighbours: ``routing`` (which server has what), ``push_staging``, ``core/parameters/book.py`` (the master's
decision), ``push_window`` and ``push_pipeline`` (pushes that do not wait for it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from pliant.core.errors import InvalidRequest, NotFound, RetryableError
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.files.time_meter import time_meter
from pliant.ps.client.connection import PsConnection
from pliant.ps.client.dense_copy import DenseCopy
from pliant.ps.client.model import Contributed, Model
from pliant.ps.client.model_stream import ModelStream
from pliant.ps.client.prefetch import RowPrefetcher
from pliant.ps.client.push_buffers import RowBuffers
from pliant.ps.client.push_pipeline import PushPipeline
from pliant.ps.client.push_staging import PushGradients, PushStager, StagedPush
from pliant.ps.client.push_window import Decided, PushWindow
from pliant.ps.client.rate_schedule import Rates, ScheduleReporter
from pliant.ps.client.routing import Conversation, Route, Router
from pliant.ps.client.staging_lane import Staging, StagingLane
from pliant.ps.compiled.merging import group_by_seat
from pliant.ps.payloads import Floats, Ids
from pliant.ps.specs import DenseSpec, Spec, TableSpec
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.parameters import push_decision, table_messages, variable_messages


class Shard(Protocol):
    """Records of the shard queue; ``pliant.client.shards.Shard`` is one."""

    lease: int
    offset: int
    session: str
    lost: bool

    def contributed(self, records: int) -> None: ...


class PsClient:
    def __init__(self, conversation: Conversation, *, retry_timeout: float = 600.0) -> None:
        self._conversation = conversation
        self._router = Router(conversation, retry_timeout=retry_timeout)
        self._retry_timeout = retry_timeout
        self._dense = DenseCopy()
        self._buffers = RowBuffers()
        self._version = 0  # the newest iteration seen
        self._floor = 0  # ps-async: when a gradient was refused as too old, the newest was this
        self._schedule: ScheduleReporter | None = None
        self._stager = PushStager(conversation, self._router, self._buffers)
        self._streams: WeakSet[ModelStream] = WeakSet()
        self._lanes: WeakSet[StagingLane] = WeakSet()
        self._pulled_at: float | None = None  # as ``TimeMeter.busy`` counts
        self.counts_units = True
        """Whether what is computed between a pull and the push after it is one unit; False: the caller counts units."""

    # --- definitions

    @property
    def iteration(self) -> int:
        """The newest that this client has seen."""
        return self._version

    @property
    def sync(self) -> bool:
        return self._router.route.sync

    def is_remote(self) -> bool:
        """Whether a server is on another machine."""

        def attempt(route: Route) -> bool:
            return not all(self._router.connection(server).local for server in range(len(route.seats)))

        return self._router.call_with_retry(attempt, "to reach all servers")

    @property
    def batch(self) -> int:
        """Examples of one iteration; ps-sync."""
        return self._router.route.batch

    def define(self, specs: Iterable[Spec]) -> None:
        """Tables and variables; every worker may, as long as all say the same."""
        tables: list[dict[str, Any]] = []
        variables: list[dict[str, Any]] = []
        for spec in specs:
            spec.check()
            (tables if isinstance(spec, TableSpec) else variables).append(spec.to_json())
        request = pb.DefineRequest(tables=table_messages(tables), variables=variable_messages(variables))
        self._router.take(self._conversation.call_with_retry(self._stubs.Define, request))

    def initialize(self, values: Mapping[str, Any]) -> bool:
        """Give variables their first values, unless another worker did; returns when they have them. True: it was us."""
        arrays = {name: np.ascontiguousarray(value, np.float32).reshape(-1) for name, value in values.items()}
        for name, array in arrays.items():
            if array.size != (spec := self._variable(name)).size:
                raise InvalidRequest(f"variable {name!r} has the shape {spec.shape}, not {array.size} values")
        while True:
            route = self._router.refresh()
            self._dense.forget()
            if arrays.keys() <= route.initialized:
                self._await_first_values()
                return False
            missing = {name: array for name, array in arrays.items() if name not in route.initialized}
            staged = self._stager.stage(PushGradients(missing, {}, examples=0, based_on=0, assign=True))
            request = pb.AssignRequest(
                session=staged.session,
                sequence=staged.sequence,
                names=list(missing),
                holders=staged.holders(),
                map_version=staged.route.map.version,
            )
            reply = self._stager.decide(self._stubs.Assign, request, staged)
            if reply is not None and push_decision(reply).outcome is PushOutcome.ACCEPTED:
                self._await_first_values()
                return True

    def _await_first_values(self) -> None:
        """Until all servers have executed the order: a pull of the same iteration before that has what was there before."""

        def attempt(_: Route) -> None:
            if not self._router.refresh().assigned:
                raise RetryableError("a parameter server has not initialized its variables yet")

        self._router.call_with_retry(attempt, "the initial values")
        self._dense.forget()
        for stream in self._streams:
            stream.await_first_values()

    def schedule(self, rates: Rates) -> None:
        """Learning rates over time: ``rates(update)``, counted from 0, is by how much the rates of all are multiplied, or one
        factor for each ``rate_group``. It must be the same function on every worker, of the number alone."""
        self._schedule = ScheduleReporter(self._conversation, rates)
        self._schedule.report(self.latest())

    # --- pulls

    def pull(
        self, rows: Mapping[str, Any] | None = None, *, dense: Sequence[str] | None = None, at_least: int | None = None
    ) -> Model:
        """Dense variables (all, unless named) and rows of tables by id, not older than ``at_least``: without it, with ps-sync than
        the newest iteration seen. With ps-async each server gives the newest that it has, and does not wait for what another one
        had already, unless a gradient was refused as too old.

        Blocks that did not change since the last pull are not sent again: the arrays of ``dense`` are views of what the
        client keeps, valid until the next pull.
        """
        wanted = {table: _ids(table, ids) for table, ids in (rows or {}).items()}
        names = list(self._router.route.variables) if dense is None else list(dense)
        for name in names:
            self._dense.make_room(self._variable(name))
        for table in wanted:
            self._table(table)
        least = (self._version if self.sync else self._floor) if at_least is None else at_least
        while True:
            attempt = partial(self._pull_once, names=names, wanted=wanted, at_least=least)
            with time_meter().peers:
                low, high, found = self._router.call_with_retry(attempt, "a pull")
            self._version = max(self._version, high)
            if low == high or not self._router.route.sync:
                variables = self._router.route.variables
                self._pulled_at = time_meter().busy()
                return Model(low, {name: self._dense.shaped(variables[name]) for name in names}, found)
            least = high  # some were ahead: once more, when all are

    def _pull_once(
        self, route: Route, names: list[str], wanted: dict[str, Ids], at_least: int
    ) -> tuple[int, int, dict[str, Floats]]:
        """One request to each server, for its rows and blocks."""
        grouped = {t: group_by_seat(t, ids, route.owner, len(route.seats)) for t, ids in wanted.items() if ids.size}
        unique = {t: self._buffers.take(t, ids.size, route.tables[t].dim) for t, (ids, _, _) in grouped.items()}
        blocks = self._dense.servers(route, names)
        send: dict[int, Callable[[PsConnection], None]] = {}
        out: dict[int, list[Floats]] = {}
        for server in range(len(route.seats)):
            cuts = {t: _cut(counts, server) for t, (_, counts, _) in grouped.items() if counts[server]}
            out[server] = [unique[t][cut] for t, cut in cuts.items()]
            if cuts or server in blocks:
                asked = [(t, grouped[t][0][cut]) for t, cut in cuts.items()]
                have = self._dense.wanted(route, server, blocks.get(server, ()))
                send[server] = partial(PsConnection.send_pull, rows=asked, blocks=have, iteration=at_least)

        def receive(server: int, connection: PsConnection) -> int:
            there = blocks.get(server, {})
            answer = partial(connection.receive_pull, out[server], there)
            return self._dense.receive(route, server, there, answer)

        lows = self._router.ask(send, receive)
        found = {t: unique[t].take(positions, 0, mode="clip") for t, (_, _, positions) in grouped.items()}
        for table, ids in wanted.items():
            found.setdefault(table, np.empty((ids.size, route.tables[table].dim), np.float32))
        lows = lows or [max(at_least, self._version)]  # nobody had to be asked
        return min(lows), max(lows), found

    def follow(self, names: Sequence[str] | None = None) -> ModelStream:
        """Dense variables (all, unless named) as the servers send them: each new iteration, without being asked for it."""
        chosen = list(self._router.refresh().variables) if names is None else list(names)
        for name in chosen:
            self._variable(name)
        if not chosen:
            raise InvalidRequest("no variable to follow", hint="rows of tables are pulled")
        stream = ModelStream(self._conversation, chosen, retry_timeout=self._retry_timeout)
        self._streams.add(stream)
        return stream

    def ahead(self) -> RowPrefetcher:
        """Fetches rows while something else is computed, by connections of its own; to be closed."""
        return RowPrefetcher(PsClient(self._conversation, retry_timeout=self._retry_timeout))

    def latest(self) -> int:
        """The newest iteration that the master has ordered."""
        return self._router.refresh().iteration

    def wait_for(self, iteration: int) -> int:
        """Until all servers have applied this iteration (or a later one); returns the newest seen."""
        return self.pull(at_least=iteration).iteration

    # --- pushes

    def push(
        self,
        based_on: int,
        *,
        examples: int,
        dense: Mapping[str, Any] | None = None,
        rows: Mapping[str, tuple[Any, Any]] | None = None,
        shards: Sequence[tuple[Shard, int]] = (),
    ) -> Contributed:
        """Contribute the mean gradient over ``examples``, computed on iteration ``based_on``.

        ``shards``: with each shard how many of its records (as iterated) are done with this push, all in all.
        """
        if examples < 1:
            raise InvalidRequest(f"invalid gradient over {examples} examples")
        self._count_unit()
        gradients, pairs = self._checked(dense or {}, rows or {})
        progress = [pb.LeaseProgress(lease=s.lease, records=s.offset + records) for s, records in shards]
        while True:
            if gone := _gone(shards, self._conversation.name):
                return self._lost(gone)
            with time_meter().peers:
                staged = self._stager.stage(PushGradients(gradients, pairs, examples, based_on))
            if gone := _gone(shards, staged.session):  # leases are numbered by session
                self._stager.withdraw(staged)
                return self._lost(gone)
            request = pb.ContributeRequest(
                session=staged.session,
                sequence=staged.sequence,
                based_on=based_on,
                examples=examples,
                holders=staged.holders(),
                map_version=staged.route.map.version,
                progress=progress,
            )
            with time_meter().peers:
                reply = self._stager.decide(self._stubs.Contribute, request, staged)
            if reply is None:
                continue
            decision = push_decision(reply)
            self._learn(reply, decision)
            if decision.outcome is PushOutcome.UNSCHEDULED:
                continue  # they are known now
            if decision.outcome in (PushOutcome.ACCEPTED, PushOutcome.REPEATED):
                for shard, records in shards:
                    shard.contributed(records)
                return Contributed(True, False, decision.iteration, decision.staleness)
            if decision.outcome not in (PushOutcome.MOVED, PushOutcome.GAP):  # GAP: another thread's push was faster
                stale = decision.outcome is PushOutcome.STALE
                return Contributed(
                    False, stale, decision.iteration, decision.staleness, decision.reason, decision.lost_leases
                )

    def window(self, size: int | None = None) -> PushWindow:
        """Pushes that go on without waiting for the master's decision on each, at most ``size`` of them (as the job says). With
        ps-sync each waits: the next gradient would be one of an older iteration."""
        wanted = self._router.route.push_window if size is None else size
        lane = StagingLane(self._conversation, retry_timeout=self._retry_timeout)
        self._lanes.add(lane)
        return PushWindow(self._conversation, _WindowPusher(self, lane), 1 if self.sync else wanted)

    def pipeline(
        self, size: int | None = None, *, on_decided: Callable[[Decided], None] | None = None
    ) -> PushPipeline[Any]:
        """A loop over shards whose pushes go through such a window. ``on_decided`` is called with each push that was decided."""
        return PushPipeline(self.window(size), on_decided)

    def end(self) -> None:
        """From another thread: whoever waits for servers gets an error."""
        self._router.end()
        for lane in list(self._lanes):
            lane.end()

    def close(self) -> None:
        self._router.close()

    # --- inside

    def _lost(self, leases: tuple[int, ...]) -> Contributed:
        return Contributed(False, False, self._version, 0, "a shard was leased to another worker", leases)

    def _count_unit(self) -> None:
        if self.counts_units and self._pulled_at is not None:
            meter = time_meter()
            meter.unit(meter.busy() - self._pulled_at)
        self._pulled_at = None

    def _checked(
        self, dense: Mapping[str, Any], rows: Mapping[str, tuple[Any, Any]]
    ) -> tuple[dict[str, Floats], dict[str, tuple[Ids, Floats]]]:
        gradients = {name: self._gradient(name, value) for name, value in dense.items()}
        return gradients, {table: self._row_gradients(table, *pair) for table, pair in rows.items()}

    def _learn(self, reply: pb.ContributeReply, decision: PushDecision) -> None:
        """From the master's decision: what a pull has to wait for, and whether the master should know more learning rates."""
        if decision.outcome is PushOutcome.STALE:
            self._floor = max(self._floor, decision.iteration)
        if self._schedule is not None and self._schedule.is_due(reply.scheduled, reply.iteration):
            self._schedule.report(max(reply.scheduled, reply.iteration))
        if decision.outcome is PushOutcome.UNSCHEDULED and self._schedule is None:
            raise InvalidRequest(
                f"other workers use a learning-rate schedule: {decision.reason}",
                hint="call schedule() on all workers",
            )

    @property
    def _stubs(self) -> Any:
        return self._conversation.master.stubs.parameters

    def _variable(self, name: str) -> DenseSpec:
        spec = self._router.route.variables.get(name) or self._router.refresh().variables.get(name)
        if spec is None:
            known = ", ".join(self._router.route.variables) or "none"
            raise NotFound(f"variable {name!r} not found", hint=f"variables of this job: {known:.500}")
        return spec

    def _table(self, name: str) -> TableSpec:
        spec = self._router.route.tables.get(name) or self._router.refresh().tables.get(name)
        if spec is None:
            known = ", ".join(self._router.route.tables) or "none"
            raise NotFound(f"table {name!r} not found", hint=f"tables of this job: {known:.500}")
        return spec

    def _gradient(self, name: str, value: Any) -> Floats:
        spec = self._variable(name)
        array = np.ascontiguousarray(value, np.float32)
        if array.shape != spec.shape and array.size != prod(spec.shape):
            raise InvalidRequest(f"the gradient of {name!r} has the shape {array.shape}, the variable {spec.shape}")
        return array.reshape(-1)

    def _row_gradients(self, table: str, ids: Any, gradients: Any) -> tuple[Ids, Floats]:
        spec, flat = self._table(table), _ids(table, ids)
        array = np.ascontiguousarray(gradients, np.float32)
        if array.size != flat.size * spec.dim:
            needed = (flat.size, spec.dim)
            raise InvalidRequest(f"{flat.size} ids of table {table!r} need gradients of {needed}, not {array.shape}")
        return flat, array.reshape(flat.size, spec.dim)


class _WindowPusher:
    """A client's pushes, without their decisions; for its windows."""

    def __init__(self, client: PsClient, lane: StagingLane) -> None:
        self._client = client
        self._lane = lane

    def begin(
        self, based_on: int, examples: int, dense: Mapping[str, Any], rows: Mapping[str, tuple[Any, Any]]
    ) -> Staging:
        self._client._count_unit()
        gradients, pairs = self._client._checked(dense, rows)
        return self._lane.begin(gradients, pairs, examples, based_on)

    def end(self) -> None:
        self._lane.end()

    def withdraw(self, staged: StagedPush) -> None:
        self._lane.withdraw(staged)

    def settle(self, staged: StagedPush, reply: pb.ContributeReply) -> PushDecision:
        decision = self._lane.settle(staged, reply)
        self._client._learn(reply, decision)
        return decision


def _gone(shards: Sequence[tuple[Shard, int]], session: str) -> tuple[int, ...]:
    """Leases of shards that this session does not hold."""
    return tuple(shard.lease for shard, _ in shards if shard.session != session or shard.lost)


def _cut(counts: Any, server: int) -> slice:
    first = int(counts[:server].sum())
    return slice(first, first + int(counts[server]))


def _ids(table: str, ids: Any) -> Ids:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu":
        raise InvalidRequest(f"ids of table {table!r} must be integers, not {array.dtype}")
    return np.ascontiguousarray(array, np.int64).reshape(-1)
