"""Training with parameter servers: real masters, servers and workers, some of which are killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ps.programs import BATCH, check_each_record_counted_once, ps_job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async"])
def test_each_record_counts_once(tmp_path: Path, strategy: str) -> None:
    with ps_job(tmp_path, strategy=strategy) as job:
        assert job.wait(120) == 0, job.report()
        per_iteration = 2 * BATCH if strategy == "ps-sync" else BATCH
        check_each_record_counted_once(job, tmp_path, records=800, epochs=1, per_iteration=per_iteration)
