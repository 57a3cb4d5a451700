from __future__ import annotations

import pytest

from pliant.core.nodes.fault_policy import ExitReason
from pliant.platforms.ray.deaths import DeathCause, classify, took_the_memory


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (DeathCause("WORKER_DIED", "End of file"), ExitReason.KILLED),
        (DeathCause("NODE_DIED", "missed heartbeats"), ExitReason.PREEMPTED),
        (DeathCause("WORKER_DIED", "drained", is_preempted=True), ExitReason.PREEMPTED),
        (DeathCause("RAY_KILL"), ExitReason.KILLED),
        (DeathCause("CREATION_FAILED", "No such file"), ExitReason.ERROR),
        (DeathCause("RUNTIME_ENV", "cannot download"), ExitReason.ERROR),
    ],
)
def test_what_ray_says_of_a_death_is_one_of_our_reasons_with_its_words(cause: DeathCause, reason: ExitReason) -> None:
    found, message = classify(cause, was_asked=False, took_memory=False)
    assert found is reason
    assert message
    if reason in (ExitReason.ERROR, ExitReason.PREEMPTED):
        assert cause.text in message


def test_a_node_that_was_removed_is_not_taken_for_one_that_was_killed() -> None:
    assert classify(DeathCause("RAY_KILL"), was_asked=True, took_memory=False)[0] is ExitReason.PREEMPTED


@pytest.mark.parametrize(("took_memory", "reason"), [(True, ExitReason.OOM), (False, ExitReason.PREEMPTED)])
def test_only_the_node_that_took_the_memory_ran_out_of_it(took_memory: bool, reason: ExitReason) -> None:
    found, _ = classify(DeathCause("OOM", "memory 0.96"), was_asked=False, took_memory=took_memory)
    assert found is reason


def test_the_node_near_its_request_took_the_memory_and_without_a_request_the_largest() -> None:
    assert took_the_memory(900.0, 1000, [2000.0])
    assert not took_the_memory(500.0, 1000, [100.0])
    assert took_the_memory(500.0, 0, [100.0])
    assert not took_the_memory(500.0, 0, [600.0])
