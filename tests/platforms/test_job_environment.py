"""What of a job's spec every node is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.core.nodes.environment import CheckpointSettings
from pliant.platforms.job_environment import job_environment
from pliant.spec import JobSpec


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({}, None),
        ({"keep_last": 9}, None),
        ({"every_steps": 5, "keep_every": 50}, CheckpointSettings("/default", every_steps=5, keep_every=50)),
        ({"every_seconds": 9.0, "keep_last": 1}, CheckpointSettings("/default", every_seconds=9.0, keep_last=1)),
        ({"dir": "s3://bucket/saved"}, CheckpointSettings("s3://bucket/saved")),
    ],
)
def test_checkpoints_are_taken_if_there_is_an_interval_or_a_directory(
    section: dict[str, Any], expected: CheckpointSettings | None
) -> None:
    spec = JobSpec.from_dict({"roles": {"worker": {"command": ["x"]}}, "checkpoint": section})
    assert job_environment(spec, checkpoint_dir="/default", parameters_dir=Path("/ps")).checkpoint == expected


def test_grace_and_orphan_timeout_are_those_of_the_fault_policy() -> None:
    fault = {"grace": 3, "orphan_timeout": 77}
    spec = JobSpec.from_dict({"roles": {"worker": {"command": ["x"]}}, "fault": fault})
    made = job_environment(spec, checkpoint_dir="/default", parameters_dir=Path("/ps"))
    assert (made.grace, made.orphan_timeout, made.parameters_dir) == (3, 77, None)
