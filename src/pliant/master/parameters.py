"""The coordinator of parameter servers: the shell around ``core.ps_orders.ParameterBook``.

Calls of servers and workers go in as journaled events; orders go out to whoever waits for them. A contribution and the
acknowledgement of its records are noted without an ``await`` in between, so they reach the disk together or not at all.

What is not journaled: how far each server is in the stream of orders and what it uses (it says so with every call), and
the counts of contributions that were not accepted. The files of dumps and moves that nothing needs any more are removed
here; a manifest makes the files of a dump a dump.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pliant.core.clock import Clock
from pliant.core.errors import InvalidRequest, SessionExpired
from pliant.core.ps_map import Move
from pliant.core.ps_orders import ParameterBook
from pliant.core.ps_states import Dump, Fate, Kind, Order, Seat, Verdict
from pliant.master.journal import Journal
from pliant.master.shards import DataShardManager
from pliant.ps.files import find_dump, write_manifest
from pliant.rpc import pliant_pb2 as pb

log = logging.getLogger(__name__)

MOST_ORDERS = 500  # in one answer
MOST_SAID = 20  # events of a server in one call
LONGEST_LOG = 1 << 30  # bytes of staged pushes on a server; then a dump is due, which shortens it
LAST_DUMP = 60.0  # seconds that a job which is done waits for its last dump
DUMP_PAUSE = 10.0  # seconds before a dump that failed is tried again


class ParameterCoordinator:
    def __init__(
        self, book: ParameterBook, journal: Journal, clock: Clock, shards: DataShardManager, folder: Path
    ) -> None:
        self.book = book
        self.folder = folder
        self._journal = journal
        self._clock = clock
        self._shards = shards
        self._changed = asyncio.Event()
        self._done: dict[int, int] = {}  # seat -> the last order that it executed
        self._stats: dict[int, pb.SeatStats] = {}
        self._dumped_at = clock.now()
        self._no_dump_until = 0.0  # after one that failed
        self._asked = 0.0  # when the last dump was first asked for
        self._sweeping: asyncio.Task[None] | None = None
        self._dropped = {Fate.STALE: 0, Fate.MOVED: 0}
        self._heard_at: dict[int, float] = {}  # seat -> when its holder last had a word for us
        self._awake_since = clock.now()
        self.lost_contributions = 0
        self.moves = 0
        self.on_retired: Callable[[str], None] = lambda node: None  # a seat went; its node may go

    def start(self, restore: str | None) -> None:
        """Begin from a dump of another job, if this one is told to and has not begun yet."""
        if restore is None or self.book.restored_from or self.book.last:
            return
        path, manifest = find_dump(Path(restore))
        self._journal.do(
            self.book.restore_dump,
            path=str(path),
            iteration=manifest["iteration"],
            tables=manifest["tables"],
            variables=manifest["variables"],
            initialized=manifest["initialized"],
        )
        self._journal.event("parameters", f"begins from the dump {path}, iteration {manifest['iteration']:,}")

    # --- servers

    async def join(self, node: str, incarnation: int) -> Seat:
        """Waits for a seat."""
        while True:
            vacant = any(s.node in ("", node) for s in self.book.seats())
            seat = self._journal.do(self.book.join, node=node, incarnation=incarnation) if vacant else None
            if seat is not None:
                self._done.pop(seat.number, None)
                self._heard_at[seat.number] = self._clock.now()
                self._journal.event("parameters", f"{node} takes seat {seat.number}", node)
                self._notify()
                return seat
            await self._changed.wait()

    def joined_message(self, seat: Seat) -> pb.JoinSeatReply:
        book, base = self.book, self.book.base
        state = {
            "map": base.parameter_map,
            "tables": list(base.tables),
            "variables": list(base.variables),
            "iteration": base.iteration,
        }
        return pb.JoinSeatReply(
            seat=seat.number,
            tenure=seat.tenure,
            base=base.order,
            chain=[dump.order for dump in book.chain()],
            restore_from=book.restored_from if base.order == 0 else "",
            state=json.dumps(state),
            last=book.last,
            partitions=book.options.partitions,
        )

    def ready(self, seat: int, tenure: int, address: str) -> None:
        found = self._journal.do(self.book.ready, seat=seat, tenure=tenure, address=address)
        self._journal.event("parameters", f"seat {seat} is served by {found.node} at {address}", found.node)
        self._notify()

    async def next_orders(self, request: pb.NextOrdersRequest) -> list[Order]:
        book = self.book
        book.check_holder(request.seat, request.tenure)
        self._heard_at[request.seat] = self._clock.now()
        self._done[request.seat] = request.after
        self._stats[request.seat] = request.stats
        for text in list(request.said)[:MOST_SAID]:
            self._journal.event("parameters", text, book.seat(request.seat).node)
        self._rebalance()
        while not (orders := book.orders(request.after, MOST_ORDERS)):
            await self._changed.wait()
            book.check_holder(request.seat, request.tenure)
        return orders

    def alive(self, seat: int, tenure: int) -> None:
        """It gets on, whatever it does."""
        self.book.check_holder(seat, tenure)
        self._heard_at[seat] = self._clock.now()

    def silences(self) -> dict[str, float]:
        """Finder: the nodes of servers that should be heard of, and for how many seconds they were not."""
        now = self._clock.now()
        return {
            s.node: now - max(self._heard_at.get(s.number, 0.0), self._awake_since)
            for s in self.book.seats()
            if s.node and s.tenure
        }

    def forgive_absence(self) -> None:
        """This master did not run: nobody was silent meanwhile."""
        self._awake_since = self._clock.now()

    def program_gone(self, node: str, *, for_good: bool) -> None:
        if any(s.node == node and (s.tenure or for_good) for s in self.book.seats()):
            seats = self._journal.do(self.book.lost, node=node, for_good=for_good)
            for seat in seats:
                self._done.pop(seat, None)
            self._notify()

    def report_dump(self, seat: int, tenure: int, order: int, failure: str) -> None:
        book = self.book
        book.check_holder(seat, tenure)
        opened = book.open_dump
        if opened is None or opened.order != order:
            return
        node = book.seat(seat).node
        if failure:
            self._journal.do(book.dump_failed, order=order)
            self._called_off(order, failure, node)
            return
        if opened.with_written(seat).complete:
            write_manifest(self.folder, opened.with_written(seat), book.chain())
        done = self._journal.do(book.dumped, seat=seat, tenure=tenure, order=order)
        if done is not None:
            self._completed(done)

    # --- workers

    def define(self, tables: list[dict[str, Any]], variables: list[dict[str, Any]]) -> None:
        if self._journal.do(self.book.define, tables=tables, variables=variables) is not None:
            names = ", ".join(str(spec["name"]) for spec in [*tables, *variables][:5])
            self._journal.event("parameters", f"{len(tables)} tables, {len(variables)} variables: {names}")
            self._notify()

    def schedule(self, request: pb.ScheduleRequest) -> pb.ScheduleReply:
        groups = request.groups
        if groups < 1 or len(request.factors) % groups or request.first < 0:
            raise InvalidRequest(f"a schedule of {groups} groups with {len(request.factors)} factors")
        rows = [list(request.factors[at : at + groups]) for at in range(0, len(request.factors), groups)]
        if request.first + len(rows) > self.book.scheduled:
            begins = not self.book.scheduled
            self._journal.do(self.book.schedule, first=request.first, factors=rows)
            if begins:
                self._journal.event("parameters", f"learning rates follow a schedule, in {groups} group(s)")
        return pb.ScheduleReply(iteration=self.book.iteration, scheduled=self.book.scheduled)

    def assign(self, request: pb.ContributeRequest) -> Verdict:
        self._heard(request.session)
        verdict = self._journal.do(
            self.book.assign,
            session=request.session,
            sequence=request.sequence,
            names=list(request.names),
            seats=[[s.seat, s.tenure] for s in request.seats],
            map_version=request.map_version,
        )
        self._notify()
        return verdict

    def contribute(self, request: pb.ContributeRequest) -> pb.ContributeReply:
        self._heard(request.session)
        progress = [[p.lease, p.records] for p in request.progress]
        given: dict[str, Any] = {
            "session": request.session,
            "sequence": request.sequence,
            "based_on": request.based_on,
            "examples": request.examples,
            "seats": [[s.seat, s.tenure] for s in request.seats],
            "map_version": request.map_version,
        }
        verdict = self.book.judge(**given)
        if verdict.fate is Fate.ACCEPTED:
            if lost := self._shards.book.unreportable(request.session, progress):
                self.lost_contributions += 1
                why = "a shard was given to another worker"
                return pb.ContributeReply(fate="lost", iteration=verdict.iteration, reason=why, lost=lost)
            verdict = self._journal.do(self.book.contribute, **given)  # and with it, in one transaction:
            if progress:
                self._shards.acknowledge(request.session, progress)
            self._flush()
            self._rebalance()  # between two iterations, which may be the only time when nothing waits
            self._notify()
        elif verdict.fate in self._dropped:
            self._dropped[verdict.fate] += 1
        self._end()
        reply = verdict_message(verdict)
        reply.scheduled = self.book.scheduled
        return reply

    def end_session(self, session: str) -> None:
        self._journal.do(self.book.end_session, session=session)
        self._notify()

    async def wait_for_map(self, version: int, roster: int) -> None:
        while self.book.map.version <= version and self.book.roster <= roster:
            await self._changed.wait()

    # --- people

    def resize(self, seats: int) -> None:
        leaving = self._journal.do(self.book.resize, seats=seats)
        if leaving:
            names = ", ".join(str(seat) for seat in leaving)
            self._journal.event("parameters", f"seats {names} give what they have to the others, then go")
        self._notify()

    def move_off(self, node: str, share: float, reason: str) -> Seat:
        seat = self.book.seat_of(node)
        found = self._journal.do(self.book.set_share, seat=seat.number, share=share)
        self._journal.event("parameters", f"{share:.0%} of what {node} has moves to the others ({reason})", node)
        self._notify()
        return found

    async def dump(self, full: bool) -> tuple[int, int, bool]:
        """Order one now (after the one that is being written) and wait; gives its order, iteration, whether it is there."""
        while self.book.open_dump is not None:
            await self._changed.wait()
        if not self.book.last:
            raise InvalidRequest("no parameters are defined yet")
        order = self._begin_dump("asked for", full=True if full else None)
        while (opened := self.book.open_dump) is not None and opened.order == order.number:
            await self._changed.wait()
        return order.number, order.iteration, self.book.base.order >= order.number

    # --- time

    def tick(self) -> None:
        now, book = self._clock.now(), self.book
        self._flush()
        why = book.dump_due(now, begun=self._dumped_at) or self._long_log()
        if why and now >= self._no_dump_until:
            self._begin_dump(why)
        self._retire()
        self._rebalance()
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = None

    def saved(self) -> bool:
        """Whether the model is in a dump as it is now; if not, one is begun. A job that is done waits for this, for a while."""
        book = self.book
        options = book.options
        if not (options.dump_iterations or options.dump_seconds) or book.iteration <= book.base.iteration:
            return True
        self._asked = self._asked or self._clock.now()
        if self._clock.now() - self._asked > LAST_DUMP:
            self._journal.event(
                "dump", f"the last dump is not complete after {LAST_DUMP:.0f} s; the job ends without it"
            )
            return True
        if book.open_dump is None:
            self._begin_dump("all records are done")
        return False

    def status(self) -> pb.ParametersStatus:
        book = self.book
        return pb.ParametersStatus(
            sync=book.options.sync,
            iteration=book.iteration,
            batch=book.options.batch,
            contributions=book.contributions,
            examples=book.examples,
            stale=self._dropped[Fate.STALE],
            moved=self._dropped[Fate.MOVED],
            last_order=book.last,
            dump_order=book.base.order,
            dump_iteration=book.base.iteration,
            map_version=book.map.version,
            seats=self.seat_messages(),
            staleness=book.staleness,
            moves=self.moves,
        )

    def map_message(self) -> pb.ParameterMap:
        book = self.book
        return pb.ParameterMap(
            version=book.map.version,
            roster=book.roster,
            partitions=book.map.partitions,
            blocks={name: pb.BlockSeats(seats=seats) for name, seats in book.map.blocks.items()},
            seats=self.seat_messages(),
            tables=[json.dumps(table) for table in book.tables],
            variables=[json.dumps(variable) for variable in book.variables],
            initialized=book.initialized,
            iteration=book.iteration,
            sync=book.options.sync,
            batch=book.options.batch,
            assigned=book.assigned,
        )

    def seat_messages(self) -> list[pb.SeatStatus]:
        book = self.book
        floats = book.map.floats({s.number: s.weight for s in book.seats()})
        return [
            pb.SeatStatus(
                seat=s.number,
                node=s.node,
                address=s.address,
                tenure=s.tenure,
                partitions=book.map.partitions.count(s.number),
                floats=floats[s.number],
                weight=s.weight,
                leaving=s.leaving,
                stats=self._stats.get(s.number),
                order=self._done.get(s.number, 0),
            )
            for s in book.seats()
        ]

    # --- inside

    def _long_log(self) -> str:
        """Why a dump is due by what the servers keep on disk until there is one; empty: none is."""
        longest = max((stats.log_bytes for stats in self._stats.values()), default=0)
        fresh = self.book.iteration > self.book.base.iteration and self.book.open_dump is None
        paused = self._clock.now() - self._dumped_at >= DUMP_PAUSE
        return f"a server keeps {longest >> 20:,} MiB of pushes" if fresh and paused and longest > LONGEST_LOG else ""

    def _heard(self, session: str) -> None:
        if not self._shards.book.has_session(session):
            raise SessionExpired("the master gave this program up", hint="open a new session")
        self._shards.beat(session)

    def _end(self) -> None:
        """Once the last iteration is reached nothing more is to be trained on; what workers have in work comes back undone."""
        if not self.book.over:
            return
        for queue in self._shards.book.queues():
            if queue.is_training:
                self._shards.end_dataset(queue.spec.name)

    def _flush(self) -> None:
        """A last, smaller batch, if no more records can come."""
        if not self.book.pending:
            return
        training = [queue for queue in self._shards.book.queues() if queue.is_training]
        if training and all(queue.complete for queue in training):
            self._journal.do(self.book.flush)
            self._notify()

    def _caught_up(self) -> bool:
        """Whether the last thing that was moved has arrived."""
        moves = [order.number for order in self.book.orders(self.book.base.order, 1 << 30) if order.kind is Kind.MOVE]
        if not moves:
            return True
        return all(self._done.get(s.number, 0) >= moves[-1] for s in self.book.seats() if s.active)

    def _retire(self) -> None:
        book = self.book
        empty = book.emptied()
        for seat in empty if empty and self._caught_up() else ():
            opened = book.open_dump
            waits = opened is not None and opened.waits_for(seat.number)
            if waits and seat.address:
                continue  # it writes its part first
            self._journal.do(book.retire, seat=seat.number)
            if opened is not None and waits:
                self._called_off(opened.order, f"seat {seat.number} is gone before it wrote its part", seat.node)
            self._journal.event("parameters", f"seat {seat.number} is empty and goes", seat.node)
            self._stats.pop(seat.number, None)
            self.on_retired(seat.node)
            self._notify()

    def _rebalance(self) -> None:
        """Order the next move, if one is due and the one before has arrived."""
        book = self.book
        if not book.unbalanced or book.pending or not self._caught_up():
            return
        move: Move | None = book.movable()
        if move is None:
            self._journal.do(book.settled)
            return
        if not all(book.seat(n).address for n in (move.giver, move.taker)):
            return  # it would only wait for the one that is being replaced
        self.moves += 1
        self._journal.do(
            book.move,
            giver=move.giver,
            taker=move.taker,
            partitions=list(move.partitions),
            blocks=[list(block) for block in move.blocks],
            reason=move.reason,
        )
        log.info("moves %d partitions and %d blocks: %s", len(move.partitions), len(move.blocks), move.reason)
        self._notify()

    def _begin_dump(self, why: str, full: bool | None = None) -> Order:
        order = self._journal.do(self.book.dump, full=full)
        self._dumped_at = self._clock.now()
        log.info("dump %d (%s): %s", order.number, "full" if order.full else "what changed", why)
        self._notify()
        return order

    def _called_off(self, order: int, why: str, node: str) -> None:
        self._dumped_at = self._clock.now() - self.book.options.dump_seconds + DUMP_PAUSE
        self._no_dump_until = self._clock.now() + DUMP_PAUSE
        self._journal.event("dump", f"dump {order} is called off: {why}", node)
        self._notify()

    def _completed(self, dump: Dump) -> None:
        kind = "all parameters" if dump.full else "what changed"
        seconds = self._clock.now() - dump.begun
        text = f"dump {dump.order} of {kind} at iteration {dump.iteration:,} is complete after {seconds:.1f} s"
        self._journal.event("dump", text)
        self._notify()
        kept, base = set(self.book.kept()), self.book.base.order
        self._sweeping = asyncio.create_task(asyncio.to_thread(_sweep, self.folder, kept, base))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def verdict_message(verdict: Verdict) -> pb.ContributeReply:
    return pb.ContributeReply(
        fate=verdict.fate.value, iteration=verdict.iteration, staleness=verdict.staleness, reason=verdict.reason
    )


def parse_specs(given: Any) -> list[dict[str, Any]]:
    try:
        found = [json.loads(text) for text in given]
    except ValueError as error:
        raise InvalidRequest(f"a definition is no JSON: {error}") from None
    if not all(isinstance(spec, dict) for spec in found):
        raise InvalidRequest("a definition is an object with a name")
    return found


def _sweep(folder: Path, kept: set[int], base: int) -> None:
    """Remove the files of dumps that are not kept, and of moves that a dump covers. Later is soon enough, if it fails."""
    dumps = [path for path in (folder / "dumps").glob("*") if path.name.isdigit() and int(path.name) <= base]
    moves = [path for path in (folder / "moves").glob("*") if path.name.isdigit() and int(path.name) <= base]
    for path in [*(dump for dump in dumps if int(dump.name) not in kept), *moves]:
        shutil.rmtree(path, ignore_errors=True)
