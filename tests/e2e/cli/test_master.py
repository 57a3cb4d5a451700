"""``pliant master`` as a process: programs connect as it says, and a killed one goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from tests.cli.command_line import CommandLine

from pliant.files.atomic import read_json
from pliant.testing.waiting import wait_until

pytestmark = pytest.mark.e2e
PATIENCE = 60  # seconds
CONSUME = """
import sys
import pliant

left = int(sys.argv[1])
job = pliant.connect()
for shard in job.shards("train", size=100, shard_size=10):
    assert shard.commit()
    print(shard.start, flush=True)
    left -= 1
    if left == 0:
        break
"""


def serving(command_line: CommandLine, pid: int) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        where = read_json(command_line.job("feed") / "master.json")
        return where if where and where["pid"] == pid else None

    return wait_until(found, PATIENCE, "the master to listen")


def consume(command_line: CommandLine, shards: int, connect: str) -> list[str]:
    variables = dict(part.split("=", 1) for part in connect.split() if "=" in part)
    program = command_line.program(CONSUME)
    ran = subprocess.run(
        [sys.executable, str(program), str(shards)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return ran.stdout.split()


@pytest.mark.parametrize("tls", [False, True])
def test_a_sharding_service_alone_survives_kill_and_gives_each_shard_once(command_line: CommandLine, tls: bool) -> None:
    options = ["master", "--name", "feed", "--no-need-pod-manager", *(["--tls"] if tls else [])]
    first = command_line.start(*options)
    address = serving(command_line, first.pid)["address"]
    assert first.stdout is not None
    said = iter(first.stdout.readline, "")
    connect = next(line for line in said if line.startswith("connect"))
    assert ("PLIANT_TLS_DIR" in connect) == tls
    done = consume(command_line, 4, connect)

    first.kill()
    first.wait()
    second = command_line.start(*options)
    assert serving(command_line, second.pid)["address"] == address
    done += consume(command_line, -1, connect)
    assert sorted(map(int, done)) == list(range(0, 100, 10))

    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE) == 130
    ended = command_line("master", "--name", "feed")
    assert ended.exit_code == 2
    assert "has ended" in ended.stderr


def test_a_second_master_of_the_same_job_is_refused(command_line: CommandLine) -> None:
    first = command_line.start("master", "--name", "feed", "--no-need-pod-manager")
    serving(command_line, first.pid)
    second = command_line.start("master", "--name", "feed")
    told, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert "running already" in told
    assert command_line("stop", "feed").exit_code == 0
    assert first.wait(PATIENCE) == 130


def test_a_master_with_nodes_runs_its_workers_to_the_end(command_line: CommandLine) -> None:
    command = f"{sys.executable} -c 'print(1)'"
    process = command_line.start("master", "--name", "feed", "--worker-command", command, "--workers", "2")
    told, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told
    assert "PLIANT_MASTER_ADDR=127.0.0.1:" in told
    assert command_line("logs", "feed").stdout == "worker-0 | 1\nworker-1 | 1\n"
