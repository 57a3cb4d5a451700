from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pliant.core.errors import Conflict, MasterUnavailable, NotFound, PliantError
from pliant.rpc.retry import BACKOFF_FACTOR, FIRST_PAUSE_S, Backoff, call_with_retry, call_with_retry_async


def failing(times: int, error: PliantError | None = None) -> Callable[[], int]:
    """Raises so many times, then returns how often it was called."""
    calls = 0

    def attempt() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise error or MasterUnavailable(f"attempt {calls}")
        return calls

    return attempt


def test_a_call_is_repeated_until_the_master_answers() -> None:
    pauses: list[float] = []
    assert call_with_retry(failing(3), retry_timeout=60, pause=pauses.append) == 4
    assert pauses == pytest.approx([FIRST_PAUSE_S * BACKOFF_FACTOR**n for n in range(3)])


def test_pauses_grow_up_to_the_maximum() -> None:
    pauses: list[float] = []
    call_with_retry(failing(30), retry_timeout=60, pause=pauses.append, max_pause=0.1)
    assert pauses[-1] == 0.1
    assert max(pauses) == 0.1
    call_with_retry(failing(1), retry_timeout=60, pause=pauses.append, max_pause=0.001)
    assert pauses[-1] == 0.001


def test_without_a_retry_timeout_there_is_one_attempt() -> None:
    with pytest.raises(MasterUnavailable, match="attempt 1"):
        call_with_retry(failing(9), retry_timeout=-1)


def test_a_backoff_is_exhausted_after_its_timeout() -> None:
    now = 100.0
    backoff = Backoff(5.0, clock=lambda: now)
    now = 105.0
    assert not backoff.is_exhausted
    now = 105.1
    assert backoff.is_exhausted


def test_what_the_master_answered_is_not_repeated() -> None:
    with pytest.raises(Conflict, match="decided"):
        call_with_retry(failing(1, Conflict("decided")), retry_timeout=60)
    assert (
        call_with_retry(failing(1, NotFound("not yet")), retry_timeout=60, retry_on=(MasterUnavailable, NotFound)) == 2
    )


def test_the_caller_may_end_a_call_after_a_failure_and_in_a_pause() -> None:
    def stop(_: object) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        call_with_retry(failing(9), retry_timeout=60, on_failure=stop)
    with pytest.raises(KeyError):
        call_with_retry(failing(9), retry_timeout=60, pause=stop)


def test_asyncio_has_the_same() -> None:
    seen: list[str] = []

    async def run(times: int, retry_timeout: float) -> int:
        attempt = failing(times)

        async def call() -> int:
            return attempt()

        return await call_with_retry_async(
            call, retry_timeout=retry_timeout, on_failure=lambda error: seen.append(error.message), max_pause=0.001
        )

    assert asyncio.run(run(2, 60.0)) == 3
    assert seen == ["attempt 1", "attempt 2"]
    with pytest.raises(MasterUnavailable):
        asyncio.run(run(2, -1.0))
