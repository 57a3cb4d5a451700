"""When a checkpoint that cannot be written fails the job."""

from __future__ import annotations

import pytest

from pliant.core.checkpoints.destination import Destination
from pliant.core.checkpoints.policy import CheckpointPolicy, OnCheckpointFailure, warning
from pliant.core.nodes.permanent import JobProgress

WARN = CheckpointPolicy()
FAIL = CheckpointPolicy(OnCheckpointFailure.FAIL, max_failures=3)


def failing(count: int, **more: object) -> Destination:
    known = {"first_reason": "no space left", "reason": "no space left", "hint": "free some", **more}
    return Destination("/full", failures=count, failures_in_a_row=count, **known)  # type: ignore[arg-type]


def test_warn_never_fails_the_job_and_always_says_what_to_do() -> None:
    for decision in (WARN.after_failure(failing(1000)), WARN.at_end(failing(1000))):
        assert not decision.fails_job
        assert "/full: no space left" in decision.reason
        assert decision.reason.endswith("what to do: free some")


def test_fail_waits_for_the_limit_and_names_destination_reason_and_fix() -> None:
    assert not FAIL.after_failure(failing(2)).fails_job
    decision = FAIL.after_failure(failing(3))
    assert decision.fails_job
    assert decision.reason == (
        "3 checkpoints in a row could not be written to /full (limit 3), last: no space left; what to do: free some"
    )
    first = CheckpointPolicy(OnCheckpointFailure.FAIL, max_failures=1).after_failure(failing(1))
    assert first.fails_job
    assert first.reason.startswith("a checkpoint could not be written to /full (limit 1)")


def test_with_fail_the_last_checkpoint_must_be_there_whatever_the_limit() -> None:
    decision = FAIL.at_end(failing(1, last_step=40, last_time=7.0))
    assert decision.fails_job
    assert decision.reason == (
        "the last checkpoint could not be written to /full: no space left; the newest there is that of step 40; "
        "what to do: free some"
    )
    assert "there is none so far" in FAIL.at_end(failing(1)).reason


@pytest.mark.parametrize("policy", [WARN, FAIL], ids=["warn", "fail"])
def test_a_destination_that_cannot_be_used_ends_a_job_that_has_not_trained_and_is_one_failure_later(
    policy: CheckpointPolicy,
) -> None:
    for progress in (JobProgress.NONE, JobProgress.CONNECTED):
        decision = policy.before_training(failing(0), progress)
        assert decision.fails_job
        assert decision.reason == "checkpoints cannot be written to /full: no space left; what to do: free some"
    assert not policy.before_training(failing(1), JobProgress.TRAINED).fails_job


def test_the_warning_is_the_same_throughout_a_streak_so_that_it_is_said_once() -> None:
    assert warning(failing(1)) == warning(failing(50, reason="no space left on another node", failed_step=9))
