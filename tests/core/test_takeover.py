"""Whether the nodes of a master whose journal is lost go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pliant.core.takeover import RecoveryOutcome, decide, what_only_the_journal_knows

names = st.lists(st.sampled_from(["worker-0", "worker-1", "chief-0"]), unique=True)
datasets = st.none() | st.lists(st.sampled_from(["train", "clicks"]), unique=True)
strategies = st.sampled_from(["none", "local", "allreduce", "ps-sync", "ps-async"])


def test_living_workers_of_an_allreduce_job_without_datasets_are_taken_over() -> None:
    found = decide(strategy="allreduce", has_parameters=False, datasets=[], living=["worker-1", "worker-0"])
    assert found.adopt
    assert found.outcome is RecoveryOutcome.TAKEN_OVER
    assert "worker-0, worker-1" in found.reason


@given(strategy=strategies, has_parameters=st.booleans(), datasets=datasets, living=names)
def test_nobody_is_taken_over_if_only_the_journal_knew_something_and_the_reason_names_it(
    strategy: str, has_parameters: bool, datasets: list[str] | None, living: list[str]
) -> None:
    found = decide(strategy=strategy, has_parameters=has_parameters, datasets=datasets, living=living)
    is_kept_by_workers = strategy == "allreduce" and not has_parameters and datasets == []
    assert found.adopt == (is_kept_by_workers and bool(living))
    assert found.reason
    if datasets and not has_parameters:
        assert all(name in found.reason for name in datasets)
    lost = what_only_the_journal_knows(strategy=strategy, has_parameters=has_parameters, datasets=datasets)
    assert bool(lost) != is_kept_by_workers


def test_a_master_that_never_reported_its_datasets_may_have_had_some() -> None:
    found = decide(strategy="allreduce", has_parameters=False, datasets=None, living=["worker-0"])
    assert not found.adopt
    assert "never reported" in found.reason
