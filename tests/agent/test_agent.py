"""Real agents with real programs, against a master in this process."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pliant.core.job import Phase
from pliant.core.status import JobStatus, NodeStatus
from pliant.platforms import cgroup
from pliant.platforms.processes import find_marked, is_alive
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import RunningMaster, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="agents are tested on Linux")]

QUICK = {"backoff": {"first": 0.05, "factor": 2.0, "longest": 1.0}, "limit": 3}
FAULT = {"error": {**QUICK, "in_place": True}, "killed": {**QUICK, "in_place": True}, "unknown": QUICK, "oom": QUICK}
FOR_EVER = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('ready'); signal.pause()"
NO_SHARDS = {"need_task_manager": False}

Start = Callable[..., RunningMaster]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a job of the local platform, whose workers run a piece of Python."""
    masters: list[RunningMaster] = []

    def begin(code: str, *, workers: object = 1, command: list[str] | None = None, **spec: Any) -> RunningMaster:
        worker = {
            "command": command or [sys.executable, "-c", textwrap.dedent(code)],
            "replicas": workers,
            **spec.pop("worker", {}),
        }
        fault = {**FAULT, **spec.pop("fault", {})}
        job = {"roles": {"worker": worker}, "fault": fault, "components": NO_SHARDS, **spec}
        masters.append(RunningMaster(tmp_path, job, platform="spec").start())
        return masters[-1]

    yield begin
    for master in masters:
        master.close()
    wait_until(lambda: not find_marked({"PLIANT_JOB_DIR": str(tmp_path / "job")}), what="the end of all processes")


def status(master: RunningMaster) -> JobStatus:
    return master.status()


def node(master: RunningMaster, name: str) -> NodeStatus | None:
    return next((n for n in status(master).nodes if n.name == name), None)


def running(master: RunningMaster, name: str, log: str = "ready") -> NodeStatus:
    """The node, once its program runs and has said so."""

    def look() -> NodeStatus | None:
        found = node(master, name)
        path = master.job_dir.log_of(name)
        said = path.exists() and log in path.read_text()
        return found if found is not None and found.pid and said else None

    return wait_until(look, what=f"the program of {name}")


def ended(master: RunningMaster, name: str) -> NodeStatus:
    def look() -> NodeStatus | None:
        found = node(master, name)
        return found if found is not None and found.ended_at else None

    return wait_until(look, what=f"the end of {name}")


def is_gone(pid: int) -> bool:
    try:
        return not is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def summary_of(master: RunningMaster) -> dict[str, Any]:
    master.join(90)
    summary = master.job_dir.summary()
    assert summary is not None
    return summary


def test_a_program_that_fails_is_started_again_in_place_and_may_succeed(start: Start) -> None:
    master = start("import os, sys; print('run', run := os.environ['PLIANT_INCARNATION']); sys.exit(run != '2')")
    summary = summary_of(master)
    assert (summary["phase"], summary["restarts"], summary["replacements"]) == ("Succeeded", 2, 0)
    assert master.job_dir.log_of("worker-0").read_text().splitlines() == ["run 0", "run 1", "run 2"]


def test_the_traceback_of_the_first_failure_is_in_the_summary(start: Start) -> None:
    summary = summary_of(start("def train():\n    raise ValueError('a bad batch')\ntrain()"))
    assert (summary["phase"], summary["exit_code"]) == ("Failed", 1)
    failure = summary["first_failure"]
    assert (failure["node"], failure["kind"]) == ("worker-0", "Error")
    assert failure["traceback"].startswith("Traceback (most recent call last)")
    assert failure["traceback"].rstrip().endswith("ValueError: a bad batch")
    assert "exit code 1: ValueError: a bad batch" in failure["message"]
    assert failure["log"].endswith("worker-0.log")
    assert "failed 4 times (limit 3)" in summary["reason"]


