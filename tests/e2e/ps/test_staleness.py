"""Asynchronous training over TLS with one slow worker: the bound of staleness holds, and old gradients count less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.e2e.ps.counting_job import ps_job

from pliant.core.errors import PliantError
from pliant.ps.client.connection import PsConnection
from pliant.rpc.identity import read_token_file

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

RECORDS = 400


def test_old_gradients_count_less_and_those_beyond_the_bound_not_at_all(tmp_path: Path) -> None:
    options = {"max_staleness": 1, "staleness_power": 1.0}
    with ps_job(
        tmp_path,
        strategy="ps-async",
        workers=3,
        records=RECORDS,
        pause=0.03,
        parameters=options,
        spec={"security": {"tls": True}},
        env={"PLIANT_TEST_SLOW": "10"},
    ) as job:
        status = job.wait_for_progress(40, 120)
        host, _, port = status.seats[0].address.rpartition(":")
        with pytest.raises(PliantError):  # without the job's certificates
            PsConnection(host, int(port), read_token_file(job.home.token), timeout=5)
        assert job.wait(200) == 0, job.report()
        told = job.summary()["parameters"]
        assert sum(row.end - row.begin for row in job.audit()) == RECORDS == int(told["examples"])
    ages = [int(count) for count in told["staleness"]]
    assert sum(ages) == int(told["contributions"]) == RECORDS // 8
    assert ages[1] > 0, ages
    assert not any(ages[2:]), f"the bound is 1: {ages}"
    assert int(told["stale"]) > 0, "the slow worker was never too late"
    with np.load(next(tmp_path.glob("seen-*.npz"))) as found:
        np.testing.assert_allclose(found["count"], ages[0] + ages[1] / 2)
