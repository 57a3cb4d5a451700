"""A function submitted to a Ray cluster from Python: its result, and a handle found again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ray.conftest import RayTestCluster
from tests.ray.jobs import LONG_S

import pliant

pytest.importorskip("cloudpickle")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]


def test_a_closure_runs_on_ray_and_its_result_is_read_by_another_handle(
    tmp_path: Path, ray_cluster: RayTestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    factor = 2

    def train(size: int) -> dict[str, int]:
        job = pliant.connect()
        return {"seen": factor * sum(len(list(shard)) for shard in job.shards("train", size=size, shard_size=10))}

    job = pliant.submit(train, args=(40,), platform="ray", ray_address=ray_cluster.address, name="python-api")
    assert job.result(LONG_S) == {"seen": 80}
    assert pliant.attach("python-api").result() == {"seen": 80}
    assert [one.name for one in pliant.jobs()] == ["python-api"]