def test_a_program_gets_to_know_who_it_is_but_not_the_secret_itself(start: Start) -> None:
    master = start("import os, json; print(json.dumps(dict(os.environ)))", worker={"env": {"MINE": "yes"}})
    assert master.join() is Phase.SUCCEEDED
    env = __import__("json").loads(master.job_dir.log_of("worker-0").read_text())
    told = {key: env[key] for key in ("PLIANT_JOB", "PLIANT_NODE", "PLIANT_ROLE", "PLIANT_INCARNATION", "MINE")}
    assert told == {
        "PLIANT_JOB": "tested",
        "PLIANT_NODE": "worker-0",
        "PLIANT_ROLE": "worker",
        "PLIANT_INCARNATION": "0",
        "MINE": "yes",
    }
    assert master.job_dir.token.read_text() not in str(env)


def test_a_command_that_does_not_exist_fails_the_job_with_what_to_do(start: Start) -> None:
    summary = summary_of(start("", command=["no-such-program", "--fast"]))
    assert summary["phase"] == "Failed"
    assert "the command 'no-such-program' was not found" in summary["first_failure"]["message"]
    assert "check the spelling" in summary["first_failure"]["traceback"]


def test_a_preempted_node_passes_the_notice_on_and_is_replaced_without_blame(start: Start) -> None:
    master = start(FOR_EVER)
    os.kill(running(master, "worker-0").agent_pid, signal.SIGTERM)
    gone = ended(master, "worker-0")
    assert (gone.state, gone.exit_reason) == ("Failed", "Preempted")
    assert running(master, "worker-1").replaces == "worker-0"
    assert status(master).first_failure is None


def test_a_program_that_ignores_the_notice_is_killed_after_its_grace(start: Start) -> None:
    stubborn = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready')\nwhile True: signal.pause()"
    )
    master = start(stubborn, fault={"grace": 0.2})
    os.kill(running(master, "worker-0").agent_pid, signal.SIGTERM)
    assert ended(master, "worker-0").exit_reason == "Preempted"


def test_a_killed_program_is_a_crash_and_is_started_again_on_its_node(start: Start) -> None:
    master = start(FOR_EVER)
    first = running(master, "worker-0")
    os.kill(first.pid, signal.SIGKILL)
    again = wait_until(lambda: (n := node(master, "worker-0")) and n.pid not in (0, first.pid) and n, what="a restart")
    assert isinstance(again, NodeStatus)
    assert (again.state, again.restarts, again.exit_reason) == ("Running", 1, "Killed")
    assert again.agent_pid == first.agent_pid


def test_a_killed_agent_takes_its_program_with_it_and_the_node_is_replaced(start: Start) -> None:
    master = start(FOR_EVER)
    first = running(master, "worker-0")
    os.kill(first.agent_pid, signal.SIGKILL)
    assert ended(master, "worker-0").exit_reason == "Killed"
    assert running(master, "worker-1").pid != first.pid
    assert is_gone(first.pid)


def test_an_order_to_stop_ends_the_node_and_its_program(start: Start) -> None:
    master = start(FOR_EVER, workers="1:2")
    running(master, "worker-0")
    second = running(master, "worker-1")
    master.client.call(master.client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=1, reason="night"))
    assert ended(master, "worker-1").state == "Deleted"
    wait_until(lambda: is_gone(second.agent_pid), what="the end of the agent")
    assert running(master, "worker-0").state == "Running"


def test_a_program_goes_on_while_the_master_is_away_and_is_known_to_the_next(start: Start) -> None:
    master = start(FOR_EVER)
    before = running(master, "worker-0")
    master.restart()
    after = running(master, "worker-0")
    assert (after.pid, after.restarts) == (before.pid, 0)
    assert master.stop_job() is Phase.STOPPED


def test_an_agent_that_hears_of_no_master_for_too_long_ends_with_its_program(start: Start) -> None:
    master = start(FOR_EVER, fault={"orphan_timeout": 0.5})
    orphan = running(master, "worker-0")
    master.kill()
    wait_until(lambda: is_gone(orphan.agent_pid), what="the end of the orphan")
    assert is_gone(orphan.pid)
    master.start()
    assert ended(master, "worker-0").message == "its agent could not reach a master for too long"
    running(master, "worker-1")


