"""A world that is being formed: a member or the master may be gone at any moment of it, and strangers have no part in it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import psutil
import pytest
from tests.e2e.torch.training_job import TrainingJob
from tests.torch.trainer_threads import TIMEOUT_S, Died, TrainerThreads, alone_result, bits

from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.controller import JobController
from pliant.testing import wait_until
from pliant.testing.waiting import MAX_WAIT_S
from pliant.torch.worlds import membership
from pliant.torch.worlds.membership import Membership
from pliant.torch.worlds.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return bits(alone_result().trainer.model)


class Halt:
    """After the death of a third, a member stands still in the exchange of addresses with the other, before or after it."""

    def __init__(self, node: str, *, published: bool) -> None:
        self._node, self._published = node, published
        self._original = Membership._exchange
        self._armed = threading.Event()
        self.reached = threading.Event()
        self.released = threading.Event()

    def die(self) -> None:
        """What the third does."""
        self._armed.set()
        raise Died

    def exchange(self, membership: Membership, world: World, keys: dict[str, bytes]) -> Sequence[Mapping[str, bytes]]:
        halts = self._armed.is_set() and membership._job.node == self._node and not self.reached.is_set()
        found = self._original(membership, world, keys) if self._published or not halts else None
        if halts:
            self.reached.set()
            assert self.released.wait(TIMEOUT_S)
        return self._original(membership, world, keys) if found is None else found

    @contextmanager
    def set(self) -> Iterator[None]:
        def exchange(this: Membership, world: World, keys: dict[str, bytes]) -> Sequence[Mapping[str, bytes]]:
            return self.exchange(this, world, keys)

        # a wait that nobody ends would be noticed
        with (
            mock.patch.object(membership, "CONNECT_TIMEOUT_S", 3600.0),
            mock.patch.object(Membership, "_exchange", exchange),
        ):
            try:
                yield
            finally:
                self.released.set()


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_member_that_stands_still_while_the_world_connects_is_left_behind(
    tmp_path: Path, victim: int, published: bool, expected: dict[str, bytes]
) -> None:
    halt = Halt(f"worker-{victim}", published=published)
    with TrainerThreads(tmp_path, workers=3) as threads, threads.points(), halt.set():
        other = threads.workers[1 - victim]

        def let_it_back() -> None:
            """Else the other may be gone before it is back, and it waits for ever."""
            halt.released.set()
            world = other.trainer._elastic.world
            wait_until(lambda: world.waiting or not world.alone, what="its return")

        threads.workers[2].does(halt.die, "before the collective", step=3)
        other.does(let_it_back, "before the collective", step=5)
        threads.start()
        assert halt.reached.wait(TIMEOUT_S)
        threads.declare_dead(threads.workers[victim])
        threads.finish()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


@pytest.mark.parametrize("published", [False, True])
def test_a_master_that_is_restarted_while_the_world_connects_is_waited_for(
    tmp_path: Path, published: bool, expected: dict[str, bytes]
) -> None:
    halt = Halt("worker-1", published=published)
    with TrainerThreads(tmp_path, workers=3) as threads, threads.points(), halt.set():
        threads.workers[2].does(halt.die, "before the collective", step=3)
        threads.start()
        assert halt.reached.wait(TIMEOUT_S)
        wait_until(lambda: _published(threads) == 1 + published, TIMEOUT_S, "the other to publish")
        threads.master.restart()
        halt.released.set()
        threads.finish()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def _published(threads: TrainerThreads) -> int:
    """By members of the latest world."""

    def count(parts: JobController) -> int:
        groups = parts.require(RendezvousServer)._exchange._groups
        return len(groups[""].published) if "" in groups else 0

    return threads.master.run_inside(count)


@pytest.mark.parametrize("point", ["exchanging", "connecting"])
def test_a_process_killed_while_the_world_connects_changes_nothing(tmp_path: Path, point: str) -> None:
    with TrainingJob(tmp_path, workers=3, pace=0.05, gated=True, kill=f"any {point} 3") as job:
        job.wait_for_step(4)
        job.kill_program("worker-2")
        job.open_gate()
        job.ends_well()
        assert (job.traces / "killed").exists()
        assert len(job.hashes()) == 1


def test_no_process_of_a_job_listens_beyond_this_machine_and_a_stranger_at_its_port_changes_nothing(
    tmp_path: Path,
) -> None:
    with TrainingJob(tmp_path, workers=2, pace=0.1, gated=True) as job:
        job.wait_for_step(2)
        ports = set()
        for process in job.processes():
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    address = connection.laddr.ip.removeprefix("::ffff:")
                    assert address == "127.0.0.1", f"{process.cmdline()} listens on {connection.laddr}"
                    if "pliant.master" not in process.cmdline():
                        ports.add(connection.laddr.port)
        assert len(ports) >= 2, "gloo listens"
        strangers = [socket.create_connection(("127.0.0.1", port), timeout=MAX_WAIT_S) for port in ports]
        try:
            for stranger in strangers:
                stranger.sendall(struct.pack("<q", 1 << 40))  # what a peer says first; of no pair of the group
            job.open_gate()
            job.ends_well()
        finally:
            for stranger in strangers:
                stranger.close()
