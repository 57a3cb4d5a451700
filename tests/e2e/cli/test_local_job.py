"""One real job, looked at by every command while it runs and after it ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.cli.command_line import CommandLine

from pliant.testing.waiting import wait_until

pytestmark = pytest.mark.e2e
PATIENCE = 120  # seconds


def status_of(command_line: CommandLine, name: str) -> dict[str, Any]:
    result = command_line("status", name, "--json")
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def waiting_workers(command_line: CommandLine, name: str) -> int:
    return sum("waits" in path.read_text() for path in (command_line.job(name) / "logs").glob("worker-*.log"))


def start_job(command_line: CommandLine, name: str, *options: str) -> None:
    gate = command_line.folder / f"gate-{name}"
    program = command_line.program()
    command_line.start("run", "--name", name, *options, "--", "python", str(program), str(gate), "--json", "-f")
    wait_until(lambda: waiting_workers(command_line, name) == 2, PATIENCE, "two workers at work")


def open_gate(command_line: CommandLine, name: str) -> None:
    (command_line.folder / f"gate-{name}").touch()


@pytest.fixture(scope="module")
def running(module_command_line: CommandLine) -> Iterator[CommandLine]:
    start_job(module_command_line, "digits", "--workers", "1:2", "--audit")
    yield module_command_line
    open_gate(module_command_line, "digits")
    wait_until((module_command_line.job("digits") / "summary.json").exists, PATIENCE, "the end of the job")


def test_status_lists_nodes_datasets_components_and_the_master(running: CommandLine) -> None:
    wait_until(lambda: all(n["pid"] for n in status_of(running, "digits")["nodes"]), PATIENCE, "the programs' numbers")
    found = status_of(running, "digits")
    assert (found["name"], found["phase"], found["note"]) == ("digits", "Running", "")
    assert found["job_dir"] == str(running.job("digits"))
    assert psutil.pid_exists(found["master"]["pid"])
    assert found["master"]["alive"]
    assert {"nodes", "shards"} <= set(found["components"])
    for node in found["nodes"]:
        assert (node["role"], node["state"], node["restarts"], node["exit_reason"]) == ("worker", "Running", 0, "")
        assert psutil.pid_exists(node["pid"])
        assert psutil.pid_exists(node["agent_pid"])
    (dataset,) = found["datasets"]
    assert dataset["records_total"] == 400
    assert dataset["epochs_done"] == 0
    assert not dataset["complete"]


def test_the_table_names_each_node(running: CommandLine) -> None:
    shown = running("status").stdout
    assert "digits  Running" in shown
    assert "worker-0" in shown
    assert "worker-1" in shown


def test_jobs_lists_it_as_running(running: CommandLine) -> None:
    (row,) = json.loads(running("jobs", "--json").stdout)
    assert (row["name"], row["phase"], row["nodes_alive"]) == ("digits", "Running", 2)
    assert "Running" in running("jobs").stdout


def test_top_shows_what_each_node_uses(running: CommandLine) -> None:
    def sampled() -> bool:
        return all(n["memory_mb"] > 0 for n in json.loads(running("top", "--json").stdout)["nodes"])

    wait_until(sampled, PATIENCE, "a sample of each node")
    shown = running("top", "--once").stdout
    assert "worker-1" in shown
    assert "MB" in shown


def test_logs_show_that_options_after_the_dashes_reached_the_program(running: CommandLine) -> None:
    shown = running("logs", "--node", "worker-1").stdout
    assert shown == "worker-1 | worker-1 waits --json -f\n"


def test_events_tell_of_the_start_and_go_on_after_a_number(running: CommandLine) -> None:
    lines = [json.loads(line) for line in running("events", "--json").stdout.splitlines()]
    assert lines[0]["kind"] == "master"
    later = running("events", "--json", "--after", str(lines[1]["number"])).stdout.splitlines()
    assert json.loads(later[0])["number"] == lines[2]["number"]
    assert "worker-1 is running" in running("events").stdout


def test_an_audit_before_the_end_says_that_it_is_not_over(running: CommandLine) -> None:
    result = running("audit", "digits")
    assert result.exit_code == 1
    assert "is still running" in result.stdout


@pytest.mark.parametrize(
    ("args", "told"), [(["--workers", "99"], "2"), (["--role", "nurse", "--replicas", "1"], "nurse")]
)
def test_scaling_to_what_cannot_be_is_refused_with_the_reason(running: CommandLine, args: list[str], told: str) -> None:
    result = running("scale", "digits", *args)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_running_job_is_not_started_again(running: CommandLine) -> None:
    result = running("run", "--name", "digits", "--", "true")
    assert result.exit_code == 2
    assert "job digits is running in" in result.stderr


def test_a_killed_master_is_waited_for_and_the_job_goes_on(running: CommandLine) -> None:
    before = status_of(running, "digits")["master"]["pid"]
    psutil.Process(before).kill()
    found = wait_until(
        lambda: (s := status_of(running, "digits"))["master"]["pid"] != before and s, PATIENCE, "another master"
    )
    assert found
    assert found["phase"] == "Running"
    assert found["datasets"][0]["records_total"] == 400


def test_it_is_scaled_down_and_ends_and_every_command_still_knows_it(running: CommandLine) -> None:
    scaled = running("scale", "digits", "--workers", "1", "--reason", "one is enough")
    assert scaled.exit_code == 0, scaled.output
    assert "worker 2 -> 1" in scaled.stdout
    assert "one is enough" in running("events").stdout
    open_gate(running, "digits")
    followed = running("logs", "-f", "--tail", "1")
    assert "finished" in followed.stdout
    found = status_of(running, "digits")
    assert found["phase"] == "Succeeded"
    assert found["datasets"][0]["complete"]
    assert not found["master"]["alive"]
    audited = running("audit", "digits", "--json")
    assert audited.exit_code == 0, audited.output
    assert json.loads(audited.stdout)["exact"]
    assert running("top").exit_code == 2
    guide = (Path(__file__).parents[3] / "docs/guide.md").read_text(encoding="utf-8")
    table = guide.partition("## The job's folder")[2]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)}
    assert {"job.yaml", "summary.json", "journal.db"} < named
    missing = {name for name in named if not (running.job("digits") / name).exists()}
    assert missing == {"tls/", "checkpoints/", "ps/", "master.sock"}, (
        "what this job does not need, and what went with its master"
    )


def test_stop_waits_until_nothing_is_left(command_line: CommandLine) -> None:
    start_job(command_line, "short", "-n", "2", "--quiet")
    pids = [node["pid"] for node in status_of(command_line, "short")["nodes"]]
    result = command_line("stop", "short", "--reason", "enough", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["phase"], summary["reason"]) == ("Stopped", "enough")
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert command_line("audit", "short").exit_code == 2


def test_a_job_whose_master_and_launcher_are_gone_is_read_from_its_journal_and_swept(command_line: CommandLine) -> None:
    start_job(command_line, "lost", "-n", "2", "--quiet")
    launcher = command_line.started[-1]
    running = status_of(command_line, "lost")
    master = psutil.Process(running["master"]["pid"])
    for pid in (master.pid, *(node["agent_pid"] for node in running["nodes"])):
        psutil.Process(pid).suspend()  # so that none of them starts another launcher
    launcher.kill()
    launcher.wait()
    master.kill()
    wait_until(lambda: not master.is_running(), PATIENCE, "the end of the master")
    found = status_of(command_line, "lost")
    assert found["phase"] == "Interrupted"
    assert not found["master"]["alive"]
    assert [node["name"] for node in found["nodes"]] == ["worker-0", "worker-1"]
    assert found["datasets"][0]["records_total"] == 400
    assert "interrupted" in command_line("status", "lost").stdout
    scaled = command_line("scale", "lost", "--workers", "1")
    assert scaled.exit_code == 2
    assert "continue it with `pliant resume lost`" in scaled.stderr
    assert "leftover process" in command_line("stop", "lost", "--now").stdout
