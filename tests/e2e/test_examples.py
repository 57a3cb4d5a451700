"""Each example runs as its first lines say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples"
MAX_EXAMPLE_S = 570.0  # which only a broken one reaches


def run_example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PLIANT_")}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=MAX_EXAMPLE_S, check=False)


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def accuracy_in(output: str) -> float:
    found = re.search(r"([\d.]+) % of 360 digits|held-out digits: ([\d.]+) %", output)
    assert found is not None, output
    return float(found[1] or found[2])


def test_digits_trains_alone_without_a_master() -> None:
    ended = run_example("01_digits_shards.py", "--epochs", "6")
    assert ended.returncode == 0, ended.stderr
    assert accuracy_in(ended.stdout) > 90


def test_quickstart_ends_with_the_same_bits_after_a_kill_and_a_join(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    ended = run_example("quickstart.py", "--epochs", "8", "--keep", str(kept))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"step +\d+  kill -9 \d+, the program of worker-1", ended.stdout)
    assert re.search(r"worker-\d (was started again|is new) and joined", ended.stdout)
    assert len(set(re.findall(r"SHA-256 ([0-9a-f]{64})$", ended.stdout, re.MULTILINE))) == 1
    assert "the same bits on all" in ended.stdout
    assert re.search(r"[\d.]+ s without a finished step after the kill", ended.stdout)
    assert "184 of 184 done, 0 of them twice" in ended.stdout
    assert accuracy_in(ended.stdout) > 90
    summary = json.loads((kept / "disturbed" / "summary.json").read_text())
    assert summary["phase"] == "Succeeded"
    assert summary["restarts"] == 1


def test_quickstart_compares_the_weights_of_every_worker(capsys: pytest.CaptureFixture[str]) -> None:
    quickstart = load_example("quickstart.py")
    commits = [quickstart.Commit(float(n), n, 1, "worker-0", 1) for n in range(4)]
    same, other = (quickstart.Final("worker-0", 4, 0.99, letter * 64) for letter in "ab")
    story = SimpleNamespace(killed=commits[1], killed_at=1.5, joined=["worker-1"])
    undisturbed = SimpleNamespace(name="undisturbed", commits=commits, finals=[same, same])
    for finals, expected in (([same, same], True), ([same, other], False), ([], False)):
        disturbed = SimpleNamespace(name="disturbed", commits=commits, finals=finals)
        assert quickstart.report(undisturbed, disturbed, story, 1.0) is expected
        assert ("DIFFERENT BITS" in capsys.readouterr().out) is not expected
