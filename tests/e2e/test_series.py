"""Charts of a real job: they survive its master, and stay when it has ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.core.series.test_event_log import curves

from pliant.handles.local import LocalJob as Handle
from pliant.testing.jobs import LocalJob

pytestmark = pytest.mark.e2e

LOOP = """
import pathlib, sys, time
import pliant
job = pliant.connect()
gate = pathlib.Path(sys.argv[1])
step = 0
while not gate.exists() or step < 50:
    step += 1
    job.report(step, loss=1 / step, metrics={"val/accuracy": 1 - 1 / step}, records=2)
    time.sleep(0.05)
"""


def pliant(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pliant.cli", *arguments]
    return subprocess.run(command, env={**os.environ, "PLIANT_HOME": str(home)}, capture_output=True, text=True)


def test_curves_go_on_through_the_death_of_the_master_and_stay_with_the_ended_job(tmp_path: Path) -> None:
    program, gate = tmp_path / "loop.py", tmp_path / "gate"
    program.write_text(LOOP)
    with LocalJob(tmp_path, [sys.executable, str(program), str(gate)]) as job:
        handle = Handle(job.home)
        written = job.home.series_file
        job.until(lambda: written.exists() and "val/accuracy" in json.loads(written.read_text())["metrics"], "the file")
        before = job.wait_for(lambda status: status.global_step if status.global_step > 20 else 0, "some steps")
        job.kill_master()
        job.wait_for(lambda status: status.global_step > before + 20, "more steps")
        running = handle.series()
        assert not running.note
        gate.touch()
        assert job.wait() == 0
        ended = handle.series()
        found = pliant(tmp_path, "series", "--job-dir", str(job.home.path))
        asked = pliant(tmp_path, "series", "--job-dir", str(job.home.path), "--metric", "lose")
        exported = pliant(tmp_path, "series", str(job.home.path), "--tensorboard", str(tmp_path / "runs"))
    curve = ended.metrics["loss"]
    last = curve[-1].step
    assert curve[0].time == running.metrics["loss"][0].time, "the first master's"
    assert last >= max(50, before + 20)
    assert min(point.minimum for point in curve) == pytest.approx(1 / last)
    assert set(ended.nodes) == {"worker-0"}
    assert max(point.mean for point in ended.records_per_second) > 0
    shown = curves(job.home.tensorboard)
    steps = [step for step, _ in shown["loss"]]
    assert steps == sorted(set(steps))
    assert steps[-1] == last
    assert {"val/accuracy", "pliant/workers", "pliant/steps_per_second"} <= shown.keys()
    assert len(list(job.home.tensorboard.iterdir())) == 2, "one file for each master"
    assert found.returncode == 0, found.stderr
    assert "val/accuracy  last 0.9" in found.stdout
    assert "█" in found.stdout
    assert asked.returncode == 2
    assert "metrics: loss, val/accuracy" in asked.stderr
    assert exported.returncode == 0, exported.stderr
    assert curves(tmp_path / "runs")["loss"][-1][0] == last
