"""``pliant master`` as a process: programs connect as it says, and a killed one goes on where it was."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import CommandLine
from tests.e2e.native.native_job import LIGHT, MODEL
from tests.native.points import make_points

from pliant.files.atomic import read_json
from pliant.native.model_file.description import Description
from pliant.native.model_file.saved_models import load_state
from pliant.testing.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
PATIENCE = 120  # seconds
LONG = 300  # seconds that a failure takes
PS_MODEL = MODEL.with_name("ps_model_file.py")
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


def program(command_line: CommandLine, text: str) -> str:
    """The command that runs it."""
    path = command_line.folder / f"program-{len(list(command_line.folder.glob('program-*')))}.py"
    path.write_text(text)
    return shlex.join([sys.executable, str(path)])


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

    assert second.wait(PATIENCE) == 0, "there are no more shards"
    ended = command_line("master", "--name", "feed")
    assert ended.exit_code == 2
    assert "has ended" in ended.stderr


def test_programs_of_other_machines_connect_with_tls_and_strangers_write_nothing_to_the_log(
    command_line: CommandLine,
) -> None:
    process = command_line.start("master", "--name", "feed", "--no-need-pod-manager", "--port", "0")
    host, _, port = serving(command_line, process.pid)["tcp"].rpartition(":")
    assert process.stdout is not None
    connect = next(line for line in iter(process.stdout.readline, "") if line.startswith("connect"))
    assert f"PLIANT_MASTER_ADDR={host}:{port}" in connect
    assert "PLIANT_TLS_DIR" in connect
    for _ in range(50):
        with socket.create_connection((host, int(port)), PATIENCE) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                stranger.recv(1)
    assert len(consume(command_line, -1, connect)) == 10
    told = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, told
    assert "Handshake" not in told


def test_a_second_master_of_the_same_job_is_refused(command_line: CommandLine) -> None:
    first = command_line.start("master", "--name", "feed", "--no-need-pod-manager")
    serving(command_line, first.pid)
    second = command_line.start("master", "--name", "feed")
    told, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert "is already running" in told
    assert command_line("stop", "feed").exit_code == 0
    assert first.wait(PATIENCE) == 130


# --- every combination, by its flags

TAKES_SHARDS = """
import pliant

job = pliant.connect()
print("records", sum(len(shard) for shard in job.shards("train", size=100, shard_size=10)), flush=True)
"""
JOINS_A_WORLD = """
import time
from pathlib import Path

import pliant
from pliant.rpc import pliant_pb2 as pb

job = pliant.connect()
rendezvous = job.master.stubs.rendezvous
job.master.call(rendezvous.Join, pb.JoinRequest(member=job.node, incarnation="0"))
members = []
while len(members) < 2:
    request = pb.GetWorldRequest(member=job.node, incarnation="0")
    members = job.master.call(rendezvous.GetWorld, request, timeout=60).world.members
print("world", *sorted(member.name for member in members), flush=True)
Path(f"saw-{job.node}").touch()
while len(list(Path().glob("saw-*"))) < 2:  # who leaves changes the world of the other
    time.sleep(0.05)
"""
SERVES = """
import time
from pathlib import Path

Path("address").write_text("somewhere")
time.sleep(600)
"""
USES_A_SERVER = """
import time
from pathlib import Path

while not Path("address").exists():
    time.sleep(0.05)
