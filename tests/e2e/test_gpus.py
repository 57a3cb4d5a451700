"""GPUs of a machine whose nvidia-smi is the test's: real workers see what they were given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pliant.platforms.gpus import find_gpus
from pliant.testing.jobs import LocalJob

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(find_gpus()), reason="this machine has GPUs of its own, which are found first"),
]

TOOL = "#!/bin/sh\necho 'GPU 0: NVIDIA A100 (UUID: GPU-aaaa)'\necho 'GPU 1: NVIDIA A100 (UUID: GPU-bbbb)'\n"
PRINT = ["sh", "-c", "echo gpu $CUDA_VISIBLE_DEVICES local rank $LOCAL_RANK"]


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(TOOL)
    (tools / "nvidia-smi").chmod(0o755)
    return {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(tmp_path)}


def test_each_worker_has_a_gpu_of_its_own(tmp_path: Path, env: dict[str, str]) -> None:
    with LocalJob(tmp_path, PRINT, workers=2, options=["--gpu", "1"], env=env) as job:
        assert job.wait() == 0
        logs = {job.log("worker-0"), job.log("worker-1")}
    assert logs == {"gpu 0 local rank 0\n", "gpu 1 local rank 0\n"}


def test_gpus_that_the_machine_does_not_have_are_refused_and_leave_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    with LocalJob(tmp_path, PRINT, role={"resources": {"gpu": 3}}, env=env) as job:
        assert job.wait() == 2
    assert "each worker node requests 3 GPUs; this machine has 2" in job.output()
    assert not job.home.path.exists()
