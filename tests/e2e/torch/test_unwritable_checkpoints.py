"""Checkpoints that cannot be written, for real: a file in the place of the folder, a missing library, a full file system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.torch.training_job import LIGHT

from pliant.checkpoint import find_latest
from pliant.checkpoint.slots import node_folder, siblings
from pliant.core.events import EventKind
from pliant.core.status import JobStatus
from pliant.rpc.identity import read_token_file
from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

TIMEOUT_S = 150.0
STEPS = 8
PROGRAM = f"""
import os, time
from pathlib import Path
import torch
import pliant.torch as elastic

def allowed() -> int:
    return int(Path(os.environ["GATE"]).read_text() or 0)

torch.manual_seed(0)
model = torch.nn.Linear(100, 100)
data = torch.utils.data.TensorDataset(torch.ones(2 * {STEPS}, 100), torch.ones(2 * {STEPS}, 100))
trainer = elastic.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), virtual_workers=2)
for step in trainer.steps(data, micro_batch=1, shuffle=False):
    while allowed() <= step.index:
        time.sleep(0.02)
    for x, y in step:
        step.backward(((model(x) - y) ** 2).mean())
"""


class GatedJob(LocalJob):
    """A training that goes as far as it is let, with a checkpoint after each step."""

    def __init__(self, folder: Path, directory: str, *options: str, workers: int = 2, path: str = "") -> None:
        (folder / "train.py").write_text(PROGRAM)
        self._gate = folder / "gate"
        self._gate.write_text("0")
        paths = (path, str(LIGHT), os.environ.get("PYTHONPATH"))
        super().__init__(
            folder,
            ["python", "train.py"],
            workers=workers,
            env={"GATE": str(self._gate), "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            options=["--checkpoint-dir", directory, "--checkpoint-every", "1steps", *options],
        )

    def wait_for_checkpoint(self, step: int) -> None:
        self.wait_for(lambda s: any(c.last_step == step for c in s.checkpoints), f"checkpoint {step}", TIMEOUT_S)

    def let(self, steps: int) -> None:
        """There are two slots in memory: of more steps at a time, or while some are in use, checkpoints would be skipped."""
        self.until(self._has_free_slots, "free slots", TIMEOUT_S)
        new = self._gate.with_suffix(".new")
        new.write_text(str(steps))
        new.replace(self._gate)

    def _has_free_slots(self) -> bool:
        if not self.home.token.exists():
            return True
        own = node_folder(self.name, "worker-0", read_token_file(self.home.token))
        return not any(folder.pending() for folder in siblings(own.path))


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "pliant-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs the right to mount a tmpfs")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize(
    ("directory", "said", "hint"),
    [
        ("file/below", "a part of the path is not a directory", "use another directory"),
        ("s3://bucket/mine", "needs s3fs", "pip install s3fs"),
    ],
    ids=["a file in the place of the folder", "no s3fs"],
)
def test_a_destination_that_cannot_be_written_fails_the_job_before_a_program_starts(
    tmp_path: Path, directory: str, said: str, hint: str
) -> None:
    (tmp_path / "file").write_text("")
    shadow = tmp_path / "without_s3fs"  # whether it is installed or not
    shadow.mkdir()
    (shadow / "s3fs.py").write_text("raise ModuleNotFoundError(\"No module named 's3fs'\")")
    with GatedJob(tmp_path, directory, path=str(shadow)) as job:
        assert job.wait() == 1
        summary, shown = job.summary(), job.output()
    assert (summary["phase"], summary["restarts"], summary["replacements"]) == ("Failed", 0, 0)
    assert not job.events(EventKind.RESTART)
    assert job.events(EventKind.CHECKPOINT_UNUSABLE)
    assert {node["pid"] for node in summary["nodes"]} == {0}, "no program was started"
    failure = summary["first_failure"]
    assert "checkpoints cannot be written to" in failure["message"]
    assert said in failure["message"]
    assert hint in failure["hint"]
    assert f"what to do: {failure['hint']}" in shown
    assert shown.count("Traceback") == 0
    assert shown.count(said) == 1


def test_a_disk_that_fills_up_is_reported_while_the_job_trains_and_so_is_that_it_works_again(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    def failing(status: JobStatus, count: int) -> bool:
        return any(found.failures_in_a_row >= count for found in status.checkpoints)

    saved = small_disk.folder / "saved"
    with GatedJob(tmp_path, str(saved)) as job:
        job.let(2)
        job.wait_for_checkpoint(2)
        small_disk.fill()
        job.let(4)
        status = job.wait_for(lambda s: s if failing(s, 2) else None, "two failures", TIMEOUT_S)
        job.kill_master()
        job.let(5)
        job.wait_for(lambda s: failing(s, 3), "another, at the next master", TIMEOUT_S)
        job.until(lambda: "warning: checkpoints cannot be written" in job.output(), "the warning")
        small_disk.free()
        job.let(6)
        job.wait_for_checkpoint(6)
        job.until(lambda: "checkpoints are written to" in job.output(), "the good news")
        job.let(STEPS)
        assert job.wait(TIMEOUT_S) == 0, job.report()
        summary = job.summary()
    (found,) = status.checkpoints
    assert (found.directory, found.last_step) == (str(saved), 2)
    assert "no space left" in found.reason
    assert "no space left" in status.warnings[0]
    (event, *_), (recovered,) = (
        job.events(EventKind.CHECKPOINT_FAILED),
        job.events(EventKind.CHECKPOINT_RECOVERED),
    )
    assert event.facts["step"] == 3
    assert (recovered.facts["failures"], recovered.facts["step"]) == (3, 6)
    (last,) = summary["checkpoints"]
    assert (last["failures"], last["failures_in_a_row"], last["last_step"]) == (3, 0, STEPS)
    assert "the last checkpoint could not be written" not in job.output()
    latest = find_latest(saved, memory=False)
    assert latest is not None
    assert latest.step == STEPS


@pytest.mark.parametrize(("mode", "code", "phase"), [("warn", 0, "Succeeded"), ("fail", 1, "Failed")])
def test_a_job_whose_last_checkpoint_is_missing_says_so_at_its_end(
    tmp_path: Path, small_disk: SmallDisk, mode: str, code: int, phase: str
) -> None:
    saved = small_disk.folder / "saved"
    with GatedJob(tmp_path, str(saved), "--checkpoint-on-failure", mode, workers=1) as job:
        for steps in range(2, STEPS, 2):
            job.let(steps)
            job.wait_for_checkpoint(steps)
        small_disk.fill()
        job.let(STEPS)
        assert job.wait(TIMEOUT_S) == code, job.report()
        summary, shown = job.summary(), job.output()
    assert summary["phase"] == phase
    assert f"newest checkpoint: of step {STEPS - 2}, in {saved}" in shown
    assert f"warning: the last checkpoint could not be written to {saved}: no space left" in shown
    assert "what to do: free space in" in shown
    (found,) = summary["checkpoints"]
    assert (found["last_step"], found["failures_in_a_row"]) == (STEPS - 2, 2)
    if mode == "fail":
        assert f"the last checkpoint could not be written to {saved}: no space left" in summary["reason"]
        assert "what to do: free space" in summary["reason"]