print("served", flush=True)
"""
WORLD = "world worker-0 worker-1"
TRAINED, BATCH = 64, 16


def written_for(folder: Path, strategy: str) -> str:
    """A worker of native training, and what it trains."""
    make_points(folder / "train.csv", TRAINED)
    parts = 2 if strategy == "allreduce" else 1
    task = Description(
        model=PS_MODEL.name if strategy.startswith("ps") else MODEL.name,
        model_class="Net",
        data=["train.csv"],
        strategy=strategy,  # type: ignore[arg-type]  # one of them
        batch_size=BATCH,
        virtual_workers=parts,
        output=str(folder / "out"),
    )
    for model in (MODEL, PS_MODEL):
        shutil.copy(model, folder)
    return f"{sys.executable} -m pliant.native {task.save(folder)}"


def finished(command_line: CommandLine, *flags: str) -> dict[str, Any]:
    """The summary of a master with nodes that ran to its end."""
    process = command_line.start("master", "--name", "feed", *flags)
    told, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, told
    summary = read_json(command_line.job("feed") / "summary.json")
    assert summary is not None
    return summary


def told_by_workers(command_line: CommandLine) -> set[str]:
    return {line.partition(" | ")[2] for line in command_line("logs", "feed").stdout.splitlines()}


def test_combination_1_is_a_sharding_service_until_there_are_no_more_shards(command_line: CommandLine) -> None:
    process = command_line.start("master", "--name", "feed", "--no-need-pod-manager")
    where = serving(command_line, process.pid)
    token = command_line.job("feed") / "token"
    done = consume(command_line, -1, f"PLIANT_MASTER_ADDR={where['address']} PLIANT_TOKEN_FILE={token}")
    assert len(done) == 10
    assert process.wait(PATIENCE) == 0
    summary = read_json(command_line.job("feed") / "summary.json")
    assert summary is not None
    assert (summary["phase"], summary["records_done"]) == ("Succeeded", 100)


def test_combination_2_runs_workers_and_servers_of_another_framework(command_line: CommandLine) -> None:
    commands = ["--worker-command", program(command_line, USES_A_SERVER), "--ps-command"]
    commands += [program(command_line, SERVES), "--num-ps", "1", "--num-workers", "2"]
    summary = finished(command_line, *commands, "--no-need-task-manager")
    assert {node["name"] for node in summary["nodes"]} == {"worker-0", "worker-1", "ps-0"}
    assert told_by_workers(command_line) == {"served"}


def test_combination_3_forms_worlds_for_another_framework(command_line: CommandLine) -> None:
    flags = ["--distribution-strategy", "allreduce", "--no-need-task-manager", "--workers", "2"]
    finished(command_line, "--worker-command", program(command_line, JOINS_A_WORLD), *flags)
    assert told_by_workers(command_line) == {WORLD}


def test_combination_4_gives_its_workers_shards(command_line: CommandLine) -> None:
    summary = finished(command_line, "--worker-command", program(command_line, TAKES_SHARDS), "--workers", "2")
    assert summary["records_done"] == 100


def test_combination_5_forms_worlds_and_gives_shards(command_line: CommandLine) -> None:
    flags = ["--distribution-strategy", "allreduce", "--no-need-training-service", "--workers", "2"]
    both = JOINS_A_WORLD + TAKES_SHARDS
    summary = finished(command_line, "--worker-command", program(command_line, both), *flags)
    assert summary["records_done"] == 100
    assert WORLD in told_by_workers(command_line)


@pytest.mark.parametrize(
    ("strategy", "flags"),
    [
        ("ps-sync", ["--distribution-strategy", "ps-sync", "--num-ps", "1"]),  # combination 6
        ("allreduce", ["--distribution-strategy", "allreduce", "--workers", "2"]),  # combination 7
    ],
)
def test_combinations_6_and_7_train_natively(command_line: CommandLine, strategy: str, flags: list[str]) -> None:
    command_line.env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(LIGHT), os.environ.get("PYTHONPATH"))))
    summary = finished(command_line, "--worker-command", written_for(command_line.folder, strategy), *flags)
    assert summary["phase"] == "Succeeded"
    assert load_state(command_line.folder / "out")[1]["version"] == TRAINED // BATCH
    trained = next(dataset for dataset in summary["datasets"] if dataset["name"] == "train")
    assert trained["records_done"] == TRAINED


def test_a_service_that_keeps_serving_takes_more_when_all_is_done(command_line: CommandLine) -> None:
    process = command_line.start("master", "--name", "feed", "--no-need-pod-manager", "--keep-serving")
    where = serving(command_line, process.pid)
    token = command_line.job("feed") / "token"
    connect = f"PLIANT_MASTER_ADDR={where['address']} PLIANT_TOKEN_FILE={token}"
    assert len(consume(command_line, -1, connect)) == 10
    assert len(consume(command_line, -1, connect)) == 0, "it answers, and there is nothing more"
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 130
