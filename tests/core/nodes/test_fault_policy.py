from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.nodes.fault_policy import (
    Backoff,
    Budget,
    ExitReason,
    FaultDecision,
    FaultPolicy,
    MemoryGrowth,
    Step,
    shrink_resources,
)
from pliant.core.nodes.permanent import JobProgress, PermanentErrors, PermanentKind
from pliant.core.resources import Resources

FAILURES = [kind for kind in ExitReason if kind is not ExitReason.COMPLETED]


def test_a_finished_program_needs_nothing() -> None:
    assert FaultPolicy().next_step(ExitReason.COMPLETED, {}, 0, agent_alive=True).step is Step.NOTHING


@pytest.mark.parametrize("kind", FAILURES)
def test_a_first_failure_of_any_kind_is_forgiven(kind: ExitReason) -> None:
    assert FaultPolicy().next_step(kind, {}, 1024, agent_alive=False).step is Step.REPLACE


def test_an_error_is_restarted_in_place_while_the_agent_lives() -> None:
    policy = FaultPolicy()
    assert policy.next_step(ExitReason.ERROR, {}, 0, agent_alive=True).step is Step.RESTART
    assert policy.next_step(ExitReason.ERROR, {}, 0, agent_alive=False).step is Step.REPLACE


def test_the_failure_after_the_last_forgiven_one_is_final_and_says_so() -> None:
    policy = FaultPolicy(budgets={ExitReason.ERROR: Budget(2)})
    assert policy.next_step(ExitReason.ERROR, {"Error": 1}, 0, agent_alive=True).step is Step.REPLACE
    decision = policy.next_step(ExitReason.ERROR, {"Error": 2}, 0, agent_alive=True)
    assert decision.step is Step.GIVE_UP
    assert decision.reason == "failed 3 times (limit 2)"


def test_a_limit_of_zero_forgives_nothing() -> None:
    policy = FaultPolicy(budgets={ExitReason.ERROR: Budget(0, in_place=True)})
    assert policy.next_step(ExitReason.ERROR, {}, 0, agent_alive=True).step is Step.GIVE_UP


@pytest.mark.parametrize("kind", FAILURES)
def test_the_failures_of_one_kind_do_not_count_for_another(kind: ExitReason) -> None:
    others = {other.value: 1000 for other in FAILURES if other is not kind}
    assert FaultPolicy().next_step(kind, others, 1024, agent_alive=True).step is not Step.GIVE_UP


def test_preemptions_are_always_forgiven_and_never_wait_long() -> None:
    decision = FaultPolicy().next_step(ExitReason.PREEMPTED, {"Preempted": 10**6}, 0, agent_alive=True)
    assert decision.step is Step.REPLACE
    assert decision.delay == 10.0


def test_a_kind_that_the_policy_does_not_name_has_the_default_budget() -> None:
    policy = FaultPolicy(budgets={})
    assert policy.next_step(ExitReason.ERROR, {"Error": 2}, 0, agent_alive=True).step is Step.RESTART
    assert policy.next_step(ExitReason.ERROR, {"Error": 3}, 0, agent_alive=True).step is Step.GIVE_UP


def test_out_of_memory_is_replaced_with_more_even_where_the_agent_lives() -> None:
    policy = FaultPolicy(budgets={ExitReason.OOM: Budget(5, in_place=True)})
    decision = policy.next_step(ExitReason.OOM, {}, 1000, agent_alive=True)
    assert (decision.step, decision.memory_mb) == (Step.REPLACE, 1500)
    assert "1000 MB was not enough, requesting 1500 MB" in decision.reason


def test_out_of_memory_without_a_limit_has_nothing_to_grow() -> None:
    decision = FaultPolicy().next_step(ExitReason.OOM, {}, 0, agent_alive=True)
    assert (decision.step, decision.memory_mb) == (Step.REPLACE, None)


def test_out_of_memory_at_the_ceiling_is_final() -> None:
    policy = FaultPolicy(memory=MemoryGrowth(ceiling_mb=2000))
    assert policy.next_step(ExitReason.OOM, {}, 1800, agent_alive=False).memory_mb == 2000
    decision = policy.next_step(ExitReason.OOM, {}, 2000, agent_alive=False)
    assert decision.step is Step.GIVE_UP
    assert "2000 MB" in decision.reason


def test_memory_grows_by_what_is_more_of_the_factor_and_the_addition() -> None:
    growth = MemoryGrowth(factor=1.5, add_mb=256)
    assert growth.grown(100) == 356
    assert growth.grown(1000) == 1500


