from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import PermanentError
from pliant.core.nodes.environment import (
    NODE_VARIABLES,
    CheckpointSettings,
    LimitMode,
    NodeEnvironment,
    variable_of,
    without_node_variables,
)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
NUMBER = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
COUNT = st.integers(min_value=0, max_value=2**62)
CHECKPOINTS = st.builds(
    CheckpointSettings, directory=TEXT, every_steps=COUNT, every_seconds=NUMBER, keep_last=COUNT, keep_every=COUNT
)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "Path | None": st.none() | TEXT.map(Path),
    "float": NUMBER,
    "int": COUNT,
    "int | None": st.none() | COUNT,
    "bool": st.booleans(),
    "tuple[str, ...]": st.lists(TEXT.filter(lambda name: "," not in name), max_size=3).map(tuple),
    "LimitMode": st.sampled_from(LimitMode),
    "CheckpointSettings | None": st.none() | CHECKPOINTS,
}


def any_value_of(kind: object) -> st.SearchStrategy[Any]:
    return BY_TYPE[str(kind)]


ENVIRONMENTS = st.builds(NodeEnvironment, **{item.name: any_value_of(item.type) for item in fields(NodeEnvironment)})


@given(ENVIRONMENTS)
def test_what_is_written_is_read(environment: NodeEnvironment) -> None:
    assert NodeEnvironment.from_env(environment.to_env()) == environment


@given(ENVIRONMENTS, st.dictionaries(TEXT, TEXT))
def test_other_variables_change_nothing(environment: NodeEnvironment, others: dict[str, str]) -> None:
    env = {**without_node_variables(others), **environment.to_env()}
    assert NodeEnvironment.from_env(env) == environment
    assert without_node_variables(env) == without_node_variables(others)


def test_every_variable_has_a_name_of_its_own() -> None:
    assert {variable_of(item.name) for item in fields(NodeEnvironment)} == NODE_VARIABLES
    assert len(NODE_VARIABLES) == len(fields(NodeEnvironment))
    assert all(name.startswith("PLIANT_") for name in NODE_VARIABLES)


def test_an_empty_environment_has_the_defaults_and_writes_nothing() -> None:
    assert NodeEnvironment.from_env({}) == NodeEnvironment()
    assert NodeEnvironment().to_env() == {}
    assert NodeEnvironment.from_env(dict.fromkeys(NODE_VARIABLES, "")) == NodeEnvironment()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PLIANT_INCARNATION", "two"),
        ("PLIANT_CPU", "1,5"),
        ("PLIANT_MEMORY_MB", "1.5"),
        ("PLIANT_LIMITS", "strict"),
        ("PLIANT_CHECKPOINT", "{"),
        ("PLIANT_CHECKPOINT", '{"every": 3}'),
    ],
)
def test_a_value_that_cannot_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(PermanentError, match=name):
        NodeEnvironment.from_env({name: value})


def test_processes_of_a_job_or_of_a_node_are_found_by_marks() -> None:
    assert NodeEnvironment.marks(job_dir=Path("/j")) == {"PLIANT_JOB_DIR": "/j"}
    assert NodeEnvironment.marks(job_dir=Path("/j"), node="worker-0") == {
        "PLIANT_JOB_DIR": "/j",
        "PLIANT_NODE": "worker-0",
    }
