from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.monitors.recording_brain import RecordingBrain

from pliant.testing import wait_until
from pliant.testing.waiting import MAX_WAIT_S

COMMAND = [sys.executable, "-m", "pliant.cli", "brain", "monitor"]


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[RecordingBrain]:
    with RecordingBrain(tmp_path) as running:
        yield running


def words(brain: RecordingBrain, *more: str) -> list[str]:
    return [*COMMAND, "--brain", brain.address, "--brain-dir", str(brain.folder.path), *more]


def run(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PLIANT_HOME": str(home)}
    return subprocess.run(command, capture_output=True, text=True, timeout=MAX_WAIT_S, env=environment)


def test_one_observation_can_be_sent_and_read(brain: RecordingBrain, tmp_path: Path) -> None:
    done = run(words(brain, "--once", "--json", "--cluster", "desk"), tmp_path)
    assert done.returncode == 0, done.stderr
    [sent] = brain.observed
    assert sent.cluster == "desk"
    assert json.loads(done.stdout)["machines"][0]["name"] == sent.machines[0].name


def test_a_monitor_ends_at_once_when_it_is_asked_to(brain: RecordingBrain, tmp_path: Path) -> None:
    environment = {**os.environ, "PLIANT_HOME": str(tmp_path)}
    with subprocess.Popen(words(brain, "--interval", "3600"), env=environment, stderr=subprocess.PIPE) as process:
        wait_until(lambda: brain.observed)
        process.send_signal(signal.SIGTERM)
        assert process.wait(MAX_WAIT_S) == 0
    assert len(brain.observed) == 1


def test_a_brain_that_does_not_answer_is_named(brain: RecordingBrain, tmp_path: Path) -> None:
    brain.stop()
    done = run(words(brain, "--once"), tmp_path)
    assert done.returncode == 1
    assert "the Brain" in done.stderr
    assert brain.address in done.stderr


def test_without_a_brain_on_this_machine_it_says_how_to_start_one(tmp_path: Path) -> None:
    done = run([*COMMAND, "--once"], tmp_path)
    assert done.returncode == 2
    assert "pliant brain serve" in done.stderr
