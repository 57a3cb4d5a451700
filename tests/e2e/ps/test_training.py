"""Training with parameter servers: real masters, servers and workers, some of which are killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.e2e.ps.counting_job import BATCH, check_each_record_counted_once, ps_job

from pliant.core.events import EventKind
from pliant.ps.files import complete_dumps, read_manifest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async"])
def test_each_record_counts_once(tmp_path: Path, strategy: str) -> None:
    with ps_job(tmp_path, strategy=strategy) as job:
        assert job.wait(120) == 0, job.report()
        per_iteration = 2 * BATCH if strategy == "ps-sync" else BATCH
        check_each_record_counted_once(job, tmp_path, records=800, epochs=1, per_iteration=per_iteration)


@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async"])
def test_each_record_counts_once_though_a_server_a_worker_and_the_master_are_killed(
    tmp_path: Path, strategy: str
) -> None:
    options = {"dump_seconds": 2.0, "push_durability": "machine" if strategy == "ps-async" else "process"}
    with ps_job(tmp_path, strategy=strategy, records=1600, pause=0.05, held=True, parameters=options) as job:
        job.wait_for_progress(160)
        job.kill_program("ps-0")
        job.wait_for_progress(480)
        job.kill_program("worker-1")
        job.wait_for_progress(800)
        job.kill_master()
        job.wait_for_progress(960)
        job.kill_agent("ps-1")
        (tmp_path / "hurry").touch()
        assert job.wait(200) == 0, job.report()
        per_iteration = 2 * BATCH if strategy == "ps-sync" else BATCH
        check_each_record_counted_once(job, tmp_path, records=1600, epochs=1, per_iteration=per_iteration)
        assert not [event for event in job.events(EventKind.PS_REPORT) if "lost" in event.message], job.report()


def test_a_dump_is_restored_on_another_number_of_servers(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    with ps_job(first, servers=2, records=800, parameters={"dump_iterations": 10, "full_every": 3}) as job:
        assert job.wait(120) == 0, job.report()
    dump = complete_dumps(job.home.path)[0]
    manifest = read_manifest(dump)
    second = tmp_path / "second"
    second.mkdir()
    with ps_job(second, servers=3, records=800, parameters={"restore": str(job.home.path)}, name="again") as again:
        assert again.wait(120) == 0, again.report()
        assert again.summary()["parameters"]["iteration"] == manifest.iteration + 50
        with np.load(next(second.glob("seen-*.npz"))) as found:
            # What the first job had dumped, plus one more for each record.
            total = float(found["seen"].sum()) * 2 * BATCH
            assert total == pytest.approx(800 + manifest.iteration * 2 * BATCH, rel=1e-5)
