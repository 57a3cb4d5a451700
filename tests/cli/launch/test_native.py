"""Paths of native training that runs on Kubernetes: as Pods see them, or refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.cli.launch import native
from pliant.cli.launch.native import _with_pod_paths
from pliant.cli.options.run import RunOptions
from pliant.core.errors import InvalidRequest
from pliant.core.job import Phase
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.files.atomic import write_json
from pliant.launch.job_folder import PreparedJob
from pliant.launch.paths import pod_path
from pliant.native.model_file.description import Description
from pliant.native.prediction.outputs import parts_folder


def described(**more: object) -> Description:
    return Description.model_validate({"model": "net.py", "data": ["train.csv"], **more})


def test_relative_paths_are_of_the_claim_and_urls_stay() -> None:
    given = described(data=["a/*.rio", "s3://b/c"], eval_data=["/data/in/the/image.csv"], output="out", trained="old")
    made = _with_pod_paths(given, "team", servers=True)
    assert made.data == ["/pliant/shared/a/*.rio", "s3://b/c"]
    assert made.eval_data == ["/data/in/the/image.csv"]
    assert (made.output, made.trained) == ("/pliant/shared/out", "/pliant/shared/old")


def test_what_no_pod_would_find_or_what_would_be_lost_is_refused(tmp_path: Path) -> None:
    here = str(tmp_path)
    cases = [
        (described(), None, False, "Pods cannot read files on this machine"),
        (described(data=[here]), "team", False, "is on this machine"),
        (described(data=["s3://b/c"], output="/nowhere/out"), None, False, "would be lost"),
        (described(data=["s3://b/c"], output="s3://b/out"), "team", False, "--output s3://b/out is a URL"),
        (described(data=["s3://b/c"]), None, True, "parameter servers on Kubernetes need a directory"),
    ]
    for given, claim, servers, told in cases:
        with pytest.raises(InvalidRequest, match=told) as error:
            _with_pod_paths(given, claim, servers=servers)
        assert "--claim" in error.value.hint


def test_checkpoints_go_to_the_claim_or_to_a_url() -> None:
    assert pod_path("saved", "--checkpoint-dir", "team") == "/pliant/shared/saved"
    assert pod_path("s3://b/saved", "--checkpoint-dir", None) == "s3://b/saved"
    with pytest.raises(InvalidRequest, match="would be lost"):
        pod_path("/nowhere/saved", "--checkpoint-dir", "team")


def test_parts_of_predictions_stay_for_a_resume_and_are_not_those_of_the_next_job_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_HOME", str(tmp_path / "home"))
    output = tmp_path / "said.csv"
    parts = parts_folder(output, "said")

    found = []

    def start(job: PreparedJob, _: object) -> JobSummary:
        found.append(parts.exists())
        parts.mkdir(parents=True)
        (parts / "part-0").touch()
        write_json(job.home.summary_file, {"phase": "Stopped"})
        return JobSummary(JobStatus("said", Phase.STOPPED))

    monkeypatch.setattr(native, "start", start)
    monkeypatch.setattr(native, "_put_files", lambda *_: None)
    monkeypatch.setattr("pliant.native.preflight.run_preflight", lambda *_, **__: None)
    about = described(task="predict", output=str(output), trained="trained")
    for options in (RunOptions(name="said"), RunOptions(name="said", overwrite=True)):
        with pytest.raises(SystemExit):
            native.run_native(about, Path("net.py"), options, workers=(1, 1), strategy="none")
    assert found == [False, False]
    assert parts.exists()
