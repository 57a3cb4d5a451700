"""Concurrent writes are limited, round-robin over the jobs."""

from __future__ import annotations

import asyncio

import pytest

from pliant.operator.fair_limiter import FairLimiter
from pliant.testing.waiting import MAX_WAIT_S


async def write(limiter: FairLimiter, whose: str, done: list[str]) -> None:
    async with limiter.slot(whose):
        await asyncio.sleep(0)
        done.append(whose)


def test_a_job_with_many_writes_lets_the_others_in_between() -> None:
    async def story() -> None:
        limiter, done = FairLimiter(1), list[str]()
        await asyncio.gather(*(write(limiter, whose, done) for whose in ("large",) * 5 + ("small",) * 2 + ("single",)))
        assert done == ["large", "large", "small", "single", "large", "small", "large", "large"]

    asyncio.run(story())


def test_no_more_than_the_limit_run_at_once() -> None:
    async def story() -> None:
        limiter, at_work, most = FairLimiter(3), 0, 0

        async def work(whose: int) -> None:
            nonlocal at_work, most
            async with limiter.slot(whose % 4):
                at_work += 1
                most = max(most, at_work)
                await asyncio.sleep(0)
                at_work -= 1

        await asyncio.gather(*(work(number) for number in range(40)))
        assert most == 3

    asyncio.run(story())


def test_a_cancelled_or_failed_write_frees_its_slot() -> None:
    async def story() -> None:
        limiter, done = FairLimiter(1), list[str]()
        held, release = asyncio.Event(), asyncio.Event()

        async def fail() -> None:
            async with limiter.slot("first"):
                held.set()
                await release.wait()
                raise ValueError("as a call may")

        first = asyncio.create_task(fail())
        await held.wait()
        waiting = [asyncio.create_task(write(limiter, "second", done)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        release.set()
        await asyncio.sleep(0)  # the slot is assigned to the next, which is cancelled at the same moment
        waiting[1].cancel()
        with pytest.raises(ValueError, match="as a call may"):
            await first
        await asyncio.wait_for(waiting[2], MAX_WAIT_S)
        assert done == ["second"]
        await asyncio.wait_for(write(limiter, "third", done), MAX_WAIT_S)

    asyncio.run(story())
