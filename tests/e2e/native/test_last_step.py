"""``--max-steps`` and ``--eval-every-seconds`` with several workers, one of them killed: an exact end, and whole evaluations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.native.native_job import MODEL, NativeJob
from tests.native.points import make_points

from pliant.native.model_file.saved_models import load_state

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PS_MODEL = Path(__file__).parent / "ps_model_file.py"
TRAINED, EVALUATED, BATCH, STEPS = 480, 48, 16, 24
LONG = 240.0  # seconds that a failure takes
OPTIONS = ["--data", "train.csv", "--eval-data", "test.csv", "--output", "out", "--num-epochs", "2"]
OPTIONS += ["--batch-size", str(BATCH), "--max-steps", str(STEPS), "--max-workers", "2", "--eval-every-seconds", "0.3"]
OPTIONS += ["--no-shuffle"]  # so places in the audit are those of the records


@pytest.mark.parametrize("strategy", ["allreduce", "ps-sync", "ps-async"])
def test_training_ends_with_exactly_the_last_step_and_versions_are_evaluated_by_the_clock_although_a_worker_is_killed(
    tmp_path: Path, strategy: str
) -> None:
    make_points(tmp_path / "train.csv", TRAINED)
    make_points(tmp_path / "test.csv", EVALUATED, first=1000)
    model = PS_MODEL if strategy.startswith("ps") else MODEL
    options = [*OPTIONS, "--strategy", strategy]
    with NativeJob(tmp_path, "train", options, model=model, env={"PLIANT_TEST_PAUSE": "0.05"}) as job:
        job.wait_for_progress(6 * BATCH, LONG)
        job.kill_program("worker-0")
        assert job.wait(LONG) == 0, job.report()
    summary = job.summary()
    progress = summary["progress"]
    assert (progress["step"], progress["total_steps"], progress["percent"]) == (STEPS, STEPS, 100.0)
    assert progress["loss"] >= 0
    state, about = load_state(tmp_path / "out")
    assert about["version"] == STEPS
    versions = [result["version"] for result in summary["evaluations"]]
    assert versions[-1] == STEPS
    assert len(versions) >= 2, "one by the clock, one at the end"
    assert versions == sorted(set(versions))
    assert [result["records"] for result in summary["evaluations"]] == [EVALUATED] * len(versions)
    counted: Counter[tuple[str, int, int]] = Counter()
    for row in job.audit():
        counted.update((row.dataset, row.epoch, record) for record in range(row.start + row.begin, row.start + row.end))
    assert max(counted.values()) == 1, "a record was accepted twice"
    assert sum(name == "train" for name, _, _ in counted) == STEPS * BATCH, "what was not trained on counts as done"
    if strategy.startswith("ps"):
        assert (summary["parameters"]["iteration"], summary["parameters"]["examples"]) == (STEPS, STEPS * BATCH)
        trained = Counter(record for name, _, record in counted if name == "train")
        rows = zip(state["seen.ids"].tolist(), (state["seen.rows"] * BATCH).round().flatten().tolist(), strict=True)
        assert {record: times for record, times in rows if times} == trained
