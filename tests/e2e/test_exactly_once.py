"""Every record exactly once, whatever the dataset is made of and however many workers read it."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pliant.files.atomic import read_json
from pliant.testing.jobs import LocalJob
from pliant.testing.reading import ReadingJob
from pliant.testing.waiting import MAX_WAIT_S

pytestmark = pytest.mark.e2e

FILES = [("a.rio", 0, 95), ("b.rio", 5, 42), ("empty.rio", 7, 7), ("c.rio", 0, 1)]
KINDS: dict[str, dict[str, Any]] = {
    "range": {"size": 205, "shard_size": 10},
    "epochs": {"size": 61, "shard_size": 7, "epochs": 3, "shuffle": True, "seed": 5},
    "files": {"files": FILES, "shard_size": 8, "shuffle": True},
    "indices": {"indices": [9, 3, 77, *range(1000, 1050)], "shard_size": 4, "shuffle": True, "epochs": 2},
    "barrier": {"size": 40, "shard_size": 3, "epochs": 2, "epoch_barrier": True},
    "eval": {"size": 25, "shard_size": 4, "type": "eval"},
}


@pytest.mark.parametrize("workers", [1, 4])
def test_every_kind_of_dataset_is_read_exactly_once(tmp_path: Path, workers: int) -> None:
    with ReadingJob(tmp_path, KINDS, workers=workers) as job:
        assert job.wait() == 0
        job.assert_each_record_once()
        summary = job.summary()
    assert summary["phase"] == "Succeeded"
    assert summary["records_done"] == len(job.expected())
    assert "each exactly once" in job.output()


def test_a_stream_that_grows_while_it_is_read_is_read_exactly_once(tmp_path: Path) -> None:
    producer = tmp_path / "produce.py"
    producer.write_text(
        "import os, pliant\n"
        "job = pliant.connect()\n"
        "if job.node == 'worker-0' and job.incarnation == 0:\n"
        "    job.shards('clicks', stream=True, shard_size=5).close()\n"
        "    for _ in range(20):\n"
        "        job.extend_stream('clicks', 10)\n"
        "    job.extend_stream('clicks', 3, close=True)\n"
        "from pliant.testing.reader import main\n"
        "main()\n"
    )
    read = {"clicks": {"stream": True, "shard_size": 5}}
    job = ReadingJob(tmp_path, read, workers=2, role={"command": ["python", str(producer)]})
    with job:
        assert job.wait() == 0
        job.assert_each_record_once({("clicks", 0, "clicks", i) for i in range(203)})


def test_datasets_can_be_defined_by_the_description_of_the_job(tmp_path: Path) -> None:
    dataset = {"name": "train", "size": 100, "shard_size": 9}
    with ReadingJob(tmp_path, {"train": {}}, workers=2, spec={"datasets": [dataset]}) as job:
        assert job.wait() == 0
        job.assert_each_record_once({("train", 0, "train", i) for i in range(100)})


def test_any_program_is_a_job_and_is_told_who_it_is(tmp_path: Path) -> None:
    identity = 'echo "$PLIANT_JOB/$PLIANT_NODE/$PLIANT_ROLE/$PLIANT_INCARNATION"'
    words = f'{identity}; echo "master $PLIANT_MASTER_ADDR"; echo "$COLOUR"; umask'
    own = os.umask(0o022)
    os.umask(own)
    with LocalJob(tmp_path, ["bash", "-c", words], workers=2, role={"env": {"COLOUR": "green"}}) as job:
        assert job.wait() == 0
        where = read_json(job.home.master_file)
        assert where is not None
        for node in ("worker-0", "worker-1"):
            lines = [f"job/{node}/worker/0", f"master {where['address']}", "green", f"{own:04o}"]
            assert job.log(node).splitlines() == lines
            assert f"{node} | job/{node}/worker/0" in job.output()
        assert where["address"] == f"unix:{job.home.path}/master.sock"
        assert all(path.stat().st_mode & 0o077 == 0 for path in (job.home.path, *job.home.path.iterdir()))


def test_the_status_lists_nodes_with_their_pids_and_progress(tmp_path: Path) -> None:
    with ReadingJob(tmp_path, {"train": {"size": 300, "shard_size": 2}}, workers=2, gated=True) as job:
        status = job.wait_for_progress(2)
        assert [node.name for node in status.nodes] == ["worker-0", "worker-1"]
        for name in ("worker-0", "worker-1"):
            node = job.wait_until_running(name)
            assert (node.restarts, node.exit_reason, node.role) == (0, None, "worker")
            assert {p.pid for p in job.processes()} >= {node.pid, node.agent_pid}
        job.open_gate()
        assert job.wait() == 0
        nodes = job.summary()["nodes"]
    assert [(n["state"], n["exit_reason"], n["pid"]) for n in nodes] == [("Succeeded", "Completed", 0)] * 2


def test_a_job_over_tls_is_exact_and_serves_metrics(tmp_path: Path) -> None:
    read = {"train": {"size": 400, "shard_size": 2}}
    with ReadingJob(tmp_path, read, workers=2, gated=True, options=["--tls", "--metrics-port", "0"]) as job:
        job.wait_until_all_work(2)
        where = read_json(job.home.master_file)
        assert where is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{where['metrics_port']}/metrics", timeout=MAX_WAIT_S) as page:
            text = page.read().decode()
        assert 'pliant_dataset_records{dataset="train",job="job"} 400.0' in text
        assert 'pliant_nodes{job="job",role="worker",state="Running"} 2.0' in text
        job.kill_master()
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
    assert job.summary()["master_starts"] == 2
