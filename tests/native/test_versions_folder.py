"""Where the models of versions lie, by what the workers of a job share."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir

import pytest

from pliant.core.nodes.environment import CheckpointSettings, NodeEnvironment, without_node_variables
from pliant.native.training import versions_folder

HOME, OWN, URL = Path("/jobs/digits"), "/disk/saved", "s3://bucket/saved"


@pytest.mark.parametrize(
    ("directory", "home", "parameters", "expected"),
    [
        ("", HOME, None, HOME / "versions"),
        (f"{HOME}/checkpoints", HOME, None, HOME / "versions"),
        (OWN, HOME, None, Path(OWN) / "versions"),
        (OWN, None, None, Path(OWN) / "versions"),
        (URL, HOME, None, HOME / "versions"),
        (URL, None, Path("/pliant/shared/digits/u-1/parameters"), Path("/pliant/shared/digits/u-1/versions")),
        (URL, None, None, Path(gettempdir()) / f"pliant-{os.getuid()}-digits" / "versions"),
    ],
)
def test_versions_lie_in_the_jobs_folder_or_beside_checkpoints_that_are_files(
    monkeypatch: pytest.MonkeyPatch, directory: str, home: Path | None, parameters: Path | None, expected: Path
) -> None:
    for name in set(os.environ) - set(without_node_variables(os.environ)):
        monkeypatch.delenv(name)
    checkpoint = CheckpointSettings(directory) if directory else None
    node = NodeEnvironment(job="digits", job_dir=home, parameters_dir=parameters, checkpoint=checkpoint)
    for name, value in node.to_env().items():
        monkeypatch.setenv(name, value)
    assert versions_folder() == expected
