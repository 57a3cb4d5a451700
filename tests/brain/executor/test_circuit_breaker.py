from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pliant.brain.executor.circuit_breaker import MAX_KEYS, CircuitBreaker

EVENTS = st.lists(st.tuples(st.sampled_from(["fail", "succeed"]), st.floats(0.0, 500.0)), max_size=40)


@given(EVENTS)
def test_it_is_set_aside_exactly_after_enough_failures_in_a_row_and_never_longer_than_the_maximum(
    events: list[tuple[str, float]],
) -> None:
    breaker = CircuitBreaker(max_failures=3, first_s=60.0, max_s=300.0)
    at, failures, until, length = 0.0, 0, 0.0, 0.0
    for kind, passed in events:
        at += passed
        found = breaker.set_aside("a", at)
        assert (found is not None) == (at < until)
        if found is not None:
            assert 0.0 < found[0] <= 300.0
            continue  # it is not asked
        if kind == "succeed":
            breaker.succeeded("a")
            failures, until, length = 0, 0.0, 0.0
        else:
            breaker.failed("a", at, "why")
            failures += 1
            if failures >= 3:
                length = 60.0 if not length else min(300.0, 2 * length)
                until = at + length


def test_failures_that_were_under_way_when_it_was_set_aside_do_not_lengthen_it() -> None:
    breaker = CircuitBreaker(max_failures=1, first_s=60.0)
    breaker.failed("a", 0.0, "first")
    breaker.failed("a", 1.0, "second")
    assert breaker.set_aside("a", 1.0) == (59.0, "first")


def test_keys_are_independent_and_their_number_is_limited() -> None:
    breaker = CircuitBreaker(max_failures=1)
    for number in range(MAX_KEYS + 1):
        breaker.failed(number, 0.0, "why")
    assert breaker.set_aside(0, 1.0) is None
    assert breaker.set_aside(1, 1.0) is not None
    assert breaker.set_aside("other", 1.0) is None
