"""Which earlier jobs a new one is like, and records that are not what they seem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import CorruptData
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.past_jobs import PastJob, fingerprint

COMMAND = ("python", "train.py", "--epochs", "3")
MARK = fingerprint("none", COMMAND, "digits-2")
PAST = PastJob(MARK, 1000.0, True, Configuration(Shape(4, 0.5, 300), Shape(2)), 123.5, 280.0, 90.0)


def test_the_same_command_under_the_same_name_is_the_same_job() -> None:
    assert MARK.similarity(fingerprint("none", COMMAND, "digits-7")) == 1.0
    assert MARK.similarity(fingerprint("none", COMMAND, "other")) == 0.75


def test_other_arguments_weaken_and_another_strategy_or_program_ends_likeness() -> None:
    longer = fingerprint("none", ("python", "train.py", "--epochs", "9"), "digits-2")
    assert 0.3 < MARK.similarity(longer) < 0.75
    assert MARK.similarity(fingerprint("allreduce", COMMAND, "digits-2")) == 0.0
    assert MARK.similarity(fingerprint("none", ("python", "other.py"), "digits-2")) == 0.0


def test_a_dataset_of_another_size_weakens_likeness() -> None:
    same, small = replace(MARK, records=1000), replace(MARK, records=10)
    assert same.similarity(replace(MARK, records=1000)) == 1.0
    assert 0.5 <= same.similarity(small) < 0.6
    assert same.similarity(MARK) == 1.0, "unknown before it runs"


def test_a_record_comes_back_as_it_was() -> None:
    assert PastJob.from_json(PAST.to_json()) == PAST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*PAST.to_json(), "more"]), JSON))
def test_any_other_record_is_corrupt_data(changes: dict[str, Any]) -> None:
    value = {**PAST.to_json(), **changes}
    try:
        found = PastJob.from_json(value)
    except CorruptData:
        return
    assert found.rate >= 0
    assert found.configuration.worker.replicas >= 1


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_rate_that_cannot_be_is_corrupt_data(rate: float) -> None:
    with pytest.raises(CorruptData, match="out of range"):
        PastJob.from_json({**PAST.to_json(), "rate": rate})


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("fingerprint", "records", "7"),
        ("fingerprint", "records", -7),
        ("fingerprint", "stem", [1]),
        ("worker", "replicas", float("inf")),
        ("worker", "replicas", 2.5),
        ("worker", "cpu", "x"),
        ("worker", "cpu", float("nan")),
        ("worker", "memory_mb", -1),
        ("server", "replicas", "x"),
        ("server", "gpu", "x"),
    ],
)
def test_a_record_with_one_wrong_value_inside_is_corrupt_data(section: str, field: str, value: object) -> None:
    record = PAST.to_json()
    found = record["fingerprint"] if section == "fingerprint" else record["configuration"][section]
    found[field] = value
    with pytest.raises(CorruptData, match="not a record of a past job"):
        PastJob.from_json(record)
