"""Ray clusters of this machine's own, at loopback addresses: one for all tests of a session, also where several processes run
them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from pliant.files.locks import FileLock
from pliant.testing.waiting import MAX_WAIT_S, wait_until

WHY_NOT = "Ray is not installed: make ray-testbed, then make test-ray"
CPUS = (4, 2, 2)
ATTEMPTS = 3
SESSION_S = 3600.0  # at most, of other processes that still use the cluster


@dataclass(frozen=True)
class RayTestCluster:
    address: str
    raylets: tuple[int, ...]


def is_available() -> None:
    """Skips the test where Ray is missing; in CI that is a failure."""
    if find_spec("ray") is None:
        assert not os.environ.get("CI"), WHY_NOT
        pytest.skip(WHY_NOT)


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayTestCluster]:
    is_available()
    if address := os.environ.get("PLIANT_TEST_RAY_ADDRESS"):  # one that is there already, while tests are written
        yield RayTestCluster(address, ())
        return
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own
    with started(shared / "ray-cluster", CPUS) as cluster:
        yield cluster


class started:
    """A cluster for the length of a ``with``; of processes that name the same folder the first one starts it, and it ends with
    the last: its standard input is a pipe that each of them holds."""

    def __init__(self, folder: Path, cpus: tuple[int, ...], config: Mapping[str, str] | None = None) -> None:
        """``config``: of Ray, as its variables."""
        self._place, self._log = folder / "cluster.json", folder / "cluster.log"
        self._pipe, self._lock = folder / "held", FileLock(folder / "lock")
        self._cpus, self._config = cpus, config or {}
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)

    def __enter__(self) -> RayTestCluster:
        self._lock.acquire()
        try:
            if not self._pipe.exists():
                os.mkfifo(self._pipe)
            first = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)  # so that the next line does not wait for a reader
            self._hold = os.open(self._pipe, os.O_WRONLY)
            if not self._place.exists():
                self._start(first)
            os.close(first)
        finally:
            self._lock.release()
        found = json.loads(self._place.read_text())
        return RayTestCluster(found["address"], tuple(found["raylets"]))

    def _start(self, pipe: int) -> None:
        command = [sys.executable, "-m", "tests.ray.cluster_process", str(self._place), *map(str, self._cpus)]
        env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", **self._config}
        for _ in range(ATTEMPTS):  # Ray gives a machine 30 s to start, which is not enough on one that is starved
            with self._log.open("ab") as output:
                process = subprocess.Popen(command, stdin=pipe, stdout=output, stderr=output, env=env)
            wait_until(partial(self._is_decided, process), 2 * MAX_WAIT_S, "the Ray cluster is up")
            if self._place.exists():
                self._process = process
                return
        raise AssertionError(self._log.read_text())

    def _is_decided(self, process: subprocess.Popen[bytes]) -> bool:
        return self._place.exists() or process.poll() is not None

    def restart_control_store(self) -> None:
        """By kill -9; needs one that keeps its data on disk."""
        os.write(self._hold, b"restart\n")

    def __exit__(self, *_: object) -> None:
        os.close(self._hold)
        if self._process is not None:
            self._process.wait(SESSION_S)
