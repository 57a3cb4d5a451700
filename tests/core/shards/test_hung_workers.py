"""Programs that hang: what timed out goes to somebody else first, and nobody is kept from work for ever.

A program here is what a client makes of it: a thread that asks for shards whenever it holds few, also while the loop hangs, and a
loop that takes one after the other and reports.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from pliant.core.shards.book import ShardBook
from pliant.core.shards.leases import Answer, Availability

TIMEOUT_S = 300.0  # of a lease
TICK_S = 10.0


@dataclass
class Program:
    book: ShardBook
    name: str
    gathers: int = 1  # shards that it works on before it reports them together
    prefetch: int = 2
    request: int = 0
    ready: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    busy_until: float = 0.0
    over: bool = False
    accepted: list[int] = field(default_factory=list)  # first records
    revoked_and_silent: bool = False

    def __post_init__(self) -> None:
        self.book.open_session(0.0, session=self.name, node=self.name, incarnation=0)

    def ask(self, now: float, want: int, *, waiting: bool = False, done: list[int] | None = None) -> Answer:
        self.request += 1
        answer = self.book.exchange(
            now,
            session=self.name,
            request=self.request,
            dataset="train",
            want=want,
            done=done or [],
            waiting=waiting,
        )
        if done:
            self.revoked_and_silent = False
        self.ready += [lease.number for lease in answer.leases]
        self.accepted += [a.lease.extent.start for a in answer.accepted]
        return answer

    def step(self, now: float, takes_s: float) -> None:
        if self.over:
            return
        is_busy = now < self.busy_until
        if not is_busy and len(self.taken) >= self.gathers:
            self.ask(now, 0, done=self.taken)
            self.taken = []
        answer = self.ask(now, max(0, self.prefetch - len(self.ready)), waiting=not is_busy and not self.ready)
        if is_busy:
            assert not (self.revoked_and_silent and answer.leases), "it may hang, and is given more"
        elif self.ready:
            self.taken.append(self.ready.pop(0))
            self.busy_until = now + takes_s
        elif answer.availability is Availability.END:
            if self.taken:
                self.ask(now, 0, done=self.taken)
            self.over = True


def dataset(**changes: Any) -> ShardBook:
    book = ShardBook()
    fields = {"name": "train", "shard_size": 1, "size": 10, "lease_floor": TIMEOUT_S, "max_timeouts": 1000, **changes}
    book.create(0.0, dataset=fields)
    return book


def expire_overdue(book: ShardBook, programs: list[Program], now: float) -> None:
    for late in book.overdue(now):
        book.expire(now, session=late.session, dataset=late.dataset)
        next(p for p in programs if p.name == late.session).revoked_and_silent = True


def test_what_timed_out_goes_to_another_worker_and_not_back_to_the_one_that_hangs() -> None:
    book = dataset(size=2)
    hung, other = Program(book, "hung"), Program(book, "other")
    hung.ask(0.0, 2)
    assert other.ask(0.0, 1, waiting=True).leases == ()
    expire_overdue(book, [hung, other], 301.0)
    answer = hung.ask(301.0, 2)
    assert (answer.leases, answer.availability) == ((), Availability.WAIT)
    assert book.availability("train", "hung") is Availability.WAIT
    assert book.availability("train", "other") is Availability.MORE
    assert len(other.ask(302.0, 2).leases) == 2


def test_a_report_of_any_kind_ends_the_wait() -> None:
    for kind in ("done", "progress", "failed", "released"):
        book = dataset(shard_size=2)
        slow = Program(book, "slow")
        (lease,) = slow.ask(0.0, 1).leases
        expire_overdue(book, [slow], 301.0)
        assert slow.ask(302.0, 1).leases == ()
        number = lease.number
        reports = {"done": [number], "progress": [[number, 1]], "failed": [[number, "?"]], "released": [number]}
        answer = book.exchange(
            303.0,
            session="slow",
            request=3,
            dataset="train",
            want=1,
            **{kind: reports[kind]},  # type: ignore[arg-type]
        )
        assert answer.refused == (number,)
        assert len(answer.leases) == 1, "it works again"


def test_a_program_that_waits_is_served_if_nobody_else_wants_the_dataset() -> None:
    book = dataset()
    alone, bystander = Program(book, "alone"), Program(book, "bystander")
    alone.ask(0.0, 2)
    expire_overdue(book, [alone], 301.0)
    assert alone.ask(302.0, 2).leases == (), "its loop may hang"
    assert len(alone.ask(303.0, 2, waiting=True).leases) == 2, "its loop has nothing to report before it has more"
    assert bystander.request == 0


def test_a_program_that_waits_after_a_time_out_comes_after_the_others() -> None:
    book = dataset(size=3)
    first, other = Program(book, "first"), Program(book, "other")
    first.ask(0.0, 2)
    other.ask(300.0, 1)
    expire_overdue(book, [first], 301.0)
    assert first.ask(302.0, 2, waiting=True).leases == (), "the other one holds a shard and will come for more"
    assert len(other.ask(303.0, 2, done=[1]).leases) == 2


@pytest.mark.parametrize("block", range(2))
def test_in_random_histories_of_hanging_programs_each_record_is_done_once_and_the_job_ends(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        dice = Random(seed)
        book = dataset(size=dice.randint(1, 30), epochs=dice.randint(1, 2), epoch_barrier=dice.random() < 0.3)
        programs = [
            Program(book, f"worker-{n}", gathers=dice.choice([1, 1, 3]), prefetch=dice.randint(1, 3))
            for n in range(dice.randint(1, 4))
        ]
        now = 0.0
        while not book.complete():
            now += TICK_S
            assert now < 1e6, f"no end in sight, seed {seed}"
            expire_overdue(book, programs, now)
            for program in dice.sample(programs, len(programs)):
                hangs = dice.random() < 0.1
                program.step(now, dice.uniform(400, 2000) if hangs else dice.uniform(0, 50))
        accepted = sorted(record for program in programs for record in program.accepted)
        queue = book.queue("train")
        assert accepted == sorted([*range(queue.records_per_epoch)] * queue.spec.epochs), f"seed {seed}"
        assert queue.is_exact
