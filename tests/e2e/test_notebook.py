"""The example notebook, executed by a real kernel against real jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.platforms.processes import find_marked, kill_all
from pliant.testing.waiting import wait_until

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("cloudpickle")
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
MAX_CELL_S = 500


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PLIANT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    yield tmp_path / "home"
    mark = {"PLIANT_HOME": str(tmp_path / "home")}

    def left() -> list[Any]:
        return [one for one in find_marked(mark) if one.pid != os.getpid()]

    try:
        wait_until(lambda: not left(), what="the end of all processes")
    finally:
        kill_all(left())


def executed(notebook: Any, folder: Path) -> dict[str, str]:
    """The text of each cell's output, by its id."""
    nbclient.NotebookClient(
        notebook, timeout=MAX_CELL_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return {cell["id"]: text_of(cell) for cell in notebook.cells if cell["cell_type"] == "code"}


def text_of(cell: Any) -> str:
    found = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        found += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return "\n".join(found)


def test_it_is_kept_without_outputs() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_a_worker_is_killed_and_the_result_is_the_same(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shown = executed(nbformat.read(NOTEBOOK, as_version=4), tmp_path)
    assert "<progress" in shown["wait"]
    assert "| epoch 9: loss" in shown["wait"]
    assert "'steps': 280" in shown["result"]
    assert "kill -9" in shown["again"]
    assert "Succeeded, with 1 restart" in shown["survived"]
    assert "the same weights, bit for bit" in shown["same"]
    assert "killed by SIGKILL" in shown["events"]
    assert shown["all"].count("Succeeded") >= 2
    assert len(list((home / "jobs").iterdir())) == 2


def test_an_interrupted_cell_leaves_the_job_running_and_a_failure_shows_the_cells_own_lines(
    home: Path, tmp_path: Path
) -> None:
    cell = nbformat.v4.new_code_cell
    cells = [
        cell("import pliant, time, os, signal, threading"),
        cell("def train():\n    rate = 1\n    raise ValueError(f'bad {rate}')  # of the notebook"),
        cell(
            "try:\n    pliant.submit(train, max_restarts=0).wait()\n"
            "except pliant.JobFailed as error:\n    print(error.traceback)",
            id="failed",
        ),
        cell(
            "job = pliant.submit(lambda: time.sleep(600), name='sleeper')\n"
            "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "try:\n    job.wait()\nexcept KeyboardInterrupt as interrupt:\n    print(interrupt, job.status().phase)",
            id="interrupted",
        ),
        cell("print(job.stop(now=True).phase)", id="stopped"),
    ]
    shown = executed(nbformat.v4.new_notebook(cells=cells), tmp_path)
    assert "raise ValueError(f'bad {rate}')  # of the notebook" in shown["failed"]
    assert "job sleeper is still running; job.stop() stops it" in shown["interrupted"]
    assert "Running" in shown["interrupted"]
    assert "Stopped" in shown["stopped"]