def test_the_back_off_doubles_up_to_its_longest() -> None:
    backoff = Backoff(first=1.0, factor=2.0, max_delay=10.0)
    assert [backoff.delay(n) for n in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_back_off_of_zero_never_waits() -> None:
    assert Backoff(first=0.0).delay(5) == 0.0


@given(st.floats(0.01, 100), st.floats(1, 1e6), st.floats(0.01, 1e4), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_back_off_never_falls_and_never_exceeds_its_longest(
    first: float, factor: float, max_delay: float, a: int, b: int
) -> None:
    backoff = Backoff(first, factor, max_delay)
    shorter, longer = backoff.delay(min(a, b)), backoff.delay(max(a, b))
    assert 0 < shorter <= longer <= max_delay


def test_less_is_halfway_to_the_minimum() -> None:
    asked = shrink_resources(Resources(4.0, 8000, 4), Resources(1.0, 2000, 1), keep_memory=False)
    assert asked == Resources(2.5, 5000, 2)


def test_less_leaves_alone_what_has_no_minimum_or_must_be_kept() -> None:
    assert shrink_resources(Resources(4.0, 8000, 1), Resources(), keep_memory=False) == Resources(4.0, 8000, 1)
    assert shrink_resources(Resources(4.0, 8000, 1), Resources(2.0, 2000, 1), keep_memory=True) == Resources(
        3.0, 8000, 1
    )


@given(
    st.builds(Resources, st.floats(0, 1000), st.integers(0, 10**7), st.integers(0, 64)),
    st.builds(Resources, st.floats(0.01, 1000), st.integers(1, 10**7), st.integers(1, 64)),
)
def test_less_reaches_the_minimum_and_never_passes_it(asked: Resources, minimum: Resources) -> None:
    start = asked
    for _ in range(64):
        smaller = shrink_resources(asked, minimum, keep_memory=False)
        assert smaller.cpu <= asked.cpu + 1e-6
        assert smaller.memory_mb <= asked.memory_mb
        assert smaller.gpu <= asked.gpu
        asked = smaller
    assert asked.memory_mb == min(start.memory_mb, minimum.memory_mb)
    assert asked.gpu == min(start.gpu, minimum.gpu)
    assert asked.cpu == pytest.approx(min(start.cpu, minimum.cpu), abs=1e-6)


def after_permanent(
    kind: PermanentKind,
    *,
    progress: JobProgress = JobProgress.NONE,
    may_be_of_one_machine: bool = False,
    policy: FaultPolicy | None = None,
    failures: dict[str, int] | None = None,
) -> FaultDecision:
    return (policy or FaultPolicy()).next_step(
        ExitReason.ERROR,
        failures or {},
        0,
        agent_alive=True,
        permanent=kind,
        progress=progress,
        may_be_of_one_machine=may_be_of_one_machine,
    )


@pytest.mark.parametrize("kind", PermanentKind)
def test_a_permanent_error_at_the_start_fails_the_job_and_says_why(kind: PermanentKind) -> None:
    decision = after_permanent(kind)
    assert decision.step is Step.FAIL_JOB
    assert decision.reason == f"{kind.in_words()}; not restarted, it would fail the same way"


@pytest.mark.parametrize("kind", PermanentKind)
def test_a_job_that_has_trained_is_not_broken_as_a_whole(kind: PermanentKind) -> None:
    assert after_permanent(kind, progress=JobProgress.TRAINED).step is Step.RESTART


def test_programs_that_have_met_had_their_imports_but_may_still_ask_for_what_cannot_be() -> None:
    steps = {kind: after_permanent(kind, progress=JobProgress.CONNECTED).step for kind in PermanentKind}
    assert steps.pop(PermanentKind.INVALID_REQUEST) is Step.FAIL_JOB
    assert steps.pop(PermanentKind.CHECKPOINT_DESTINATION) is Step.FAIL_JOB
    assert set(steps.values()) == {Step.RESTART}


def test_what_may_be_the_fault_of_one_machine_is_tried_on_another_within_the_budget() -> None:
    kind = PermanentKind.MISSING_MODULE
    assert after_permanent(kind, may_be_of_one_machine=True).step is Step.REPLACE
    never = FaultPolicy(budgets={ExitReason.ERROR: Budget(0)})
    assert after_permanent(kind, may_be_of_one_machine=True, policy=never).step is Step.GIVE_UP


def test_permanent_errors_are_retried_if_the_user_says_so() -> None:
    policy = FaultPolicy(permanent_errors=PermanentErrors.RETRY)
    assert after_permanent(PermanentKind.SYNTAX_ERROR, policy=policy).step is Step.RESTART
