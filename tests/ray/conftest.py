"""A Ray cluster of this machine's own, one for all tests of a worker: three nodes at loopback addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from pliant.testing.waiting import MAX_WAIT_S, wait_until

WHY_NOT = "Ray is not there: make ray-testbed, then make test-ray"
CPUS = (4, 2, 2)
ATTEMPTS = 3


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
    with started(tmp_path_factory.mktemp("ray"), CPUS) as cluster:
        yield cluster


class started:
    """A cluster for the length of a ``with``."""

    def __init__(self, folder: Path, cpus: tuple[int, ...], config: Mapping[str, str] | None = None) -> None:
        """``config``: of Ray, as its variables."""
        self._place, self._log = folder / "cluster.json", folder / "cluster.log"
        self._cpus, self._config = cpus, config or {}

    def __enter__(self) -> RayTestCluster:
        for _ in range(ATTEMPTS):  # Ray gives a machine 30 s to start, which is not enough on one that is starved
            self._start()
            is_decided = lambda: self._place.exists() or self._process.poll() is not None  # noqa: E731
            wait_until(is_decided, 2 * MAX_WAIT_S, "the Ray cluster is up")
            if self._place.exists():
                break
        assert self._place.exists(), self._log.read_text()
        found = json.loads(self._place.read_text())
        return RayTestCluster(found["address"], tuple(found["raylets"]))

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.ray.cluster_process", str(self._place), *map(str, self._cpus)]
        env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", **self._config}
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=env)

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(MAX_WAIT_S)