def test_a_program_that_completed_has_completed_also_if_its_node_is_preempted_before_a_master_heard_of_it(
    start: Start, tmp_path: Path
) -> None:
    code = f"""
        import os, time
        from pathlib import Path
        from pliant.checkpoint.slots import SlotFolder, SlotSnapshot
        print("ready")
        while not Path({str(tmp_path / "go")!r}).exists():
            time.sleep(0.05)
        lost = SlotSnapshot(0, 1, 1, 0, 1, 1, "", "", 1, 4, 0.0, {str(tmp_path / "out")!r}, "/nowhere", 3, 0)
        SlotFolder(Path(os.environ["PLIANT_SNAPSHOT_DIR"])).publish(lost)  # its report is the first that has to wait
    """
    master = start(code)
    before = running(master, "worker-0")
    master.kill()
    (tmp_path / "go").touch()
    wait_until(lambda: not psutil.pid_exists(before.pid), what="the agent to notice the end of the program")
    os.kill(before.agent_pid, signal.SIGTERM)
    wait_until(lambda: is_gone(before.agent_pid), what="the end of the agent")
    master.start()
    assert master.join() is Phase.SUCCEEDED
    assert [entry["name"] for entry in (master.job_dir.summary() or {})["nodes"]] == ["worker-0"]


def test_what_a_program_leaves_running_does_not_outlive_it(start: Start) -> None:
    master = start("import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
    assert master.join() is Phase.SUCCEEDED
    assert not find_marked({"PLIANT_JOB_DIR": str(master.job_dir.path)})


@pytest.mark.skipif(bool(cgroup.why_not()), reason=f"no cgroup for a node here: {cgroup.why_not()}")
def test_a_program_that_outgrows_its_memory_is_replaced_by_one_with_more(start: Start) -> None:
    hungry = """
        import os
        limit = int(os.environ["PLIANT_MEMORY_MB"])
        if limit < 200:
            held = bytearray(300 << 20)
            held[::4096] = b"x" * len(held[::4096])
    """
    memory = {"memory": {"factor": 4.0}}
    summary = summary_of(start(hungry, worker={"resources": {"memory": 64}}, fault=memory))
    assert summary["phase"] == "Succeeded", summary["reason"]
    first, second = summary["nodes"]
    assert (first["exit_reason"], second["replaces"]) == ("OOM", "worker-0")
    assert second["memory_limit_mb"] == 320


def test_a_shard_on_which_the_program_dies_again_and_again_is_parked_and_named(start: Start) -> None:
    code = """
        import pliant
        for shard in pliant.connect().shards("train", size=40, shard_size=10, prefetch=1):
            if 25 in shard:
                raise ValueError("record 25 is bad")
    """
    summary = summary_of(start(code, components={}, fault={"error": {**QUICK, "limit": 5, "in_place": True}}))
    assert summary["phase"] == "Failed"
    assert "dataset train, epoch 0, records [20, 30): failed 3 times" in summary["reason"]
    assert "ValueError: record 25 is bad" in summary["reason"]
    assert summary["records_done"] == 30


def test_an_agent_announces_its_program_to_a_master_that_lost_the_journal_and_the_program_runs_on(start: Start) -> None:
    master = start(FOR_EVER, strategy="allreduce", components={})
    os.kill(running(master, "worker-0").pid, signal.SIGKILL)
    wait_until(lambda: (found := node(master, "worker-0")) and found.restarts == 1 and found.pid, what="its second run")
    before = node(master, "worker-0")
    assert before is not None
    master.takes_over = True
    master.lose_journal().start()
    after = wait_until(lambda: found if (found := node(master, "worker-0")) and found.pid else None, what="its agent")
    assert (after.pid, after.agent_pid, after.state) == (before.pid, before.agent_pid, "Running")
    os.kill(after.pid, signal.SIGKILL)
    third = wait_until(
        lambda: found if (found := node(master, "worker-0")) and found.pid not in (0, after.pid) else None,
        60,
        "a third",
    )
    assert psutil.Process(third.pid).environ()["PLIANT_INCARNATION"] == "2"
