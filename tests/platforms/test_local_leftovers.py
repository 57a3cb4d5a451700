"""What a local platform makes of nodes that an earlier master started, or nearly did."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.resources import Resources
from pliant.files.atomic import write_json
from pliant.files.locks import FileLock
from pliant.platforms.base import JobContext, NodeEvent, NodeLaunch, Refusal, ScalePlan
from pliant.platforms.local import LocalPlatform, revive, sweep_job
from pliant.testing.waiting import MAX_WAIT_S

SLEEP = [sys.executable, "-c", "import time; time.sleep(1000)"]


@pytest.fixture
def job_dir(tmp_path: Path) -> Path:
    for name in ("nodes", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "job.yaml").write_text("name: job\n")
    return tmp_path


def scenario(body: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(body(), MAX_WAIT_S)

    asyncio.run(bounded())


def platform(job_dir: Path) -> tuple[LocalPlatform, JobContext]:
    return LocalPlatform(), JobContext("job", job_dir, "127.0.0.1:1", job_dir / "token")


def node_folder(job_dir: Path) -> Path:
    folder = job_dir / "nodes" / "worker-0"
    folder.mkdir()
    return folder


def test_a_node_whose_agent_was_never_started_is_not_reported_as_ended(job_dir: Path) -> None:
    async def body() -> None:
        node_folder(job_dir)
        local, context = platform(job_dir)
        _, watcher = local.open(context)
        assert await watcher.list() == []
        await local.close()

    scenario(body)


def test_a_node_whose_agent_is_gone_is_reported_as_ended(job_dir: Path) -> None:
    async def body() -> None:
        write_json(node_folder(job_dir) / "agent.json", {"pid": 1, "resources": Resources().to_json()})
        local, context = platform(job_dir)
        _, watcher = local.open(context)
        assert await watcher.list() == [NodeEvent("worker-0", False, ExitReason.KILLED, "its agent no longer exists")]
        await local.close()

    scenario(body)


def test_a_name_that_somebody_still_holds_is_not_started_a_second_time(job_dir: Path) -> None:
    async def body() -> None:
        holder = FileLock(node_folder(job_dir) / "agent.lock")
        assert holder.try_acquire()
        local, context = platform(job_dir)
        scaler, _ = local.open(context)
        launch = NodeLaunch("worker-0", "worker", Resources(), ("true",))
        (refusal,) = await scaler.scale(ScalePlan(launch=(launch,)))
        assert refusal == Refusal("worker-0", "processes of an earlier master are still running", unschedulable=True)
        await local.close()

    scenario(body)


def test_an_agent_that_is_preempted_before_it_is_ready_was_preempted(job_dir: Path) -> None:
    async def body() -> None:
        local, context = platform(job_dir)
        scaler, watcher = local.open(context)
        await scaler.scale(ScalePlan(launch=(NodeLaunch("worker-0", "worker", Resources(), ("true",)),)))
        (job_dir / "token").write_text("x" * 64)
        pid = int((job_dir / "nodes" / "worker-0" / "agent.json").read_text().split('"pid":')[1].split(",")[0])
        os.kill(pid, signal.SIGTERM)
        event = await anext(watcher.watch())
        assert (event.alive, event.exit_reason) == (False, ExitReason.PREEMPTED)
        await local.close()

    scenario(body)


def test_sweeping_a_job_ends_its_processes_and_no_others(job_dir: Path) -> None:
    marks = {"PLIANT_JOB_DIR": str(job_dir), "PLIANT_JOB": "job", "PLIANT_NODE": "worker-0"}
    ours = subprocess.Popen(SLEEP, env={**os.environ, **marks})
    others = subprocess.Popen(SLEEP, env={**os.environ, **marks, "PLIANT_JOB_DIR": f"{job_dir}-2"})
    try:
        sweep_job(job_dir)
        assert ours.wait(MAX_WAIT_S) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        for process in (ours, others):
            process.kill()
            process.wait()


@pytest.mark.parametrize("reason", ["not supervised", "launcher there", "job over", "folder gone"])
def test_no_supervisor_is_started_where_none_is_missing(
    job_dir: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_SUPERVISED", "0" if reason == "not supervised" else "1")
    launcher = FileLock(job_dir / "launcher.lock")
    if reason == "launcher there":
        assert launcher.try_acquire()
    if reason == "job over":
        (job_dir / "summary.json").write_text("{}")
    if reason == "folder gone":
        (job_dir / "job.yaml").unlink()
    assert revive(job_dir) is None
    launcher.release()


def test_a_supervisor_that_an_agent_starts_has_no_marks_of_the_agents_node(
    job_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}

    class Started:
        def __init__(self, _command: list[str], *, env: dict[str, str], **_: object) -> None:
            given.update(env)

    for name, value in {
        "PLIANT_SUPERVISED": "1",
        "PLIANT_NODE": "worker-0",
        "PLIANT_HOME": "/h",
        "COLOUR": "green",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subprocess, "Popen", Started)
    assert revive(job_dir) is not None
    assert [name for name in given if name.startswith("PLIANT_")] == ["PLIANT_HOME"]
    assert given["COLOUR"] == "green"
