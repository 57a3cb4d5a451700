"""Where the models of versions lie, by what the workers of a job share."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

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
    ],
)
def test_versions_lie_in_the_jobs_folder_or_beside_checkpoints_that_are_files(
    monkeypatch: pytest.MonkeyPatch, directory: str, home: Path | None, parameters: Path | None, expected: Path
) -> None:
    be_a_node(monkeypatch, directory, home, parameters)
    assert versions_folder() == expected


def test_versions_lie_on_each_machine_if_workers_share_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    be_a_node(monkeypatch, URL, None, None)
    found = versions_folder()
    assert found == tmp_path / f"pliant-versions-{os.geteuid()}" / "digits" / "versions"
    assert found.parent.stat().st_mode & 0o077 == 0


def be_a_node(monkeypatch: pytest.MonkeyPatch, directory: str, home: Path | None, parameters: Path | None) -> None:
    for name in set(os.environ) - set(without_node_variables(os.environ)):
        monkeypatch.delenv(name)
    checkpoint = CheckpointSettings(directory) if directory else None
    node = NodeEnvironment(job="digits", job_dir=home, parameters_dir=parameters, checkpoint=checkpoint)
    for name, value in node.to_env().items():
        monkeypatch.setenv(name, value)
