"""The window of a worker's pushes that are not decided yet: it computes on while servers stage them and the master decides.

    window = parameters.window(4)
    window.push(model.iteration, examples=…, dense=…, rows=…, shards=[(shard, begin, end)], work=batch)
    for decided in window.collect(): ...        # decided.work, decided.pushed.accepted, decided.pushed.stale
    for decided in window.drain(): ...          # waits for all of them

``push`` sends a gradient to the servers and returns. A thread waits until all of them have it, then asks the master to decide.
What gathers while one question is on its way goes with the next, as one batch that the master journals in one transaction.

1. One batch is on its way at a time, and is sent again unchanged until it is answered. So pushes are decided in the order in
   which they were made, each once.
2. Records of a shard are accepted without a gap, since each push names after how many of them it comes. If one is refused, the
   master refuses those after it of the same shard: they come back as stale, too, and are computed again in order.
3. Nothing is decided that is not staged on all servers that it is for. A push waits until the one before it is staged.
4. ``push`` returns when fewer than ``size`` are undecided: a worker's own pushes make its next one at most ``size`` - 1 iterations
   older, and servers keep at most ``size`` of it. Each time that a gradient is refused as too old, the window is halved.
5. What was not decided when the worker died is discarded with its session; its records go to others.
6. Everything but the thread's own calls happens in the worker's thread: the outcome of a push is known there, in its order.

Neighbours: ``client`` (makes one), ``staging_lane`` (what is on its way to servers), ``push_pipeline`` (the loop around it).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from pliant.core.errors import InvalidRequest, PermanentError, SessionExpired
from pliant.core.parameters.contributions import MAX_WINDOW, PushDecision, PushOutcome
from pliant.files.time_meter import time_meter
from pliant.ps.client.model import Contributed
from pliant.ps.client.push_staging import StagedPush
from pliant.ps.client.routing import Conversation
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.contributions import batch_message, replies_from_message
from pliant.rpc.parameters import push_decision

CLOSE_TIMEOUT_S = 5.0  # for the thread to end; a call that waits for the master ends with the job


class WindowShard(Protocol):
    """Records of the shard queue; ``pliant.client.shards.Shard`` is one."""

    lease: int
    offset: int
    session: str
    lost: bool

    def contributed(self, records: int) -> None: ...


Records = tuple[WindowShard, int, int]  # a shard, and which of its records (as iterated): from, to


@dataclass(frozen=True)
class Decided:
    """What became of a push of the window. ``pushed.stale``: compute it again."""

    work: Any
    pushed: Contributed


class Staging(Protocol):
    """A push on its way to the servers; ``staging_lane.Staging`` is one."""

    staged: StagedPush | None  # once all have it

    def poll(self) -> StagedPush | None: ...

    def wait(self) -> StagedPush: ...


@dataclass(frozen=True)
class PendingPush:
    staging: Staging
    based_on: int
    examples: int
    shards: tuple[Records, ...]
    work: Any

    @property
    def staged(self) -> StagedPush:
        assert self.staging.staged is not None, "only a push that is staged can be decided"
        return self.staging.staged

    def request(self) -> pb.ContributeRequest:
        progress = [
            pb.LeaseProgress(lease=shard.lease, records=shard.offset + end, after=shard.offset + begin)
            for shard, begin, end in self.shards
        ]
        staged = self.staged
        return pb.ContributeRequest(
            session=staged.session,
            sequence=staged.sequence,
            based_on=self.based_on,
            examples=self.examples,
            holders=staged.holders(),
            map_version=staged.route.map.version,
            progress=progress,
        )

    def lost(self) -> tuple[int, ...]:
        """Leases of its records that the session of the push does not hold."""
        return _gone(self.shards, self.staged.session)


@dataclass(frozen=True)
class _Answered:
    """``reply`` None: the session ended, and with it whatever of the push was not accepted; or the master was not asked, since
    records of the push are ``lost``."""

    push: PendingPush
    reply: pb.ContributeReply | None
    lost: tuple[int, ...] = ()


class Pusher(Protocol):
    """What is needed of a client; ``client.PsClient`` has one for each window."""

    def begin(
        self, based_on: int, examples: int, dense: Mapping[str, Any], rows: Mapping[str, tuple[Any, Any]]
    ) -> Staging: ...

    def end(self) -> None: ...

    def withdraw(self, staged: StagedPush) -> None: ...

    def settle(self, staged: StagedPush, reply: pb.ContributeReply) -> PushDecision: ...


class PushWindow:
    """Used by one thread, as the client is."""

    def __init__(self, conversation: Conversation, pusher: Pusher, size: int) -> None:
        if not 1 <= size <= MAX_WINDOW:
            raise InvalidRequest(f"a window of {size} pushes; allowed: 1 to {MAX_WINDOW}")
        self.size = size
        self._conversation = conversation
        self._pusher = pusher
        self._changed = threading.Condition()
        self._waiting: deque[PendingPush] = deque()
        self._sent: list[PendingPush] = []  # the batch that is on its way
        self._answered: deque[_Answered] = deque()
        self._decided: list[Decided] = []  # not collected yet
        self._failure: Exception | None = None
        self._closed = False
        self._iteration = 0  # the newest seen
        self._thread: threading.Thread | None = None

    @property
    def undecided(self) -> int:
        with self._changed:
            return len(self._waiting) + len(self._sent)

    def push(
        self,
        based_on: int,
        *,
        examples: int,
        dense: Mapping[str, Any] | None = None,
        rows: Mapping[str, tuple[Any, Any]] | None = None,
        shards: Sequence[Records] = (),
        work: Any = None,
    ) -> None:
        """Contribute the mean gradient over ``examples``, computed on iteration ``based_on``; ``work`` comes back with what became
        of it. ``shards``: which of their records (as iterated), from and to, it was computed from."""
        self._check_open()
        if examples < 1:
            raise InvalidRequest(f"invalid gradient over {examples} examples")
        if gone := _gone(shards, self._conversation.name):
            self._decided.append(Decided(work, _lost(self._iteration, gone)))
            return
        with time_meter().peers:
            staging = self._pusher.begin(based_on, examples, dense or {}, rows or {})
        with self._changed:
            self._waiting.append(PendingPush(staging, based_on, examples, tuple(shards), work))
            self._changed.notify_all()
        self._start()
        self._wait(lambda: len(self._waiting) + len(self._sent) < self.size)
        self._settle()

    def collect(self) -> list[Decided]:
        """What was decided since the last call, in the order of the pushes; does not wait."""
        self._settle()
        decided, self._decided = self._decided, []
        return decided

    def drain(self) -> list[Decided]:
        """The same once everything is decided: before a version is saved, before another wait, at the end."""
        self._wait(lambda: not self._waiting and not self._sent)
        return self.collect()

    def close(self) -> None:
        """Whatever is not decided may be accepted or not; drain first to know."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        self._pusher.end()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._wait(lambda: not self._waiting and not self._sent)
                self._settle()
        finally:
            self.close()

    # --- what became of pushes; in the worker's thread

    def _settle(self) -> None:
        while True:
            with self._changed:
                if not self._answered:
                    return
                answered = self._answered.popleft()
            self._decided.append(Decided(answered.push.work, self._outcome(answered)))

    def _outcome(self, answered: _Answered) -> Contributed:
        push = answered.push
        if answered.lost:
            self._pusher.withdraw(push.staged)
            return _lost(self._iteration, answered.lost)
        if answered.reply is None:
            self._conversation.renew(push.staged.session)
            if gone := _gone(push.shards, self._conversation.name):
                return _lost(self._iteration, gone)
            return Contributed(False, True, self._iteration, 0, "the session of the push ended")
        decision = self._pusher.settle(push.staged, answered.reply)
        self._iteration = max(self._iteration, decision.iteration)
        if decision.outcome in (PushOutcome.ACCEPTED, PushOutcome.REPEATED):
            for shard, _, end in push.shards:
                shard.contributed(end)
            return Contributed(True, False, decision.iteration, decision.staleness)
        if decision.outcome is PushOutcome.STALE:
            self.size = max(1, self.size // 2)
        ended = decision.outcome in (PushOutcome.LOST, PushOutcome.OVER)
        return Contributed(
            False, not ended, decision.iteration, decision.staleness, decision.reason, decision.lost_leases
        )

    def _wait(self, reached: Callable[[], bool]) -> None:
        with self._changed:
            if not reached() and self._failure is None and not self._closed:
                with time_meter().peers:
                    self._changed.wait_for(lambda: reached() or self._failure is not None or self._closed)
        self._check_open()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise PermanentError("the window of pushes was closed")

    # --- the thread

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pliant-push-window", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                answers = self._answers(batch)
                with self._changed:
                    self._answered += answers
                    self._sent = []
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  # a thread's border: the worker's thread gets it
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _next_batch(self) -> list[PendingPush]:
        """What is staged, of one session; nothing: it was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return []
            first = self._waiting[0]
        session = first.staging.wait().session
        with self._changed:
            while self._waiting and (staged := self._waiting[0].staging.poll()) and staged.session == session:
                self._sent.append(self._waiting.popleft())
            return self._sent

    def _answers(self, batch: Sequence[PendingPush]) -> list[_Answered]:
        """The master is not asked about those whose records went to others meanwhile: leases are numbered by session."""
        lost = [push.lost() for push in batch]
        asked = [push for push, leases in zip(batch, lost, strict=True) if not leases]
        replies = iter(self._decide(asked) if asked else ())
        return [
            _Answered(push, None, leases) if leases else _Answered(push, next(replies))
            for push, leases in zip(batch, lost, strict=True)
        ]

    def _decide(self, batch: Sequence[PendingPush]) -> Sequence[pb.ContributeReply | None]:
        method = self._conversation.master.stubs.parameters.ContributeBatch
        request = batch_message([push.request() for push in batch])
        if batch[0].staged.session != self._conversation.name:
            return [None] * len(batch)
        try:
            reply: pb.ContributeBatchReply = self._conversation.call_with_retry(method, request)
        except SessionExpired:
            return [None] * len(batch)
        replies = replies_from_message(reply)
        if len(replies) != len(batch):
            raise PermanentError(f"{len(batch)} contributions got {len(replies)} answers")
        for one in replies:
            push_decision(one)  # raises what is not known, here and not in the middle of others
        return replies


def _gone(shards: Sequence[Records], session: str) -> tuple[int, ...]:
    """Leases of shards that this session does not hold."""
    return tuple(shard.lease for shard, _, _ in shards if shard.session != session or shard.lost)


def _lost(iteration: int, leases: tuple[int, ...]) -> Contributed:
    return Contributed(False, False, iteration, 0, "a shard was leased to another worker", leases)
