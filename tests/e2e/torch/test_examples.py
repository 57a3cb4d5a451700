"""The elastic examples run as their first lines say, alone and with workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

EXAMPLES = Path(__file__).parents[3] / "examples"
PLIANT_RUN = [sys.executable, "-c", "from pliant.cli import main; main()", "run"]


def run(name: str, *arguments: str, workers: int = 0, folder: Path | None = None) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PLIANT_")}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    if workers:
        command = [*PLIANT_RUN, "-n", str(workers), "--job-dir", str(folder), "--", *command]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    logs = "".join(path.read_text() for path in sorted(folder.glob("logs/worker-*.log"))) if folder else ""
    return ended.stdout + logs


def number(pattern: str, output: str) -> float:
    found = re.findall(pattern, output)
    assert found, output
    return float(found[-1])


def weights(output: str) -> set[str]:
    return set(re.findall(r"weights: (\w+)", output))


def test_a_cnn_learns_digits_alone_and_with_two_workers_to_the_same_bits(tmp_path: Path) -> None:
    options = ("--epochs", "2")
    alone = run("02_cnn_digits.py", *options)
    together = run("02_cnn_digits.py", *options, workers=2, folder=tmp_path / "job")
    assert number(r"held-out digits: ([\d.]+) %", alone) > 60
    assert weights(together) == weights(alone)


def test_the_first_program_of_the_readme_has_the_same_weights_alone_and_with_two_workers(tmp_path: Path) -> None:
    assert weights(run("train.py", "1")) == weights(run("train.py", "1", workers=2, folder=tmp_path / "job")) != set()


def test_a_small_gpt_learns_to_write_sums() -> None:
    output = run("03_small_gpt.py", "--steps", "40")
    assert number(r"loss ([\d.]+)", output) < 1.9
    assert "goes on from" in output


def test_batch_norm_and_dropout_give_the_same_bits_alone_and_with_three_workers(tmp_path: Path) -> None:
    alone = run("04_batchnorm_dropout.py", "--epochs", "3")
    together = run("04_batchnorm_dropout.py", "--epochs", "3", workers=3, folder=tmp_path / "job")
    assert number(r"held-out digits: ([\d.]+) %", alone) > 85
    assert weights(together) == weights(alone)
