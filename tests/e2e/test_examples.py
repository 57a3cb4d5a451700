"""Each example runs as its first lines say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PLIANT_")}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)


def accuracy_in(output: str) -> float:
    found = re.search(r"([\d.]+) % on 360 held-out|held-out digits: ([\d.]+) %", output)
    assert found is not None, output
    return float(found[1] or found[2])


def test_digits_trains_alone_without_a_master() -> None:
    ended = run_example("01_digits_shards.py", "--epochs", "6")
    assert ended.returncode == 0, ended.stderr
    assert accuracy_in(ended.stdout) > 90


def test_quickstart_survives_the_kill_and_sees_each_record_once_per_epoch(tmp_path: Path) -> None:
    ended = run_example("quickstart.py", "--job-dir", str(tmp_path / "job"), "--epochs", "8")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "kill -9 of the program of worker-" in ended.stdout
    assert "11,496 = 1,437 x 8 epochs, each exactly once per epoch" in ended.stdout
    assert accuracy_in(ended.stdout) > 90
    summary = json.loads((tmp_path / "job" / "summary.json").read_text())
    assert summary["phase"] == "Succeeded"
    assert summary["restarts"] == 1
