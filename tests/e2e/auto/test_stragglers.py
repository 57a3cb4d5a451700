"""One slow worker of a synchronous training: the planner gives its virtual workers to others, and the model is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.torch.training_job import PROGRAM, TrainingJob

from pliant.core.planning.plan_record import Outcome
from pliant.core.status import JobStatus
from pliant.master.offline import JobOnDisk

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SLOW = "worker-2"
EPOCHS = 36


def test_a_slow_worker_gets_fewer_seats_and_the_model_is_the_same(tmp_path: Path) -> None:
    static = TrainingJob(tmp_path / "static", workers=1, epochs=EPOCHS)
    alone = {name: value for name, value in static._env.items() if not name.startswith("PLIANT_")}
    alone["OMP_NUM_THREADS"] = "1"  # threads that wait for each other take minutes on a busy machine
    subprocess.run([sys.executable, str(PROGRAM)], env=alone, check=True, timeout=300, capture_output=True)
    planned = {"optimize": {"mode": "single-job", "algorithms": ["straggler"]}}
    with TrainingJob(
        tmp_path / "planned", workers="3:3", epochs=EPOCHS, pace=0.02, slow=f"{SLOW} 0.18", spec=planned
    ) as job:

        def relieved(status: JobStatus) -> bool:
            hosted = {node.name: node.virtual_workers for node in status.nodes}
            return hosted.get(SLOW) == 1 and sum(hosted.values()) == 8

        job.wait_for(lambda status: relieved(status) or None, "fewer virtual workers for the slow one", 300)
        job.ends_well()
        planner = JobOnDisk(job.home).state.planner
    assert planner is not None
    plans = [plan for plan in planner.records() if plan.proposal.seats]
    assert plans[0].outcome in (Outcome.KEPT, Outcome.CARRIED_OUT), plans[0].judgement
    assert job.summary()["restarts"] == 0
    assert job.hashes() == static.hashes(), "the result depends on who computed it"
