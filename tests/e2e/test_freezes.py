"""Processes that are there and do not run: what they hold goes to others, and what they say too late does not count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pliant.core.events import EventKind
from pliant.testing.jobs import LocalJob
from pliant.testing.reading import ReadingJob
from pliant.testing.traces import read_traces

pytestmark = pytest.mark.e2e
PATIENT_S = 15.0  # a time-out that nobody who runs exceeds, on a busy machine either


def test_shards_of_a_frozen_program_go_to_others_and_its_late_reports_are_refused(tmp_path: Path) -> None:
    read = {"train": {"size": 600, "shard_size": 3}}
    with ReadingJob(tmp_path, read, workers=2, gated=True, spec={"fault": {"session_timeout": 3.0}}) as job:
        job.wait_until_all_work(2)
        frozen = job.freeze_program("worker-1")
        job.until(lambda: [e for e in job.events(EventKind.SESSION) if e.node == "worker-1"], "the end of its session")
        job.thaw(frozen)
        job.until(lambda: "opening a new one" in job.log("worker-1"), "a new session")
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        sessions = {seen.session for seen in read_traces(job.traces) if seen.node == "worker-1"}
        summary = job.summary()
    assert len(sessions) > 1, "it went on with a new session"
    assert (summary["restarts"], summary["replacements"]) == (0, 0)
    assert "was leased to another worker" in job.log("worker-1")


def test_a_program_that_commits_is_told_when_its_shard_was_given_to_another(tmp_path: Path) -> None:
    program = tmp_path / "commit.py"
    program.write_text(
        "import os, pliant, time\n"
        "job = pliant.connect()\n"
        "for shard in job.shards('train', size=150, shard_size=1, prefetch=1):\n"
        "    time.sleep(0.05)\n"
        "    print(shard.start, shard.commit(), flush=True)\n"
    )
    spec = {"fault": {"session_timeout": 3.0}}
    with LocalJob(tmp_path, ["python", str(program)], workers=2, spec=spec) as job:
        job.until(lambda: "True" in job.log("worker-0"), "its first commit")
        frozen = job.freeze_program("worker-0")
        job.until(lambda: [e for e in job.events(EventKind.SESSION) if e.node == "worker-0"], "the end of its session")
        job.thaw(frozen)
        assert job.wait() == 0
        said = [line.split() for node in ("worker-0", "worker-1") for line in job.log(node).splitlines()]
    committed = [int(words[0]) for words in said if words[1:] == ["True"]]
    assert sorted(committed) == list(range(150))


def test_a_node_whose_agent_is_frozen_is_given_up_killed_and_replaced(tmp_path: Path) -> None:
    words = 'echo started; [ "$PLIANT_NODE" != worker-0 ] || sleep 1000'
    spec = {"fault": {"heartbeat_timeout": PATIENT_S}}
    with LocalJob(tmp_path, ["bash", "-c", words], workers=2, spec=spec) as job:
        program = job.wait_until_running("worker-0").pid
        agent = job.freeze_agent("worker-0")
        assert job.wait() == 0
        assert not {agent, program} & {process.pid for process in job.processes()}
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert (nodes["worker-0"]["state"], nodes["worker-0"]["exit_reason"]) == ("Failed", "Hang")
    assert "no heartbeat" in nodes["worker-0"]["message"]
    assert nodes["worker-2"]["replaces"] == "worker-0"


def test_nobody_is_given_up_because_the_master_was_frozen(tmp_path: Path) -> None:
    read = {"train": {"size": 400, "shard_size": 2}}
    fault = {"heartbeat_timeout": PATIENT_S, "session_timeout": PATIENT_S}
    with ReadingJob(tmp_path, read, workers=2, gated=True, spec={"fault": fault}) as job:
        job.wait_until_all_work(2)
        frozen_at = job.events()[-1].number
        master = job.freeze_master()
        job.outlast(*fault.values())
        job.thaw(master)
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        summary = job.summary()
    assert (summary["restarts"], summary["replacements"], summary["master_starts"]) == (0, 0, 1)
    late = [
        e
        for e in job.events()
        if e.number > frozen_at and e.kind in (EventKind.SESSION, EventKind.LEASE, EventKind.HANG)
    ]
    assert not late


def test_a_worker_that_hangs_in_the_very_first_shard_is_replaced_and_those_who_only_wait_are_not(
    tmp_path: Path,
) -> None:
    program = tmp_path / "stuck.py"
    program.write_text(
        "import pathlib, pliant, time\n"
        "job = pliant.connect()\n"
        "for shard in job.shards('train', size=1, shard_size=1, prefetch=1):\n"
        "    if not pathlib.Path('stuck').exists():\n"
        "        pathlib.Path('stuck').write_text(job.node)\n"
        "        time.sleep(1000)\n"
    )
    spec = {"fault": {"progress_timeout": PATIENT_S, "grace": 0.5}}
    with LocalJob(tmp_path, ["python", str(program)], workers=3, spec=spec) as job:
        assert job.wait() == 0
        stuck = (tmp_path / "stuck").read_text()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert {name for name, node in nodes.items() if node["exit_reason"] == "Hang"} == {stuck}
    assert "no progress" in nodes[stuck]["message"]
    assert len(nodes) == 4
    assert json.loads(job.home.summary_file.read_text())["records_done"] == 1
