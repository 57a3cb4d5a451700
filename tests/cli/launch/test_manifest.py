from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.cli.command_line import CommandLine

from pliant.core.errors import InvalidRequest, NotFound, SpecError
from pliant.core.events import EventRecord, WorldFormed
from pliant.handles.kubernetes.pod_output import LogCursor
from pliant.handles.kubernetes.summary import Remains, read_remains, summary_of
from pliant.launch.manifest import completed, read_files, read_job, with_script, with_scripts
from pliant.platforms.kubernetes.elastic_job import _fitting
from pliant.platforms.kubernetes.elastic_job_status import status_of_resource
from pliant.platforms.kubernetes.traits import uses_tls
from pliant.spec import JobSpec

JOB = "name: digits\nroles: {worker: {replicas: '1:3', command: [python, train.py]}}\n"
RESOURCE = """
apiVersion: pliant.dev/v1alpha1
kind: ElasticJob
metadata: {name: digits, namespace: team, labels: {team: vision}}
spec: {roles: {worker: {command: ['true']}}}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [JOB, RESOURCE])
def test_who_plans_is_written_if_the_file_says_it_also_if_it_is_as_by_default(tmp_path: Path, text: str) -> None:
    silent = read_job(write(tmp_path, text), name=None, namespace="team").elastic_job()
    assert "optimize" not in silent["spec"]
    said = text + "optimize: manual\n" if text is JOB else text.replace("spec: {", "spec: {optimize: {mode: manual}, ")
    found = completed(read_job(write(tmp_path, said), name=None, namespace="team"), [], "image:1").elastic_job()
    assert found["spec"]["optimize"] == {"mode": "manual"}


def test_a_jobs_spec_becomes_an_elastic_job_of_the_same_meaning(tmp_path: Path) -> None:
    made = read_job(write(tmp_path, JOB), name=None, namespace="team")
    body = yaml.safe_load(made.to_yaml())
    assert (body["apiVersion"], body["kind"]) == ("pliant.dev/v1alpha1", "ElasticJob")
    assert body["metadata"] == {"name": "digits", "namespace": "team"}
    again = JobSpec.from_dict(body["spec"])
    assert again == made.spec
    assert again.platform.kind == "kubernetes"
    assert uses_tls(again)


def test_an_elastic_job_keeps_its_metadata_and_gets_its_name(tmp_path: Path) -> None:
    made = read_job(write(tmp_path, RESOURCE), name=None, namespace=None)
    assert (made.name, made.namespace, made.labels) == ("digits", "team", {"team": "vision"})
    assert made.spec.name == "digits"
    assert read_job(write(tmp_path, RESOURCE), name="other", namespace="mine").elastic_job()["metadata"] == {
        "name": "other",
        "labels": {"team": "vision"},
        "namespace": "mine",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: v1\nkind: Pod\n", "contains a Pod of v1"),
        (RESOURCE.replace("spec: {", "spec: {name: letters, "), "metadata.name is 'digits'"),
        (RESOURCE.replace("command", "comand"), "roles.worker.comand"),
        ("- a\n", "does not contain a job"),
        ("platform: ray\nroles: {worker: {command: ['true']}}\n", "platform is ray"),
    ],
)
def test_what_is_no_job_for_kubernetes_is_refused_with_the_reason(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises((SpecError, InvalidRequest), match=told):
        read_job(write(tmp_path, text), name=None, namespace=None)


def test_files_travel_as_text_where_they_are_and_as_bytes_where_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ü')\n")
    (tmp_path / "weights.bin").write_bytes(b"\xff\x00")
    files = read_files([tmp_path / "train.py", tmp_path / "weights.bin"])
    made = read_job(write(tmp_path, JOB), name=None, namespace="team")
    sent = type(made)(made.spec, made.namespace, files).files_map()
    assert sent is not None
    assert sent["metadata"]["name"] == "digits-files"
    assert sent["data"] == {"train.py": "print('ü')\n"}
    assert sent["binaryData"] == {"weights.bin": "/wA="}


def test_files_that_a_config_map_cannot_take_are_refused(tmp_path: Path) -> None:
    large, spaced, inner = tmp_path / "large.bin", tmp_path / "a b.py", tmp_path / "inner"
    large.write_bytes(bytes(1 << 20))
    spaced.write_text("")
    inner.mkdir()
    (inner / "large.bin").write_text("")
    for paths, told in (
        ([large], "holds at most 1,048,576"),
        ([spaced], "'a b.py'"),
        ([inner], "is a directory"),
        ([inner / "large.bin", inner / "large.bin"], "two files"),
    ):
        with pytest.raises(InvalidRequest, match=told):
            read_files(paths)
    with pytest.raises(NotFound, match=r"missing\.py not found"):
        read_files([tmp_path / "missing.py"])


def test_a_local_script_is_sent_along_and_named_by_where_it_will_be(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    assert with_script(["python", str(script), "--x", "a.py"], set()) == (
        ["python", "/pliant/files/train.py", "--x", "a.py"],
        script,
    )
    assert with_script(["python3.11", str(script)], {"train.py"})[1] is None
    assert with_script(["python", "/app/train.py"], set()) == (["python", "/app/train.py"], None)
    assert with_script(["echo", "train.py"], set()) == (["echo", "train.py"], None)
    with pytest.raises(NotFound, match="so it cannot be sent"):
        with_script(["python", "missing.py"], set())


def test_commands_about_a_folder_of_the_image_are_left_alone() -> None:
    spec = JobSpec.from_dict({"working_dir": "/app", "roles": {"worker": {"command": ["python", "train.py"]}}})
    assert with_scripts(spec, []) == (spec, [])


def test_a_dry_run_prints_what_would_be_created_and_asks_no_cluster(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    path = write(tmp_path, JOB)
    given = ("submit", str(path), "--dry-run", "--file", str(tmp_path / "train.py"), "--image", "mine:1", "-N", "team")
    shown = command_line(*given)
    assert shown.exit_code == 0, shown.output
    files, job = yaml.safe_load_all(shown.stdout)
    assert json.loads(command_line(*given, "--json").stdout) == [files, job]
    assert files["data"] == {"train.py": "print(1)\n"}
    assert job["spec"]["platform"]["kubernetes"]["image"] == "mine:1"


@pytest.mark.parametrize("flag", [["--job-dir", "x"], ["--resume"], ["--log-dir", "x"]])
def test_what_is_about_this_machine_is_refused_for_a_cluster(command_line: CommandLine, flag: list[str]) -> None:
    result = command_line("run", "--platform", "kubernetes", *flag, "--", "true")
    assert result.exit_code == 2
    assert "only to local jobs" in result.stderr


def test_what_is_about_a_cluster_is_refused_for_this_machine(command_line: CommandLine) -> None:
    result = command_line("run", "--image", "mine:1", "--", "true")
    assert result.exit_code == 2
    assert "--platform kubernetes" in result.stderr
    assert not command_line.home.exists()


def test_lines_that_a_server_repeats_after_a_reconnect_are_told_once() -> None:
    log = LogCursor()
    assert log.take("2026-01-01T00:00:01.1Z first") == "first"
    assert log.take("2026-01-01T00:00:01.25Z second") == "second"
    assert log.take("rest of it") == "rest of it"
    assert [log.take(f"2026-01-01T00:00:01.{f}Z again") for f in ("1", "25")] == [None, None]
    assert log.take("rest of it") is None
    assert log.take("unable to retrieve container logs for containerd://1f85") is None
    assert log.take("2026-01-01T00:00:01.3Z ") == ""
    assert log.since == "2026-01-01T00:00:01.3Z"


NOW = 1_800_000_000.0


def test_an_elastic_job_without_a_master_tells_what_its_status_knows() -> None:
    job = {
        "metadata": {"name": "digits"},
        "spec": {"roles": {"worker": {"replicas": {"min": 1, "max": 4, "wanted": 2}}}},
        "status": {
            "phase": "Failed",
            "message": "no workers left",
            "started": "2026-01-01T00:00:00Z",
            "finished": "2026-01-01T00:01:30Z",
            "roles": {"worker": {"wanted": 2, "ready": 1}},
            "progress": {"records": 5, "total": 20, "step": 7},
        },
    }
    status = status_of_resource(job, NOW)
    assert (status.phase, status.reason, status.global_step) == ("Failed", "no workers left", 7)
    assert [(role.name, role.max, role.wanted, role.ready) for role in status.roles] == [("worker", 4, 2, 1)]
    summary = summary_of(job, Remains(), NOW)
    assert (summary.exit_code, summary.seconds, summary.records_done) == (1, 90.0, 5)
    value = (
        '{"name": "digits", "phase": "Succeeded", "exit_code": 0, "events": [{"number": 1}], "audit": {"exact": true}}'
    )
    remains = read_remains({"data": {"summary.json": value}})
    found = summary_of(job, remains, NOW)
    assert (found.phase, found.exit_code) == ("Succeeded", 0)
    assert not {"events", "audit"} & set(found.to_json())
    assert (remains.events, remains.audit) == ([{"number": 1}], {"exact": True})


def test_a_summary_that_is_too_large_for_a_config_map_loses_its_lists_and_stays_json() -> None:
    nodes = [{"name": f"worker-{number}", "message": "x" * 1000} for number in range(2000)]
    event = {"number": 1, "facts": {"reason": "x" * 1000}, "message": "x" * 1000}
    few = json.loads(_fitting({"phase": "Succeeded", "nodes": nodes[:3], "events": [event]}))
    assert (len(few["nodes"]), len(few["events"])) == (3, 1)
    chatty = json.loads(_fitting({"phase": "Succeeded", "nodes": nodes[:3], "events": [event] * 2000}))
    assert (len(chatty["nodes"]), chatty["events"], chatty["left_out"]) == (3, [], ["events"])
    large = json.loads(_fitting({"phase": "Succeeded", "nodes": nodes, "events": [event]}))
    assert (large["phase"], large["nodes"]) == ("Succeeded", [])


def test_events_that_name_many_nodes_stay_in_the_summary() -> None:
    members = tuple(f"worker-{number}" for number in range(100))
    formed = [EventRecord(n, 1.0, WorldFormed(round=n, members=members, reason="a node joined")) for n in range(500)]
    summary = json.loads(_fitting({"phase": "Succeeded", "events": [record.to_json() for record in formed]}))
    assert [EventRecord.from_json(event) for event in summary["events"]] == formed
