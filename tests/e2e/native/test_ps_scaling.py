"""Parameter servers of native training come and go by `pliant scale`, while it trains."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.native.native_job import NativeJob
from tests.e2e.native.test_ps_strategies import BATCH, EPOCHS, EVALUATED, LONG, MODEL, TRAINED, check
from tests.native.points import make_points
from typer.testing import CliRunner

from pliant.cli.app import app
from pliant.core.status import JobStatus

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

OPTIONS = ["--data", "train.csv", "--eval-data", "test.csv", "--output", "out", "--num_epochs", str(EPOCHS)]
OPTIONS += ["--batch_size", str(BATCH), "--num_ps", "1", "--eval-shard-size", "32"]
SLOW = 'time.sleep(0 if os.path.exists(os.path.join(os.environ.get("PLIANT_TEST_FOLDER", ""), "hurry")) else 0.3)'


def pliant(job: NativeJob, command: str, *args: str, code: int = 0) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--job-dir", str(job.home.path), *args])
    assert done.exit_code == code, done.output
    return done.output


def iteration(status: JobStatus) -> int:
    assert status.parameters is not None
    return status.parameters.iteration


def wait_for_servers(job: NativeJob, *partitions: int) -> None:
    """Until there are so many, no more nodes of them, and each has its share."""

    def there(status: JobStatus) -> bool:
        running = [node for node in status.nodes if node.role == "ps" and node.state == "Running"]
        shares = [seat.partitions for seat in status.seats]
        return len(running) == len(partitions) and shares == list(partitions)

    job.wait_for(there, f"servers with {partitions} partitions", LONG)


@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async"])
def test_a_server_comes_and_goes_in_the_middle_of_training_and_each_record_counts_once(
    tmp_path: Path, strategy: str
) -> None:
    text = MODEL.read_text()
    assert "time.sleep(PAUSE)" in text
    (tmp_path / "net.py").write_text(text.replace("time.sleep(PAUSE)", SLOW))
    make_points(tmp_path / "train.csv", TRAINED)
    make_points(tmp_path / "test.csv", EVALUATED, first=1000)
    with NativeJob(tmp_path, "train", [*OPTIONS, "--strategy", strategy], model=tmp_path / "net.py") as job:
        job.wait_for_progress(BATCH, LONG)
        assert "allowed: 1 to 8" in pliant(job, "scale", "ps=9", code=2)
        assert "ps 1 -> 2" in pliant(job, "scale", "ps=2")
        wait_for_servers(job, 128, 128)
        status = job.wait_for_progress(1)
        assert sum(node.records for node in status.nodes) <= sum(dataset.records_done for dataset in status.datasets)
        before = iteration(status)
        shown = pliant(job, "status")
        assert all(word in shown for word in ("PARTITIONS", "ps-0", "ps-1")), shown
        job.wait_for(lambda status: iteration(status) > before, "training on both", LONG)
        assert "ps 2 -> 1" in pliant(job, "scale", "ps=1")
        wait_for_servers(job, 256)
        left = job.largest_dataset()
        assert left.records_done < left.records_total, "training was over before the server had gone"
        (tmp_path / "hurry").touch()
        assert job.wait(LONG) == 0, job.report()
    check(job)
    assert "ps-1" not in pliant(job, "status").partition("PARTITIONS")[2]
