"""Programs with packages of others, in an environment that has them: ``tools/integrations/build.sh`` makes one."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
MISSING = "MLflow, W&B, transformers and Lightning are not there: make integrations-testbed"


@pytest.fixture
def python() -> str:
    """One that can import them, beside all that this one can."""
    find = [str(PROJECT / "tools" / "integrations" / "build.sh"), "--find"]
    found = subprocess.run(find, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    if not found and not os.environ.get("CI"):
        pytest.skip(MISSING)
    assert found, MISSING
    return found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing is fetched, and nothing is left in the user's folders."""
    modules = os.pathsep.join([str(PROJECT / "src"), sysconfig.get_paths()["purelib"], str(PROJECT)])
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "WANDB_SILENT": "true",
        "GIT_PYTHON_REFRESH": "quiet",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    return {"PYTHONPATH": modules, "HF_HOME": str(tmp_path / "hf"), **quiet}
