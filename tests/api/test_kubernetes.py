"""What would be sent to a cluster for a function: its payload and its own modules among the job's files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import pliant
from pliant.api.functions.payload import FILE_NAME, Payload, digest_of
from pliant.core.errors import InvalidRequest
from pliant.handles.cluster import Cluster
from pliant.launch.manifest import Submission

pytest.importorskip("lightkube")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Submission, Cluster]]:
    found: list[tuple[Submission, Cluster]] = []

    class Session:
        def __init__(self, cluster: Cluster) -> None:
            self.cluster = cluster

        def close(self) -> None:
            return

    def send(session: Session, submission: Submission, *, overwrite: bool) -> Any:
        found.append((submission, session.cluster))
        return SimpleNamespace(name=submission.name, close=lambda: None)

    monkeypatch.setattr("pliant.handles.kubernetes.session.Session", Session)
    monkeypatch.setattr("pliant.launch.submitting.submit", send)
    return found


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "training.py").write_text("import json, scaling\ndef train(n): return n * scaling.FACTOR\n")
    (tmp_path / "scaling.py").write_text("FACTOR = 2\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("def train(): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("training")
    for name in ("training", "scaling", "package"):
        sys.modules.pop(name, None)


def test_an_importable_function_is_sent_with_its_modules(
    sent: list[tuple[Submission, Cluster]], module: ModuleType
) -> None:
    job = pliant.submit(module.train, args=(3,), name="j", namespace="team-a", context="c", image="i:1", workers="1:2")
    assert job.name == "j"
    ((submission, cluster),) = sent
    assert cluster == Cluster("team-a", "c")
    assert set(submission.files) == {FILE_NAME, "training.py", "scaling.py"}
    content = submission.files[FILE_NAME]
    command = submission.spec.roles["worker"].command
    assert command[-3:] == (f"/pliant/files/{FILE_NAME}", "--sha256", digest_of(content))
    assert submission.spec.platform.kubernetes.image == "i:1"
    assert submission.spec.working_dir is None
    payload = Payload.from_bytes(content, "the payload")
    assert payload.path == ()
    assert payload.body == b""


def test_a_closure_brings_the_modules_that_it_names(sent: list[tuple[Submission, Cluster]], module: ModuleType) -> None:
    pytest.importorskip("cloudpickle")
    pliant.submit(
        lambda: module.train(pliant.connect().name), platform="kubernetes", files=[Path(module.__file__ or "")]
    )
    ((submission, _),) = sent
    assert set(submission.files) == {FILE_NAME, "training.py", "scaling.py"}


def test_packages_and_folders_of_this_machine_are_refused(
    sent: list[tuple[Submission, Cluster]], module: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match="directories cannot be sent to a cluster"):
        pliant.submit(import_module("package").train, platform="kubernetes")
    with pytest.raises(InvalidRequest, match="job_dir is a folder of this machine"):
        pliant.submit(module.train, args=(1,), platform="kubernetes", job_dir=tmp_path / "j")
    assert sent == []
