"""Who holds which shard: sessions, leases and reports over the queues of all datasets.

A *session* is one run of a program that talks to the master. It holds *leases*, numbered 1, 2, 3, … within the session;
each is one piece of a dataset. A program sends numbered requests, one at a time.

Invariants, checked by ``tests/core/test_shards_machine.py`` over random histories:

- a piece is held by at most one session; what a session no longer holds it cannot report (it is refused);
- the records that were ever accepted for an epoch are disjoint, and at completion they are all of them, less what
  is parked;
- a request that is sent again (same number) changes nothing and gets the same answer; a report of something
  already finished is accepted in silence;
- a closed session is forgotten whole, so state does not grow with the number of workers that ever lived.

Which report is a duplicate and which comes from a stranger is told without a history: numbers up to ``granted`` were
given to this session; of those, ``held`` are in work, ``revoked`` were taken away or given up, all others are finished.

Time-outs concern the *head*, the lease that a program works on (leases are worked on in order; those behind it
wait). Its clock starts when it becomes the head and restarts with every report of progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pliant.core.datasets import DatasetSpec, ShardType
from pliant.core.errors import Conflict, InvalidRequest, NotFound, SessionExpired
from pliant.core.leases import Accepted, Answer, Lease, OverdueLease, Pace, Revoked, Session, Supply
from pliant.core.shard_queue import PATIENCE, Piece, ShardQueue, pack, unpack

MOST_LEASES_PER_CALL = 4096
LONGEST_NAME = 500
LONGEST_NOTE = 8192  # characters, with the acknowledgement of a shard
NOTED = frozenset({ShardType.EVAL, ShardType.PREDICT})  # types of datasets whose shards may have notes


class ShardBook:
    def __init__(self) -> None:
        self._queues: dict[str, ShardQueue] = {}
        self._sessions: dict[str, Session] = {}
        self.pace = Pace()

    # --- datasets

    def create(self, now: float, *, dataset: dict[str, Any]) -> bool:
        """Define a dataset; False if it was there, defined the same."""
        spec = DatasetSpec.from_json(dataset)
        spec.check()
        known = self._queues.get(spec.name)
        if known is None:
            self._queues[spec.name] = ShardQueue(spec)
            return True
        if known.spec != spec:
            old, new = known.spec.to_json(), spec.to_json()
            differs = [f for f in old if old[f] != new[f]]
            shown = "; ".join(f"{f}: {_short(old[f])} before, {_short(new[f])} now" for f in differs)
            raise Conflict(f"dataset {spec.name!r} is defined already, otherwise: {shown}")
        return False

    def grow(self, now: float, *, dataset: str, records: int, close: bool, producer: str = "", number: int = 0) -> int:
        """Add records to a stream; gives its length. A producer numbers its calls, and each number counts once."""
        return self._queue(dataset).grow(records, close=close, producer=producer, number=number)

    def drop(self, now: float, *, dataset: str) -> None:
        """Forget a dataset that nobody works on any more."""
        queue = self._queue(dataset)
        if not queue.complete:
            raise Conflict(f"dataset {dataset!r} still has shards to do")
        waiting = [n for n, q in self._queues.items() if q.spec.type is ShardType.TRAIN_END and not q.complete]
        if queue.is_training and waiting:
            raise Conflict(f"dataset {waiting[0]!r} comes after training, which it tells by dataset {dataset!r}")
        del self._queues[dataset]

    def end(self, now: float, *, dataset: str) -> bool:
        """Declare a dataset over: nothing more is handed out, also of what is out and comes back. False if it was over already."""
        queue = self._queue(dataset)
        if queue.ended or queue.complete:
            return False
        queue.end()
        return True

    def commit(self, now: float, *, dataset: str, shards: int) -> tuple[Accepted, ...]:
        """The first ``shards`` shards, counted over all epochs, are done: for a plan that needs no leases.

        Each is a step of synchronous training, which every worker computes by itself. What is committed already stays so.
        """
        queue = self._queue(dataset)
        if queue.out or queue.returned or queue.spec.stream:
            raise Conflict(f"dataset {dataset!r} is handed out by leases; it cannot be committed by a plan as well")
        if not 0 <= shards <= queue.shards_per_epoch * queue.spec.epochs:
            most = queue.shards_per_epoch * queue.spec.epochs
            raise InvalidRequest(f"{shards} shards of dataset {dataset!r}, which has {most} in all epochs")
        accepted: list[Accepted] = []
        while queue.finished_shards < shards and (piece := queue.take()) is not None:
            extent = queue.extent(piece)
            size = extent.end - extent.start
            queue.finish(piece, size)
            accepted.append(Accepted(Lease(0, dataset, piece, extent), 0, size))
        if accepted:
            self.pace.note(now)
        return tuple(accepted)

    # --- sessions

    def open_session(self, now: float, *, session: str, node: str, incarnation: int) -> None:
        if not 0 < len(session) <= LONGEST_NAME or not 0 < len(node) <= LONGEST_NAME:
            raise InvalidRequest(f"a session needs a name and a node, each of at most {LONGEST_NAME} characters")
        known = self._sessions.get(session)
        if known is not None and known.node != node:
            raise Conflict(f"session {session!r} belongs to {known.node}")
        if known is None:
            self._sessions[session] = Session(node, incarnation)

    def exchange(
        self,
        now: float,
        *,
        session: str,
        request: int,
        dataset: str | None,
        want: int,
        done: Sequence[int] = (),
        progress: Sequence[Sequence[int]] = (),
        failed: Sequence[Sequence[Any]] = (),
        released: Sequence[int] = (),
        notes: Sequence[Sequence[Any]] = (),
    ) -> Answer:
        """Take reports and give leases.

        Reports are leases ``done``, ``[lease, records]`` done so far, ``[lease, message]`` failed, and leases ``released``,
        which are given back without blame. ``[lease, note]`` of a shard that is done is kept with it, in the same decision:
        there is one note for each finished shard that has one, whoever finished it.
        """
        holder = self._session(session)
        if request == holder.request > 0:
            return self._repeat(holder)
        self._check_request(holder, request, dataset, want, done, progress, failed, released)
        self._check_notes(holder, done, notes)
        accepted: list[Accepted] = []
        refused = self._finish(now, holder, done, accepted)
        if notes:
            texts = {number: str(text) for number, text in notes}
            for a in accepted:
                if a.lease.number in texts:
                    piece = a.lease.piece
                    self._queues[a.lease.dataset].notes[piece.epoch, piece.ordinal] = texts[a.lease.number]
        refused += [n for n, records in progress if not self._advance(now, holder, n, records, accepted)]
        refused += [n for n, message in failed if not self._fail(now, holder, n, str(message))]
        refused += [n for n in reversed(released) if not self._give_back(now, holder, n)]
        if accepted:
            self.pace.note(now)
        leases, supply = self._grant(now, holder, dataset, want) if dataset is not None else ((), Supply.WAIT)
        holder.request = request
        holder.answer = (tuple(lease.number for lease in leases), tuple(refused), supply.value)
        return Answer(leases, tuple(refused), supply, tuple(accepted))

    def acknowledge(self, now: float, *, session: str, progress: Sequence[Sequence[int]]) -> Answer:
        """Take ``[lease, records]`` done so far, all of them or (``unreportable``) none. Not numbered: whoever calls this
        journals it together with what makes a second call impossible."""
        if lost := self.unreportable(session, progress):
            raise Conflict(f"lease {lost[0]} cannot be reported by this session (any more)")
        holder, accepted = self._session(session), list[Accepted]()
        for number, records in progress:
            self._advance(now, holder, number, records, accepted)
        if accepted:
            self.pace.note(now)
        return Answer((), (), Supply.WAIT, tuple(accepted))

    def close_session(self, now: float, *, session: str, blame: str = "") -> int:
        """End a session; what it holds is queued again. ``blame`` is the program's failure on its heads, if any."""
        holder = self._sessions.pop(session, None)
        if holder is None:
            return 0
        blamed: set[str] = set()
        heads: list[Lease] = []
        rest: list[Lease] = []
        for lease in holder.held.values():
            is_head = lease.dataset not in blamed
            blamed.add(lease.dataset)
            (heads if is_head and blame else rest).append(lease)
        for lease in reversed(rest):
            self._queues[lease.dataset].give_back(lease.piece)
        for lease in heads:
            self._queues[lease.dataset].fail(lease.piece, blame)
        return len(holder.held)

    def close_node(self, now: float, *, node: str, incarnation: int | None, blame: str = "") -> list[str]:
        """End every session of a node, or of one run of its program; gives their names."""
        gone = [
            name
            for name, s in self._sessions.items()
            if s.node == node and (incarnation is None or s.incarnation <= incarnation)
        ]
        for name in gone:
            self.close_session(now, session=name, blame=blame)
        return gone

    def expire(self, now: float, *, session: str, dataset: str) -> int:
        """Take back all leases of a dataset from a session that is stuck; it may go on with new ones."""
        holder = self._session(session)
        queue = self._queue(dataset)
        stuck = [lease for lease in holder.held.values() if lease.dataset == dataset]
        since = holder.head_since.pop(dataset, now)
        most = 2 * queue.lease_timeout() / PATIENCE  # the time-out may double, no more: the program may have slept
        for lease in reversed(stuck[1:]):
            queue.give_back(lease.piece)
        if stuck:
            queue.time_out(stuck[0].piece, f"no report from {holder.node} for {now - since:.0f} s")
        for lease in stuck:
            del holder.held[lease.number]
            holder.revoked[lease.number] = Revoked(dataset, since, most)
        return len(stuck)

    def forgive(self, now: float) -> None:
        """The master was away: nobody could report meanwhile, so silence is counted from now on."""
        for holder in self._sessions.values():
            holder.head_since = dict.fromkeys(holder.head_since, now)

    # --- reading

    def unreportable(self, session: str, progress: Sequence[Sequence[int]]) -> list[int]:
        """Finder: of these reports, the leases that this session does not hold, or of which nothing new is told."""
        holder = self._session(session)
        self._check_request(holder, holder.request + 1, None, 0, (), progress, (), ())
        held = ((number, records, holder.held.get(number)) for number, records in progress)
        return [number for number, records, lease in held if lease is None or records <= lease.piece.offset]

    def queues(self) -> list[ShardQueue]:
        return list(self._queues.values())

    def queue(self, dataset: str) -> ShardQueue:
        return self._queue(dataset)

    def sessions(self) -> list[str]:
        return list(self._sessions)

    def node_of(self, session: str) -> str:
        return self._session(session).node

    def has_session(self, session: str) -> bool:
        return session in self._sessions

    def is_holding(self, session: str) -> bool:
        return bool(self._session(session).held)

    def supply(self, dataset: str) -> Supply:
        queue = self._queue(dataset)
        if queue.complete:
            return Supply.END
        if not self._gate_open(queue):
            return Supply.WAIT
        empty = not queue.returned and queue.cursor >= queue.shards_per_epoch
        can_open = queue.epoch + 1 < queue.spec.epochs and not (queue.spec.epoch_barrier and queue.out)
        if queue.ended:
            return Supply.WAIT  # for what is still out
        return Supply.WAIT if empty and not can_open else Supply.MORE

    def complete(self) -> bool:
        return all(q.complete for q in self._queues.values())

    def overdue(self, now: float) -> list[OverdueLease]:
        """Finder: heads without any report for longer than their dataset allows."""
        found = []
        for name, holder in self._sessions.items():
            seen: set[str] = set()
            for lease in holder.held.values():
                if lease.dataset in seen:
                    continue
                seen.add(lease.dataset)
                silent = now - holder.head_since.get(lease.dataset, now)
                allowed = self._queues[lease.dataset].lease_timeout()
                if silent > allowed:
                    found.append(OverdueLease(name, lease.dataset, lease.number, silent, allowed))
        return found

    # --- granting and taking reports

    def _grant(self, now: float, holder: Session, dataset: str | None, want: int) -> tuple[tuple[Lease, ...], Supply]:
        queue = self._queue(dataset or "")
        leases: list[Lease] = []
        if want and self._gate_open(queue):
            name, layout, listed = queue.spec.name, queue.layout, bool(queue.spec.indices)
            number, held = holder.granted, holder.held
            while len(leases) < want and (piece := queue.take()) is not None:
                number += 1
                extent = queue.extent(piece)
                lease = Lease(number, name, piece, extent, layout.indices(extent) if listed else ())
                held[number] = lease
                leases.append(lease)
            holder.granted = number
            if leases:
                holder.head_since.setdefault(name, now)
        return tuple(leases), self.supply(queue.spec.name)

    def _finish(self, now: float, holder: Session, numbers: Sequence[int], accepted: list[Accepted]) -> list[int]:
        """Gives those refused. Leases are finished by the thousand, so the clocks of their heads move once for all."""
        held, queues, refused = holder.held, self._queues, []
        moved: dict[str, None] = {}  # in order, so that a replay gives the same state
        for number in numbers:
            lease = held.pop(number, None)
            if lease is not None:
                size = lease.size
                queues[lease.dataset].finish(lease.piece, size)
                accepted.append(Accepted(lease, lease.piece.offset, size))
                moved[lease.dataset] = None
            elif not self._was_finished(now, holder, number):
                refused.append(number)
        for dataset in moved:
            self._move_head(now, holder, dataset)
        return refused

    def _advance(self, now: float, holder: Session, number: int, records: int, accepted: list[Accepted]) -> bool:
        lease = holder.held.get(number)
        if lease is None:
            return self._was_finished(now, holder, number)
        if records == lease.size:  # nothing is left of it, so nothing may be queued or parked again
            return not self._finish(now, holder, [number], accepted)
        if records > lease.piece.offset:  # an older report may arrive later; it says nothing new
            accepted.append(Accepted(lease, lease.piece.offset, records))
            piece = self._queues[lease.dataset].advance(lease.piece, records)
            holder.held[number] = replace(lease, piece=piece)
        holder.head_since[lease.dataset] = now
        return True

    def _fail(self, now: float, holder: Session, number: int, message: str) -> bool:
        lease = holder.held.get(number)
        if lease is None:
            return self._was_finished(now, holder, number)
        self._queues[lease.dataset].fail(lease.piece, message)
        self._release(now, holder, lease)
        holder.revoked[number] = Revoked(lease.dataset, now)  # someone else may do it now
        return True

    def _give_back(self, now: float, holder: Session, number: int) -> bool:
        lease = holder.held.get(number)
        if lease is None:
            return self._was_finished(now, holder, number)
        self._queues[lease.dataset].give_back(lease.piece)
        self._release(now, holder, lease, learn=False)
        holder.revoked[number] = Revoked(lease.dataset, now)
        return True

    def _release(self, now: float, holder: Session, lease: Lease, *, learn: bool = True) -> None:
        del holder.held[lease.number]
        self._move_head(now, holder, lease.dataset, learn=learn)

    def _move_head(self, now: float, holder: Session, dataset: str, *, learn: bool = True) -> None:
        """Leases of a dataset left a session: its next one, if any, is worked on from now on."""
        queue = self._queues[dataset]
        if learn:
            queue.longest = max(queue.longest, now - holder.head_since.get(dataset, now))
        if any(other.dataset == dataset for other in holder.held.values()):
            holder.head_since[dataset] = now
        else:
            holder.head_since.pop(dataset, None)

    def _was_finished(self, now: float, holder: Session, number: int) -> bool:
        """Of a lease that is not held: True if it was finished before, False if it was taken away."""
        taken = holder.revoked.get(number)
        if taken is None:
            return True
        queue = self._queues.get(taken.dataset)
        if queue is not None:  # the time-out was too short
            queue.longest = max(queue.longest, min(now - taken.since, taken.most))
        return False

    def _check_request(
        self,
        holder: Session,
        request: int,
        dataset: str | None,
        want: int,
        done: Sequence[int],
        progress: Sequence[Sequence[int]],
        failed: Sequence[Sequence[Any]],
        released: Sequence[int],
    ) -> None:
        if request < 1:
            raise InvalidRequest(f"request {request}; requests are numbered from 1")
        if request < holder.request:
            raise InvalidRequest(f"request {request} is older than {holder.request}, the last one answered")
        if not 0 <= want <= MOST_LEASES_PER_CALL:
            raise InvalidRequest(f"{want} shards in one call; allowed: 0 to {MOST_LEASES_PER_CALL}")
        if dataset is not None:
            self._queue(dataset)
        numbers = [*done, *(n for n, _ in progress), *(n for n, _ in failed), *released]
        if len(set(numbers)) != len(numbers):
            raise InvalidRequest("a lease is reported twice in one call")
        for number in numbers:
            if not 1 <= number <= holder.granted:
                raise InvalidRequest(f"lease {number} was never given to this session")
        for number, records in progress:
            lease = holder.held.get(number)
            if records < 0 or (lease is not None and records > lease.size):
                most = lease.size if lease is not None else "no more"
                raise InvalidRequest(f"{records} records of lease {number}, which has {most}")

    def _check_notes(self, holder: Session, done: Sequence[int], notes: Sequence[Sequence[Any]]) -> None:
        for number, text in notes:
            if number not in done:
                raise InvalidRequest(f"a note on lease {number}, which is not reported as done")
            if len(str(text)) > LONGEST_NOTE:
                raise InvalidRequest(f"a note of {len(str(text))} characters; allowed: {LONGEST_NOTE}")
            lease = holder.held.get(number)
            if lease is not None and self._queues[lease.dataset].spec.type not in NOTED:
                kinds = ", ".join(sorted(NOTED))
                raise InvalidRequest(
                    f"a note on a shard of {lease.dataset!r}; only datasets of type {kinds} have notes"
                )

    def _repeat(self, holder: Session) -> Answer:
        numbers, refused, supply = holder.answer
        leases = tuple(holder.held[n] for n in numbers if n in holder.held)
        return Answer(leases, refused, Supply(supply), repeated=True)

    def _gate_open(self, queue: ShardQueue) -> bool:
        """A train-end shard is there once all training data is done."""
        if queue.spec.type is not ShardType.TRAIN_END:
            return True
        training = [q for q in self._queues.values() if q.is_training]
        return bool(training) and all(q.complete for q in training)

    def _queue(self, dataset: str) -> ShardQueue:
        queue = self._queues.get(dataset)
        if queue is None:
            known = ", ".join(sorted(self._queues)) or "none yet"
            raise NotFound(f"there is no dataset {dataset!r}", hint=f"datasets of this job: {known}")
        return queue

    def _session(self, session: str) -> Session:
        holder = self._sessions.get(session)
        if holder is None:
            raise SessionExpired("the master does not know this session (any more)", hint="open a new one")
        return holder

    # --- as JSON

    def definitions(self) -> dict[str, Any]:
        """Fixed once created, and as long as the user's lists of indices; stored apart from what changes."""
        return {name: queue.spec.to_json() for name, queue in self._queues.items()}

    def snapshot(self) -> dict[str, Any]:
        return {
            "queues": {name: queue.snapshot() for name, queue in self._queues.items()},
            "sessions": {
                name: {
                    "node": s.node,
                    "incarnation": s.incarnation,
                    "granted": s.granted,
                    "held": [[n, lease.dataset, lease.piece.to_json()] for n, lease in s.held.items()],
                    "revoked": [[n, r.dataset, r.since, r.most] for n, r in s.revoked.items()],
                    "head_since": s.head_since.copy(),
                    "request": s.request,
                    "answer": [list(s.answer[0]), list(s.answer[1]), s.answer[2]],
                }
                for name, s in self._sessions.items()
            },
            "pace": [self.pace.last, self.pace.typical, self.pace.stalled],
        }

    def restore(self, state: dict[str, Any], definitions: dict[str, Any]) -> None:
        self._queues = {}
        for name, queue_state in state["queues"].items():
            queue = self._queues[name] = ShardQueue(DatasetSpec.from_json(definitions[name]))
            queue.restore(queue_state)
        self.pace = Pace(*state["pace"])
        self._sessions = {}
        for name, s in state["sessions"].items():
            holder = self._sessions[name] = Session(s["node"], s["incarnation"], s["granted"])
            for number, dataset, fields in s["held"]:
                holder.held[number] = self._lease_again(number, dataset, Piece(*fields))
            holder.revoked = {n: Revoked(*taken) for n, *taken in s["revoked"]}
            holder.head_since = dict(s["head_since"])
            holder.request = s["request"]
            numbers, refused, supply = s["answer"]
            holder.answer = (tuple(numbers), tuple(refused), supply)

    def _lease_again(self, number: int, dataset: str, piece: Piece) -> Lease:
        queue = self._queues[dataset]
        queue.out += 1
        extent = queue.extent(piece)
        return Lease(number, dataset, piece, extent, queue.layout.indices(extent))

    def checkpoint(self) -> dict[str, Any]:
        """Where each dataset stands, for another job to continue; what is in work counts as not done."""
        out: dict[str, list[Piece]] = {}
        for holder in self._sessions.values():
            for lease in holder.held.values():
                out.setdefault(lease.dataset, []).append(lease.piece)
        saved = {}
        for name, queue in self._queues.items():
            state = queue.snapshot()
            in_work = sorted(out.get(name, []), key=lambda p: (p.epoch, p.ordinal))
            state["returned"] = pack(in_work + unpack(state["returned"]))
            saved[name] = {"definition": queue.spec.fingerprint(), "state": state}
        return {"version": 1, "datasets": saved}

    def restore_checkpoint(self, now: float, *, checkpoint: dict[str, Any]) -> list[str]:
        """Continue from a checkpoint: the datasets it names must be defined here, the same, and nobody at work."""
        if checkpoint.get("version") != 1:
            raise InvalidRequest(f"a shard checkpoint of version {checkpoint.get('version')!r}; this release reads 1")
        saved = checkpoint.get("datasets", {})
        for name, entry in saved.items():
            self._check_saved(name, entry)
        for name, entry in saved.items():
            self._queues[name].restore(entry["state"])
        return list(saved)

    def _check_saved(self, name: str, entry: dict[str, Any]) -> None:
        queue = self._queue(name)
        if queue.spec.fingerprint() != entry.get("definition"):
            raise Conflict(f"the checkpoint's dataset {name!r} was defined otherwise than it is now")
        if queue.out:
            raise Conflict(f"dataset {name!r} is being worked on; restore before workers start")
        trial = ShardQueue(queue.spec)
        try:
            trial.restore(entry["state"])
            trial.check()
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(f"the checkpoint of dataset {name!r} is damaged: {error!r}") from error


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
