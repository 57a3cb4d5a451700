"""A server that wakes up when another has its seat, as real processes: its answers come, and count for nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from pliant.client.session import Session
from pliant.core.status import ParametersStatus, SeatStatus
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.ps.client.client import PsClient
from pliant.ps.client.model import Contributed
from pliant.ps.recovery.push_log import index
from pliant.ps.specs import DenseSpec, OptimizerSpec
from pliant.rpc.channel import MasterClient
from pliant.testing import RunningMaster, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

LONG = 120.0  # seconds that a failure takes
SPEC = {
    "strategy": "ps-sync",
    "roles": {"worker": {"command": "train"}, "ps": {"replicas": 1}},
    "parameters": {"batch_size": 1, "dump_seconds": 0},
}


class Guests:
    """Servers of one seat, started by the test: no agent and no platform ends them."""

    def __init__(self, master: RunningMaster, folder: Path) -> None:
        self.master, self.folder = master, folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, node: str, program: Sequence[str] = ("-m", "pliant.ps")) -> int:
        env = {
            **os.environ,
            "PLIANT_MASTER_ADDR": self.master.address.target,
            "PLIANT_TOKEN_FILE": str(self.master.job_dir.token),
            "PLIANT_PS_DIR": str(self.master.job_dir.parameters),
            "PLIANT_NODE": node,
        }
        with (self.folder / f"{node}.log").open("wb") as log:
            self.running[node] = subprocess.Popen([sys.executable, *program], env=env, stdout=log, stderr=log)
        wait_until(lambda: self.seat().node == node and self.seat().address, LONG, f"{node} to serve")
        return self.running[node].pid

    def seat(self) -> SeatStatus:
        return self.status().seats[0]

    def status(self) -> ParametersStatus:
        found = self.master.status().parameters
        assert found is not None
        return found

    def lose(self, node: str) -> None:
        """The master takes it for gone."""
        self.master.run_inside(lambda parts: parts.require(ParameterCoordinator).program_gone(node, for_good=True))

    def log(self, node: str) -> str:
        return (self.folder / f"{node}.log").read_text(errors="replace")

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Guests]:
    with RunningMaster(tmp_path, SPEC) as master:
        made = Guests(master, tmp_path)
        try:
            yield made
        finally:
            made.end()


@pytest.fixture
def worker(guests: Guests) -> Iterator[PsClient]:
    client = MasterClient(guests.master.address)
    session = Session(client, "a-worker", 0)
    parameters = PsClient(session, retry_timeout=LONG)
    with contextlib.ExitStack() as undo:
        undo.callback(client.close)
        undo.callback(session.close)
        undo.callback(parameters.close)
        yield parameters


def push(worker: PsClient) -> Contributed:
    """One more is counted."""
    return worker.push(worker.latest(), examples=1, dense={"count": [-1.0]})


def counted(worker: PsClient) -> float:
    return float(worker.pull(at_least=worker.latest()).dense["count"][0])


def test_what_a_server_stages_that_lost_its_seat_while_it_was_frozen_does_not_count(
    guests: Guests, worker: PsClient, tmp_path: Path
) -> None:
    frozen = guests.start("old", [str(Path(__file__).parent / "stale_holder_server.py"), str(tmp_path)])
    worker.define([DenseSpec("count", (1,), optimizer=OptimizerSpec("sgd", learning_rate=1.0))])
    worker.initialize({"count": [0.0]})
    assert push(worker).accepted
    [connection] = worker._router._connections.values()
    sent, iteration = connection._socket.bytes_out, worker.latest()
    os.kill(frozen, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(frozen).status() == psutil.STATUS_STOPPED, LONG, "it to stop")

    told: list[Contributed] = []
    late = threading.Thread(
        target=lambda: told.append(worker.push(iteration, examples=1, dense={"count": [-1.0]})), daemon=True
    )
    late.start()
    wait_until(lambda: connection._socket.bytes_out > sent, LONG, "the push to be in its buffer")
    guests.lose("old")
    guests.start("new")
    assert not told, "it waits for the answer of the old one"

    os.kill(frozen, signal.SIGCONT)
    late.join(LONG)
    assert [(answer.accepted, answer.iteration) for answer in told] == [(True, 2)]
    assert guests.status().moved == 1, "the old one had said that it is staged, and the master did not take it"
    assert guests.status().contributions == 2
    home = guests.master.job_dir.parameters / "seat-0"
    assert len(index(home, 0)) == 4, "first values, the first push, and the second twice, under two numbers"
    assert counted(worker) == 2.0

    (tmp_path / "let-go").touch()
    wait_until(lambda: "gives up seat 0" in guests.log("old"), LONG, "the old one to let go")
    guests.running["new"].kill()
    guests.lose("new")
    wait_until(lambda: guests.seat().node == "old" and guests.seat().address, LONG, "the old one to have it again")
    assert counted(worker) == 2.0, "as restored from the logs of three fencing tokens"
    assert push(worker).accepted
    assert counted(worker) == 3.0
    assert "is lost" not in guests.log("new") + guests.log("old")
