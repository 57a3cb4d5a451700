"""Which session holds which shard: sessions, leases and reports over the queues of all datasets.

A *session* is one run of a program that talks to the master. It holds *leases*, numbered 1, 2, 3, … within the session;
each is one shard of a dataset. A program sends numbered requests, one at a time.

Invariants, checked by ``tests/core/shards/test_book_machine.py`` over random histories:

- a shard is held by at most one session; reports on leases that a session no longer holds are refused;
- the records that were ever accepted for an epoch are disjoint, and at completion they are all of them, less what
  is parked;
- a session with a lease that timed out is given nothing until it reports, nor, if it waits, while others want the dataset;
- a retried request (same number) changes nothing and is answered alike; a report of something already finished is
  accepted and ignored;
- nothing is kept of a closed session, so state does not grow with the number of workers that ever lived.

Whether a report is a duplicate or was never due is decidable without a history: numbers up to ``granted`` were leased
to this session; of those, ``held`` are in work, ``revoked`` were revoked or released, all others are finished.

Time-outs concern the *head*, the lease that a program works on (leases are worked on in order; those behind it
wait). Its clock starts when it becomes the head and restarts with every report of progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pliant.core.errors import Conflict, InvalidRequest, NotFound, SessionExpired
from pliant.core.shards import positions
from pliant.core.shards.datasets import DatasetSpec, ShardType
from pliant.core.shards.leases import Accepted, Answer, Availability, Lease, OverdueLease, Pace, Revoked, Session
from pliant.core.shards.queue import LEASE_TIMEOUT_FACTOR, EpochShard, ShardQueue
from pliant.core.state_machine import StateMachine

MAX_LEASES_PER_CALL = 4096
MAX_NAME_CHARS = 500
MAX_NOTE_CHARS = 8192  # characters, with the acknowledgement of a shard
NOTED_TYPES = frozenset({ShardType.EVAL, ShardType.PREDICT})  # types of datasets whose shards may have notes


class ShardBook(StateMachine):
    def __init__(self) -> None:
        self._queues: dict[str, ShardQueue] = {}
        self._definitions: Mapping[str, Any] = {}  # only for ``restore``
        self._sessions: dict[str, Session] = {}
        self.pace = Pace()

    # --- datasets

    def create(self, now: float, *, dataset: dict[str, Any], origin: str = "", node: str = "") -> bool:
        """Define a dataset; False if it existed already, with the same definition. ``origin``: a name that no other one has;
        ``node``: whose program defines it."""
        spec = DatasetSpec.from_json(dataset)
        spec.check()
        known = self._queues.get(spec.name)
        if known is None:
            self._queues[spec.name] = ShardQueue(spec, origin, node)
            return True
        if known.spec != spec:
            raise _defined_differently(known, spec, node)
        return False

    def grow(
        self,
        now: float,
        *,
        dataset: str,
        records: int,
        close: bool,
        producer: str = "",
        number: int = 0,
        partition: str | None = None,
        end: int | None = None,
    ) -> int:
        """Append records to a stream, or to a partition of it up to an offset; returns the length, or the partition's end. A
        producer numbers its calls, and each number counts once."""
        return self._queue(dataset).grow(
            records, close=close, producer=producer, number=number, partition=partition, end=end
        )

    def drop(self, now: float, *, dataset: str) -> None:
        """Delete a dataset that is complete."""
        queue = self._queue(dataset)
        if not queue.complete:
            raise Conflict(f"dataset {dataset!r} still has unprocessed shards")
        waiting = [n for n, q in self._queues.items() if q.spec.type is ShardType.TRAIN_END and not q.complete]
        if queue.is_training and waiting:
            raise Conflict(f"dataset {waiting[0]!r} waits for training to end, which depends on dataset {dataset!r}")
        del self._queues[dataset]

    def end(self, now: float, *, dataset: str) -> bool:
        """End a dataset early: nothing more is handed out, nor anything that is returned. False if it had ended already."""
        queue = self._queue(dataset)
        if queue.ended or queue.complete:
            return False
        queue.end()
        return True

    def commit(self, now: float, *, dataset: str, shards: int) -> tuple[Accepted, ...]:
        """Mark the first ``shards`` shards, counted over all epochs, as done: for a step plan, which needs no leases.

        Each is a step of synchronous training, which every worker computes by itself. Commits are never undone.
        """
        queue = self._queue(dataset)
        if queue.out or queue.returned or queue.spec.stream:
            raise Conflict(f"dataset {dataset!r} is leased to workers; it cannot also be committed by a plan")
        if not 0 <= shards <= queue.shards_per_epoch * queue.spec.epochs:
            total = queue.shards_per_epoch * queue.spec.epochs
            raise InvalidRequest(f"{shards} shards of dataset {dataset!r}, which has {total} in all epochs")
        accepted: list[Accepted] = []
        while queue.finished_shards < shards and (shard := queue.take()) is not None:
            extent = queue.extent(shard)
            size = extent.end - extent.start
            queue.finish(shard, size)
            accepted.append(Accepted(Lease(0, dataset, shard, extent), 0, size))
        if accepted:
            self.pace.note(now)
        return tuple(accepted)

    # --- sessions

    def open_session(self, now: float, *, session: str, node: str, incarnation: int) -> None:
        if not 0 < len(session) <= MAX_NAME_CHARS or not 0 < len(node) <= MAX_NAME_CHARS:
            raise InvalidRequest(f"a session needs a name and a node, each of at most {MAX_NAME_CHARS} characters")
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
        waiting: bool = False,
    ) -> Answer:
        """Process reports and grant leases. ``waiting``: the program does nothing else until it is given a shard.

        Reports are leases ``done``, ``[lease, records]`` done so far, ``[lease, message]`` failed, and leases ``released``,
        which are returned without counting as failures; progress may come with either of these two. ``[lease, note]`` is stored
        with a shard that is done, in the same decision: a finished shard has at most one note, whoever finished it.
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
                    shard = a.lease.shard
                    self._queues[a.lease.dataset].notes[shard.epoch, shard.ordinal] = texts[a.lease.number]
        refused += [n for n, records in progress if not self._advance(now, holder, n, records, accepted)]
        refused += [n for n, message in failed if not self._fail(now, holder, n, str(message))]
        refused += [n for n in reversed(released) if not self._give_back(now, holder, n)]
        if accepted:
            self.pace.note(now)
        if done or progress or failed or released:
            holder.timed_out = False
        if dataset is not None:
            (holder.waiting.add if waiting else holder.waiting.discard)(dataset)
        leases, availability = (
            self._grant(now, holder, dataset, want) if dataset is not None else ((), Availability.WAIT)
        )
        holder.request = request
        holder.answer = (tuple(lease.number for lease in leases), tuple(refused), availability.value)
        return Answer(leases, tuple(refused), availability, tuple(accepted))

    def acknowledge(self, now: float, *, session: str, progress: Sequence[Sequence[int]]) -> Answer:
        """Process ``[lease, records]`` done so far, all of them or (``unreportable``) none. Not numbered: the caller journals it
        together with what makes a second call impossible."""
        if lost := self.unreportable(session, progress):
            raise Conflict(f"lease {lost[0]} is not (or no longer) held by this session")
        holder, accepted = self._session(session), list[Accepted]()
        for number, records in progress:
            self._advance(now, holder, number, records, accepted)
        holder.timed_out = False
        if accepted:
            self.pace.note(now)
        return Answer((), (), Availability.WAIT, tuple(accepted))

    def close_session(self, now: float, *, session: str, blame: str = "") -> int:
        """End a session; what it holds is queued again. ``blame``: the program's failure, counted on its heads."""
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
            self._queues[lease.dataset].give_back(lease.shard)
        for lease in heads:
            self._queues[lease.dataset].fail(lease.shard, blame)
        return len(holder.held)

    def close_node(self, now: float, *, node: str, incarnation: int | None, blame: str = "") -> list[str]:
        """End every session of a node, or of one run of its program; returns their names."""
        gone = self._sessions_of(node, incarnation)
        for name in gone:
            self.close_session(now, session=name, blame=blame)
        return gone

    def lose_node(self, now: float, *, node: str, incarnation: int | None, message: str) -> list[str]:
        """As ``close_node``, of a job in which nobody does again what the dead had: their shards are lost."""
        gone = self._sessions_of(node, incarnation)
        for name in gone:
            for lease in self._sessions.pop(name).held.values():
                self._queues[lease.dataset].lose(lease.shard, message)
        return gone

    def expire(self, now: float, *, session: str, dataset: str) -> int:
        """Revoke all leases of a dataset from a session that is stuck. It is given new ones once it has reported something."""
        holder = self._session(session)
        queue = self._queue(dataset)
        stuck = [lease for lease in holder.held.values() if lease.dataset == dataset]
        since = holder.head_since.pop(dataset, now)
        # The time-out at most doubles: the program may have been suspended.
        max_learned_s = 2 * queue.lease_timeout() / LEASE_TIMEOUT_FACTOR
        for lease in reversed(stuck[1:]):
            queue.give_back(lease.shard)
        if stuck:
            queue.time_out(stuck[0].shard, f"no report from {holder.node} for {now - since:.0f} s")
        for lease in stuck:
            del holder.held[lease.number]
            holder.revoked[lease.number] = Revoked(dataset, since, max_learned_s)
            holder.timed_out = True
        return len(stuck)

    def retry_parked(self, now: float) -> int:
        """Somebody resumes a failed job: shards that kept failing get another chance; returns how many."""
        return sum(queue.retry_parked() for queue in self._queues.values())

    def forgive(self, now: float) -> None:
        """The master was unavailable: nobody could report meanwhile, so silence is counted from now on."""
        for holder in self._sessions.values():
            holder.head_since = dict.fromkeys(holder.head_since, now)

    # --- reading

    def unreportable(self, session: str, progress: Sequence[Sequence[int]]) -> list[int]:
        """Finder: of these reports, the leases that this session does not hold, or on which they report nothing new."""
        holder = self._session(session)
        self._check_request(holder, holder.request + 1, None, 0, (), progress, (), ())
        held = ((number, records, holder.held.get(number)) for number, records in progress)
        return [number for number, records, lease in held if lease is None or records <= lease.shard.offset]

    def held_records(self, session: str, lease: int) -> tuple[int, int]:
        """Of a lease that this session holds: how many records are accepted, in the shard's own order, and how many it has; both
        are -1 if it does not hold it."""
        held = self._session(session).held.get(lease)
        return (held.shard.offset, held.size) if held is not None else (-1, -1)

    def queues(self) -> list[ShardQueue]:
        return list(self._queues.values())

    def queue(self, dataset: str) -> ShardQueue:
        return self._queue(dataset)

    def sessions(self) -> list[str]:
        return list(self._sessions)

    def node_of(self, session: str) -> str:
        return self._session(session).node

    def leases(self) -> list[tuple[str, Lease]]:
        """All that are held, each with the node that holds it."""
        return [(holder.node, lease) for holder in self._sessions.values() for lease in holder.held.values()]

    def has_session(self, session: str) -> bool:
        return session in self._sessions

    def is_holding(self, session: str) -> bool:
        return bool(self._session(session).held)

    def is_stuck(self, session: str) -> bool:
        """Whether a lease of it timed out and it has reported nothing since."""
        return self._session(session).timed_out

    def availability(self, dataset: str, session: str = "") -> Availability:
        """``session``: to this one, if it is known; else to any that is not stuck."""
        queue, holder = self._queue(dataset), self._sessions.get(session)
        found = self._availability(queue)
        withheld = holder is not None and found is Availability.MORE and self._is_withheld(holder, dataset)
        return Availability.WAIT if withheld else found

    def _availability(self, queue: ShardQueue) -> Availability:
        if queue.complete:
            return Availability.END
        if not self._gate_open(queue):
            return Availability.WAIT
        empty = not queue.returned and queue.cursor >= queue.shards_per_epoch
        can_open = queue.epoch + 1 < queue.spec.epochs and not (queue.spec.epoch_barrier and queue.out)
        if queue.ended:
            return Availability.WAIT  # for what is still out
        return Availability.WAIT if empty and not can_open else Availability.MORE

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

    def _grant(
        self, now: float, holder: Session, dataset: str | None, want: int
    ) -> tuple[tuple[Lease, ...], Availability]:
        queue = self._queue(dataset or "")
        leases: list[Lease] = []
        withheld = self._is_withheld(holder, queue.spec.name)
        if want and self._gate_open(queue) and not withheld:
            name, layout, listed = queue.spec.name, queue.layout, bool(queue.spec.indices)
            number, held = holder.granted, holder.held
            while len(leases) < want and (shard := queue.take()) is not None:
                number += 1
                extent = queue.extent(shard)
                lease = Lease(number, name, shard, extent, layout.indices(extent) if listed else ())
                held[number] = lease
                leases.append(lease)
            holder.granted = number
            if leases:
                holder.head_since.setdefault(name, now)
        availability = self._availability(queue)
        if withheld and availability is Availability.MORE:
            availability = Availability.WAIT
        return tuple(leases), availability

    def _is_withheld(self, holder: Session, dataset: str) -> bool:
        """Whether others come first: a program whose lease timed out may hang, and would hold what it is given as long again.

        One that says that it waits for shards does not hang. It still comes after others, but if there are none it is served: it
        may be unable to report anything before it has more.
        """
        if not holder.timed_out:
            return False
        others = (s for s in self._sessions.values() if s is not holder and not s.timed_out)
        return dataset not in holder.waiting or any(s.is_after(dataset) for s in others)

    def _finish(self, now: float, holder: Session, numbers: Sequence[int], accepted: list[Accepted]) -> list[int]:
        """Returns those refused. Leases are finished by the thousand, so the clocks of their heads move once for all."""
        held, queues, refused = holder.held, self._queues, []
        moved: dict[str, None] = {}  # ordered, so that a replay yields the same state
        for number in numbers:
            lease = held.pop(number, None)
            if lease is not None:
                size = lease.size
                queues[lease.dataset].finish(lease.shard, size)
                accepted.append(Accepted(lease, lease.shard.offset, size))
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
        if records == lease.size:  # finished: nothing of it may be queued or parked again
            return not self._finish(now, holder, [number], accepted)
        if records > lease.shard.offset:  # else an older report that arrives late
            accepted.append(Accepted(lease, lease.shard.offset, records))
            shard = self._queues[lease.dataset].advance(lease.shard, records)
            holder.held[number] = replace(lease, shard=shard)
        holder.head_since[lease.dataset] = now
        return True

    def _fail(self, now: float, holder: Session, number: int, message: str) -> bool:
        lease = holder.held.get(number)
        if lease is None:
            return self._was_finished(now, holder, number)
        self._queues[lease.dataset].fail(lease.shard, message)
        self._release(now, holder, lease)
        holder.revoked[number] = Revoked(lease.dataset, now)  # another session may do it now
        return True

    def _give_back(self, now: float, holder: Session, number: int) -> bool:
        lease = holder.held.get(number)
        if lease is None:
            return self._was_finished(now, holder, number)
        self._queues[lease.dataset].give_back(lease.shard)
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
            queue.slowest_s = max(queue.slowest_s, now - holder.head_since.get(dataset, now))
        if any(other.dataset == dataset for other in holder.held.values()):
            holder.head_since[dataset] = now
        else:
            holder.head_since.pop(dataset, None)

    def _was_finished(self, now: float, holder: Session, number: int) -> bool:
        """Of a lease that is not held: True if it was finished before, False if it was revoked."""
        revoked = holder.revoked.get(number)
        if revoked is None:
            return True
        queue = self._queues.get(revoked.dataset)
        if queue is not None:  # the time-out was too short
            queue.slowest_s = max(queue.slowest_s, min(now - revoked.since, revoked.max_learned_s))
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
            raise InvalidRequest(f"invalid request number {request}; requests are numbered from 1")
        if request < holder.request:
            raise InvalidRequest(f"request {request} is older than {holder.request}, the last one answered")
        if not 0 <= want <= MAX_LEASES_PER_CALL:
            raise InvalidRequest(f"{want} shards in one call; allowed: 0 to {MAX_LEASES_PER_CALL}")
        if dataset is not None:
            self._queue(dataset)
        advanced, ended = [n for n, _ in progress], [*done, *(n for n, _ in failed), *released]
        numbers = [*advanced, *ended]
        is_unique = len(set(ended)) == len(ended) and len(set(advanced)) == len(advanced)
        if not is_unique or not set(advanced).isdisjoint(done):
            raise InvalidRequest("a lease was reported twice in one call")
        for number in numbers:
            if not 1 <= number <= holder.granted:
                raise InvalidRequest(f"lease {number} was never granted to this session")
        for number, records in progress:
            lease = holder.held.get(number)
            if records < 0 or (lease is not None and records > lease.size):
                size = lease.size if lease is not None else "no more"
                raise InvalidRequest(f"{records} records reported for lease {number}, which has {size}")

    def _check_notes(self, holder: Session, done: Sequence[int], notes: Sequence[Sequence[Any]]) -> None:
        for number, text in notes:
            if number not in done:
                raise InvalidRequest(f"a note on lease {number}, which is not reported as done")
            if len(str(text)) > MAX_NOTE_CHARS:
                raise InvalidRequest(f"a note of {len(str(text))} characters; allowed: {MAX_NOTE_CHARS}")
            lease = holder.held.get(number)
            if lease is not None and self._queues[lease.dataset].spec.type not in NOTED_TYPES:
                kinds = ", ".join(sorted(NOTED_TYPES))
                raise InvalidRequest(
                    f"a note on a shard of {lease.dataset!r}; only datasets of type {kinds} have notes"
                )

    def _repeat(self, holder: Session) -> Answer:
        numbers, refused, availability = holder.answer
        leases = tuple(holder.held[n] for n in numbers if n in holder.held)
        return Answer(leases, refused, Availability(availability), repeated=True)

    def _gate_open(self, queue: ShardQueue) -> bool:
        """A train-end shard is available once all training data is done."""
        if queue.spec.type is not ShardType.TRAIN_END:
            return True
        training = [q for q in self._queues.values() if q.is_training]
        return bool(training) and all(q.complete for q in training)

    def _sessions_of(self, node: str, incarnation: int | None) -> list[str]:
        """All of a node, or those of one run of its program and of the runs before it."""
        return [
            name
            for name, s in self._sessions.items()
            if s.node == node and (incarnation is None or s.incarnation <= incarnation)
        ]

    def _queue(self, dataset: str) -> ShardQueue:
        queue = self._queues.get(dataset)
        if queue is None:
            known = ", ".join(sorted(self._queues)) or "none yet"
            raise NotFound(f"dataset {dataset!r} not found", hint=f"datasets of this job: {known}")
        return queue

    def _session(self, session: str) -> Session:
        holder = self._sessions.get(session)
        if holder is None:
            raise SessionExpired("unknown or closed session", hint="open a new one")
        return holder

    # --- as JSON

    def definitions(self) -> dict[str, Any]:
        """Never change, and are as long as the user's lists of indices; stored apart from what changes."""
        return {name: queue.spec.to_json() for name, queue in self._queues.items()}

    def snapshot(self) -> dict[str, Any]:
        return {
            "queues": {name: queue.snapshot() for name, queue in self._queues.items()},
            "sessions": {
                name: {
                    "node": s.node,
                    "incarnation": s.incarnation,
                    "granted": s.granted,
                    "held": [[n, lease.dataset, lease.shard.to_json()] for n, lease in s.held.items()],
                    "revoked": [[n, r.dataset, r.since, r.max_learned_s] for n, r in s.revoked.items()],
                    "head_since": s.head_since.copy(),
                    "timed_out": s.timed_out,
                    "waiting": sorted(s.waiting),
                    "request": s.request,
                    "answer": [list(s.answer[0]), list(s.answer[1]), s.answer[2]],
                }
                for name, s in self._sessions.items()
            },
            "pace": [self.pace.last, self.pace.typical, self.pace.stalled],
        }

    def restore_definitions(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def restore(self, state: Mapping[str, Any]) -> None:
        self._queues = {}
        for name, queue_state in state["queues"].items():
            queue = self._queues[name] = ShardQueue(DatasetSpec.from_json(self._definitions[name]))
            queue.restore(queue_state)
        self.pace = Pace(*state["pace"])
        self._sessions = {}
        for name, s in state["sessions"].items():
            holder = self._sessions[name] = Session(s["node"], s["incarnation"], s["granted"])
            for number, dataset, fields in s["held"]:
                holder.held[number] = self._restore_lease(number, dataset, EpochShard(*fields))
            holder.revoked = {n: Revoked(*taken) for n, *taken in s["revoked"]}
            holder.head_since = dict(s["head_since"])
            holder.timed_out = s["timed_out"]
            holder.waiting = set(s["waiting"])
            holder.request = s["request"]
            numbers, refused, availability = s["answer"]
            holder.answer = (tuple(numbers), tuple(refused), availability)

    def _restore_lease(self, number: int, dataset: str, shard: EpochShard) -> Lease:
        queue = self._queues[dataset]
        queue.out += 1
        extent = queue.extent(shard)
        return Lease(number, dataset, shard, extent, queue.layout.indices(extent))

    def checkpoint(self) -> dict[str, Any]:
        """The progress of each dataset, for another job to resume; leased shards count as not done."""
        out: dict[str, list[EpochShard]] = {}
        for holder in self._sessions.values():
            for lease in holder.held.values():
                out.setdefault(lease.dataset, []).append(lease.shard)
        saved = {
            name: {
                "origin": queue.origin,
                "layout": queue.layout_fields,
                "state": queue.position(out.get(name, ())),
            }
            for name, queue in self._queues.items()
        }
        return {"version": positions.VERSION, "datasets": saved}

    def restore_checkpoint(self, now: float, *, checkpoint: dict[str, Any]) -> list[str]:
        """Begin its datasets at the saved positions; returns those for which that had an effect (see ``positions``)."""
        positions.check_version(checkpoint)
        found = {
            name: positions.to_restore(self._queue(name), entry)
            for name, entry in checkpoint.get("datasets", {}).items()
        }
        taken = {name: position for name, position in found.items() if position is not None}
        for name, position in taken.items():
            self._queues[name].begin_at(position)
        return list(taken)


def _defined_differently(known: ShardQueue, given: DatasetSpec, node: str) -> Conflict:
    old, new = known.spec.described_fields(), given.described_fields()
    different = [field for field in old if old[field] != new[field]]
    before = ", ".join(f"{field} {old[field]}" for field in different)
    now = ", ".join(f"{field} {new[field]}" for field in different)
    return Conflict(
        f"dataset {given.name!r} already exists with {before}, defined by {known.defined_by or 'the job'}; "
        f"{node or 'this program'} gave {now}",
        hint="every worker defines a dataset with the same values; another dataset needs another name",
    )
