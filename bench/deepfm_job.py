"""``pliant train --strategy ps-async`` of the zoo's DeepFM, as a user starts it, and how far it was when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.core.errors import PliantError
from pliant.master.job_dir import JobDir
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient

DEEPFM = Path(__file__).resolve().parent.parent / "examples" / "zoo" / "deepfm.py"
LONG = 180.0  # seconds
POLL_S = 0.05


@dataclass(frozen=True)
class Trained:
    progress: list[tuple[float, int]]  # records that the master had accepted, by time
    summary: dict[str, Any]

    def rate_after(self, share: float) -> float:
        """Records per second from the moment at which this share of them was done to the end of the last."""
        total = self.progress[-1][1]
        begun = next(at for at, done in self.progress if done >= share * total)
        first = next(done for at, done in self.progress if at == begun)
        ended = next(at for at, done in self.progress if done == total)
        return (total - first) / max(ended - begun, 1e-9)


def train_deepfm(
    folder: Path, name: str, workers: int, batch: int, *, model: Path = DEEPFM, options: Sequence[str] = ()
) -> Trained:
    """Of ``train.parquet`` in this folder, with one server."""
    job = folder / name
    command = [sys.executable, "-c", "from pliant.cli import main; main()", "train", "--quiet"]
    command += ["--model", str(model), "--model-class", "DeepFM", "--data", str(folder / "train.parquet")]
    command += ["--strategy", "ps-async", "--num-ps", "1", "--min-workers", str(workers), "--max-workers", str(workers)]
    command += ["--batch-size", str(batch), "--job-dir", str(job), "--name", name, *options]
    env = {**os.environ, "PLIANT_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            progress = _progress(job, process)
            said, _ = process.communicate(timeout=LONG)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise RuntimeError(f"pliant train failed: {said[-1000:]}")
    return Trained(progress, JobDir(job).summary() or {})


def _progress(job: Path, process: subprocess.Popen[str]) -> list[tuple[float, int]]:
    """Records done by time, from what the job says, until it ends."""
    seen: list[tuple[float, int]] = []
    client: MasterClient | None = None
    while process.poll() is None:
        time.sleep(POLL_S)
        try:
            client = client or MasterClient(JobDir(job).address())
            status: pb.JobStatus = client.call(client.stubs.job.GetStatus, pb.Empty(), timeout=1)
        except (PliantError, OSError, json.JSONDecodeError):
            continue
        seen.append((time.time(), sum(d.records_done for d in status.datasets if d.name == "train")))
    if client is not None:
        client.close()
    return seen
