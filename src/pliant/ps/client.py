"""What a worker uses: parameters of all servers as if they were of one, and gradients that count exactly once.

    parameters = job.parameters()
    parameters.define([TableSpec("users", 16), DenseSpec("w", (8, 1))])
    parameters.initialize({"w": w})
    model = parameters.pull(rows={"users": ids})         # of one iteration (ps-sync), or of the newest (ps-async)
    ...
    told = parameters.push(model.iteration, examples=len(ids), dense={"w": gw}, rows={"users": (ids, gu)}, shards=[(shard, 32)])
    if not told.accepted: ...                             # computed on an old model: pull, compute again

``push`` stages the gradient on every server that owns a piece of it, then has the master decide: the gradient and the records
of ``shards`` are accepted together, or neither is. Gradients are means over the examples of the batch. Ids may come more
than once; their gradients are added up. Servers that die, are replaced, or move parameters cost time and nothing else.

Not for several threads at once. Neighbours: ``routing`` (where everything is), ``core/ps_orders`` (what becomes of a push).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from pliant.core.errors import InvalidRequest, NotFound, RetryableError, SessionExpired
from pliant.core.ps_states import Fate
from pliant.ps.ahead import RowsAhead
from pliant.ps.dense_copy import DenseCopy
from pliant.ps.following import ModelStream
from pliant.ps.merging import group_by_seat
from pliant.ps.outgoing import KeptRows, OutgoingRows
from pliant.ps.pieces import BlockGradient, Floats, Ids, Push, RowGradients
from pliant.ps.placement import blocks_of
from pliant.ps.routing import Conversation, Route, Router
from pliant.ps.specs import DenseSpec, Spec, TableSpec
from pliant.rpc import pliant_pb2 as pb

Rates = Callable[[int], float | Sequence[float]]

MOST_VOID = 1000  # numbers of refused pushes that one push carries
AHEAD = 256  # updates whose learning rates are told at once; more when half of them are done


class Shard(Protocol):
    """Records of the shard queue; ``pliant.client.shards.Shard`` is one."""

    lease: int
    offset: int
    session: str
    lost: bool

    def contributed(self, records: int) -> None: ...


@dataclass(frozen=True)
class Model:
    """Parameters as they were at one iteration (the oldest of all, if they differ: ps-async)."""

    iteration: int
    dense: dict[str, Floats]
    rows: dict[str, Floats]


@dataclass(frozen=True)
class Contributed:
    """What became of a push. Neither accepted nor stale: a shard was ``lost``, given to another worker meanwhile."""

    accepted: bool
    stale: bool
    iteration: int  # the newest
    staleness: int = 0
    reason: str = ""
    lost: tuple[int, ...] = ()  # leases


@dataclass(frozen=True)
class _Staged:
    """A push that servers have, for the master to decide on."""

    session: str
    sequence: int
    route: Route
    places: tuple[int, ...]  # of the seats that have a piece of it


class _Refused:
    """Pushes that the master did not take, until the seats that keep a piece of them were told with the next push."""

    def __init__(self) -> None:
        self._session = ""
        self._by_seat: dict[int, list[int]] = {}

    def add(self, session: str, sequence: int, seats: Iterable[int]) -> None:
        if session != self._session:  # servers let go of what a session that ended had staged
            self._session, self._by_seat = session, {}
        for seat in seats:
            self._by_seat.setdefault(seat, []).append(sequence)

    def told_to(self, session: str, seat: int) -> tuple[int, ...]:
        return tuple(self._by_seat.get(seat, ())[:MOST_VOID]) if session == self._session else ()

    def was_told(self, seats: Iterable[int]) -> None:
        for seat in seats:
            if seat in self._by_seat:
                del self._by_seat[seat][:MOST_VOID]


class PsClient:
    def __init__(self, conversation: Conversation, *, patience: float = 600.0) -> None:
        self._conversation = conversation
        self._router = Router(conversation, patience=patience)
        self._sequence = 0  # of the last push; goes on rising when a new session begins
        self._patience = patience
        self._dense = DenseCopy()
        self._kept = KeptRows()
        self._version = 0  # the newest iteration seen
        self._rates: Rates | None = None
        self._refused = _Refused()
        self._streams: WeakSet[ModelStream] = WeakSet()

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
            return not all(self._router.connection(place).local for place in range(len(route.seats)))

        return self._router.insist(attempt, "to reach all servers")

    @property
    def batch(self) -> int:
        """Examples of one iteration; ps-sync."""
        return self._router.route.batch

    def define(self, specs: Iterable[Spec]) -> None:
        """Tables and variables; every worker may, as long as all say the same."""
        tables: list[str] = []
        variables: list[str] = []
        for spec in specs:
            spec.check()
            (tables if isinstance(spec, TableSpec) else variables).append(_json(spec))
        request = pb.DefineRequest(tables=tables, variables=variables)
        self._router.take(self._conversation.insist(self._stubs.Define, request))

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
            staged = self._stage(dense=missing, rows={}, examples=0, based_on=0, assign=True)
            reply = self._decide(self._stubs.Assign, staged, names=list(missing))
            if reply is not None and reply.fate == Fate.ACCEPTED:
                self._await_first_values()
                return True

    def _await_first_values(self) -> None:
        """Until all servers have executed the order: a pull of the same iteration before that has what was there before."""

        def attempt(_: Route) -> None:
            if not self._router.refresh().assigned:
                raise RetryableError("a parameter server has not taken the first values of its variables yet")

        self._router.insist(attempt, "the first values")
        self._dense.forget()
        for stream in self._streams:
            stream.await_first_values()

    def schedule(self, rates: Rates) -> None:
        """Learning rates over time: ``rates(update)``, counted from 0, is by how much the rates of all are multiplied, or one
        factor for each ``rate_group``. It must be the same function on every worker, of the number alone."""
        self._rates = rates
        self._tell_rates(self.latest())

    def _tell_rates(self, first: int) -> None:
        """Until the master knows those of the next update: others may have told them, or updates went on meanwhile."""
        assert self._rates is not None
        while True:
            told = [self._rates(update) for update in range(first, first + AHEAD)]
            rows = [[float(row)] if isinstance(row, int | float) else [float(f) for f in row] for row in told]
            groups = len(rows[0])
            request = pb.ScheduleRequest(first=first, groups=groups, factors=[f for row in rows for f in row])
            reply = self._conversation.insist(self._stubs.Schedule, request)
            if reply.scheduled > reply.iteration:
                return
            first = max(reply.scheduled, reply.iteration)

    # --- pulls

    def pull(
        self, rows: Mapping[str, Any] | None = None, *, dense: Sequence[str] | None = None, at_least: int | None = None
    ) -> Model:
        """Dense variables (all, unless named) and rows of tables by id, not older than ``at_least``.

        Blocks that did not change since the last pull are not sent again: the arrays of ``dense`` are views of what the
        client keeps, valid until the next pull.
        """
        wanted = {table: _ids(table, ids) for table, ids in (rows or {}).items()}
        names = list(self._router.route.variables) if dense is None else list(dense)
        for name in names:
            self._dense.make_room(self._variable(name))
        for table in wanted:
            self._table(table)
        least = self._version if at_least is None else at_least
        while True:
            attempt = partial(self._pull_once, names=names, wanted=wanted, at_least=least)
            low, high, found = self._router.insist(attempt, "a pull")
            self._version = max(self._version, high)
            if low == high or not self._router.route.sync:
                variables = self._router.route.variables
                return Model(low, {name: self._dense.shaped(variables[name]) for name in names}, found)
            least = high  # some were ahead: once more, when all are

    def _pull_once(
        self, route: Route, names: list[str], wanted: dict[str, Ids], at_least: int
    ) -> tuple[int, int, dict[str, Floats]]:
        lows = self._pull_dense(route, names, at_least)
        grouped = {t: group_by_seat(t, ids, route.owner, len(route.seats)) for t, ids in wanted.items() if ids.size}
        unique = {t: self._kept.take(t, ids.size, route.tables[t].dim) for t, (ids, _, _) in grouped.items()}
        send, out = {}, {}
        for place in range(len(route.seats)):
            cuts = {t: _cut(counts, place) for t, (_, counts, _) in grouped.items() if counts[place]}
            if cuts:
                asked = [(t, grouped[t][0][cut]) for t, cut in cuts.items()]
                out[place] = [unique[t][cut] for t, cut in cuts.items()]
                send[place] = _ask_rows(asked, at_least)
        lows += self._router.ask(send, lambda place, connection: connection.receive_rows(out[place]))
        found = {t: unique[t].take(places, 0, mode="clip") for t, (_, _, places) in grouped.items()}
        for table, ids in wanted.items():
            found.setdefault(table, np.empty((ids.size, route.tables[table].dim), np.float32))
        lows = lows or [at_least]  # nobody had to be asked
        return min(lows), max(lows), found

    def _pull_dense(self, route: Route, names: list[str], at_least: int) -> list[int]:
        places = self._dense.places(route, names)
        send = {place: self._dense.request(route, place, blocks, at_least) for place, blocks in places.items()}
        return self._router.ask(send, lambda place, c: self._dense.receive(route, place, places[place], c))

    def follow(self, names: Sequence[str] | None = None) -> ModelStream:
        """Dense variables (all, unless named) as the servers send them: each new iteration, without being asked for it."""
        chosen = list(self._router.refresh().variables) if names is None else list(names)
        for name in chosen:
            self._variable(name)
        if not chosen:
            raise InvalidRequest("there is no variable to follow", hint="rows of tables are pulled")
        stream = ModelStream(self._conversation, chosen, patience=self._patience)
        self._streams.add(stream)
        return stream

    def ahead(self) -> RowsAhead:
        """Fetches rows while something else is computed, by connections of its own; to be closed."""
        return RowsAhead(PsClient(self._conversation, patience=self._patience))

    def latest(self) -> int:
        """The newest iteration that the master has ordered."""
        return self._router.refresh().iteration

    def wait_for(self, iteration: int) -> int:
        """Until all servers have applied this iteration (or a later one); gives the newest seen."""
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
            raise InvalidRequest(f"a gradient over {examples} examples")
        gradients = {name: self._gradient(name, value) for name, value in (dense or {}).items()}
        pairs = {table: self._row_gradients(table, *pair) for table, pair in (rows or {}).items()}
        progress = [pb.LeaseProgress(lease=s.lease, records=s.offset + records) for s, records in shards]
        while True:
            if gone := tuple(s.lease for s, _ in shards if s.session != self._conversation.name or s.lost):
                return Contributed(False, False, self._version, 0, "a shard was given to another worker", gone)
            staged = self._stage(dense=gradients, rows=pairs, examples=examples, based_on=based_on)
            reply = self._decide(
                self._stubs.Contribute, staged, based_on=based_on, examples=examples, progress=progress
            )
            if reply is None:
                continue
            if self._rates is not None and 0 < reply.scheduled < reply.iteration + AHEAD // 2:
                self._tell_rates(max(reply.scheduled, reply.iteration))
            if reply.fate == Fate.UNSCHEDULED:
                if self._rates is None:
                    raise InvalidRequest(
                        f"other workers follow a schedule of the learning rate: {reply.reason}",
                        hint="call schedule() on all workers",
                    )
                continue  # they are known now
            if reply.fate in (Fate.ACCEPTED, Fate.REPEATED):
                for shard, records in shards:
                    shard.contributed(records)
                return Contributed(True, False, reply.iteration, reply.staleness)
            if reply.fate != Fate.MOVED:
                stale = reply.fate == Fate.STALE
                return Contributed(False, stale, reply.iteration, reply.staleness, reply.reason, tuple(reply.lost))

    def _stage(
        self,
        *,
        dense: Mapping[str, Floats],
        rows: Mapping[str, tuple[Ids, Floats]],
        examples: int,
        based_on: int,
        assign: bool = False,
    ) -> _Staged:
        """Send the pieces to their owners under a new number; where they are now. By the same map every try sends the same,
        under the same number, of which servers keep one."""
        numbers: dict[tuple[str, int], int] = {}  # by session and version of the map

        def attempt(route: Route) -> _Staged:
            key = (self._conversation.name, route.map.version)
            if key not in numbers:
                self._sequence += 1
                numbers[key] = self._sequence
            session, sequence = key[0], numbers[key]
            pieces = self._pieces(route, dense, rows, assign)
            send = {}
            for place, (r, b) in pieces.items():
                void = self._refused.told_to(session, route.seats[place])
                send[place] = _send_push(Push(session, sequence, examples, based_on, tuple(r), tuple(b), void=void))
            self._router.ask(send, lambda _, connection: connection.receive_pushed())
            self._refused.was_told([route.seats[place] for place in send])
            return _Staged(session, sequence, route, tuple(send))

        return self._router.insist(attempt, "a push")

    def _pieces(
        self, route: Route, dense: Mapping[str, Floats], rows: Mapping[str, tuple[Ids, Floats]], assign: bool
    ) -> dict[int, tuple[list[RowGradients], list[BlockGradient]]]:
        """By the place of the seat: what it is sent."""
        out: dict[int, tuple[list[RowGradients], list[BlockGradient]]] = {}
        for name, gradient in dense.items():
            for block, (first, length) in enumerate(blocks_of(gradient.size)):
                piece = BlockGradient(name, block, gradient[first : first + length], assign)
                out.setdefault(route.block_place(name, block), ([], []))[1].append(piece)
        outgoing = OutgoingRows(route.owner, len(route.seats), self._router.connection, self._kept)
        for table, (ids, gradients) in rows.items():
            outgoing.add(table, ids, gradients)
        for place, several in outgoing.by_place.items():
            out.setdefault(place, ([], []))[0].extend(several)
        return out

    def _decide(self, method: Any, staged: _Staged, **fields: Any) -> pb.ContributeReply | None:
        """The master's word; None: the session had ended, and everything has to be done anew."""
        route = staged.route
        request = pb.ContributeRequest(
            session=staged.session,
            sequence=staged.sequence,
            seats=[pb.SeatTenure(seat=route.seats[p], tenure=route.tenures[p]) for p in staged.places],
            map_version=route.map.version,
            **fields,
        )
        try:
            if staged.session != self._conversation.name:  # another thread has opened a new one
                raise SessionExpired("the session in which a push was staged has ended")
            reply: pb.ContributeReply = self._conversation.insist(method, request)
        except SessionExpired:
            self._conversation.renew(staged.session)
            return None
        if reply.fate not in (Fate.ACCEPTED, Fate.REPEATED):
            self._refused.add(staged.session, staged.sequence, [route.seats[p] for p in staged.places])
        if reply.fate == Fate.MOVED:
            self._router.refresh(newer=True)
        return reply

    def end(self) -> None:
        """From another thread: whoever waits for servers gets an error."""
        self._router.end()

    def close(self) -> None:
        self._router.close()

    # --- inside

    @property
    def _stubs(self) -> Any:
        return self._conversation.master.stubs.parameters

    def _variable(self, name: str) -> DenseSpec:
        spec = self._router.route.variables.get(name) or self._router.refresh().variables.get(name)
        if spec is None:
            known = ", ".join(self._router.route.variables) or "none"
            raise NotFound(f"there is no variable {name!r}", hint=f"variables of this job: {known:.500}")
        return spec

    def _table(self, name: str) -> TableSpec:
        spec = self._router.route.tables.get(name) or self._router.refresh().tables.get(name)
        if spec is None:
            known = ", ".join(self._router.route.tables) or "none"
            raise NotFound(f"there is no table {name!r}", hint=f"tables of this job: {known:.500}")
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


def _json(spec: Spec) -> str:
    return json.dumps(spec.to_json(), sort_keys=True)


def _cut(counts: Any, place: int) -> slice:
    first = int(counts[:place].sum())
    return slice(first, first + int(counts[place]))


def _ask_rows(asked: list[tuple[str, Ids]], iteration: int) -> Any:
    return lambda connection: connection.send_pull_rows(asked, iteration=iteration)


def _send_push(push: Push) -> Any:
    return lambda connection: connection.send_push(push)


def _ids(table: str, ids: Any) -> Ids:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu":
        raise InvalidRequest(f"ids of table {table!r} must be whole numbers, not {array.dtype}")
    return np.ascontiguousarray(array, np.int64).reshape(-1)
