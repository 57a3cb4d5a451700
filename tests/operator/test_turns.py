"""Jobs take turns with their writes."""

from __future__ import annotations

import asyncio

import pytest

from pliant.operator.turns import Turns


async def write(turns: Turns, whose: str, done: list[str]) -> None:
    async with turns.of(whose):
        await asyncio.sleep(0)
        done.append(whose)


def test_a_job_with_many_writes_lets_the_others_in_between() -> None:
    async def story() -> None:
        turns, done = Turns(1), list[str]()
        await asyncio.gather(*(write(turns, whose, done) for whose in ("large",) * 5 + ("small",) * 2 + ("single",)))
        assert done == ["large", "large", "small", "single", "large", "small", "large", "large"]

    asyncio.run(story())


def test_no_more_than_so_many_are_at_work_at_once() -> None:
    async def story() -> None:
        turns, at_work, most = Turns(3), 0, 0

        async def work(whose: int) -> None:
            nonlocal at_work, most
            async with turns.of(whose % 4):
                at_work += 1
                most = max(most, at_work)
                await asyncio.sleep(0)
                at_work -= 1

        await asyncio.gather(*(work(number) for number in range(40)))
        assert most == 3

    asyncio.run(story())


def test_those_who_give_up_waiting_or_fail_take_no_place_away() -> None:
    async def story() -> None:
        turns, done = Turns(1), list[str]()
        held, release = asyncio.Event(), asyncio.Event()

        async def fail() -> None:
            async with turns.of("first"):
                held.set()
                await release.wait()
                raise ValueError("as a call may")

        first = asyncio.create_task(fail())
        await held.wait()
        waiting = [asyncio.create_task(write(turns, "second", done)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        release.set()
        await asyncio.sleep(0)  # the place is given to the next, which is cancelled at the same moment
        waiting[1].cancel()
        with pytest.raises(ValueError, match="as a call may"):
            await first
        await asyncio.wait_for(waiting[2], 5.0)
        assert done == ["second"]
        await asyncio.wait_for(write(turns, "third", done), 5.0)

    asyncio.run(story())
