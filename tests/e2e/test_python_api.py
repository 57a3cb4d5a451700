"""Jobs from Python, as a notebook submits, follows and steers them: with real processes."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pliant
from pliant.api.functions.payload import FILE_NAME, Stamps
from pliant.core.errors import Conflict, InvalidRequest, NotFound
from pliant.core.job import Phase
from pliant.platforms.processes import find_marked, kill_all
from pliant.testing.waiting import MAX_WAIT_S, wait_until

pytest.importorskip("cloudpickle")
pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With proof that no process of a job is left."""
    home = tmp_path / "home"
    monkeypatch.setenv("PLIANT_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    yield home
    left = {"PLIANT_HOME": str(home)}
    try:
        wait_until(
            lambda: not [one for one in find_marked(left) if one.pid != os.getpid()], what="the end of all processes"
        )
    finally:  # of a failed test
        kill_all([one for one in find_marked(left) if one.pid != os.getpid()])


def gated(gate: Path, size: int = 60) -> Callable[[], dict[str, int]]:
    """A closure that trains until it waits for a file."""

    def train() -> dict[str, int]:
        job = pliant.connect()
        done = 0
        for shard in job.shards("train", size=size, shard_size=5, prefetch=1):
            while not gate.exists():
                time.sleep(0.02)
            done += len(list(shard))
        return {"done": done}

    return train


def running(job: pliant.SubmittedJob, workers: int) -> bool:
    return sum(1 for node in job.status().nodes if node.pid) == workers


def script(text: str, folder: Path, *args: str) -> subprocess.Popen[str]:
    path = folder / "notebook.py"
    path.write_text(textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, str(path), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_a_function_of_main_runs_on_each_worker_and_another_process_reads_its_result(tmp_path: Path) -> None:
    program = """
        import pliant, math

        SCALE = 3

        class Model:  # of __main__ too
            def __init__(self, rate): self.rate = rate

        def helper(x): return x * SCALE

        def train(n, model):
            print("training with", model.rate)
            return {"product": helper(n), "rate": model.rate, "nan": math.nan, "pair": (1, None)}

        if __name__ == "__main__":
            job = pliant.submit(train, args=(7,), kwargs={"model": Model(0.5)}, workers=2, name="main")
            print(repr(job))
    """
    output, _ = script(program, tmp_path).communicate(timeout=MAX_WAIT_S)
    assert "<job main: " in output
    job = pliant.attach("main")
    found = job.result(timeout=MAX_WAIT_S)
    assert str(found) == "{'product': 21, 'rate': 0.5, 'nan': nan, 'pair': (1, None)}"
    assert set(job.results()) == {"worker-0", "worker-1"}
    log = io.StringIO()
    job.logs(file=log, nodes="worker-0")
    assert log.getvalue() == "worker-0 | training with 0.5\n"
    assert "worker-0" in {event.node for event in job.events()}
    assert job.events(after=job.events()[-1].number) == []
    assert (tmp_path / "home/jobs/main" / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert [one.name for one in pliant.jobs()] == ["main"]
    assert "main" in pliant.jobs()._repr_html_()


def test_an_importable_function_needs_no_pickle_and_returns_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "scaling.py").write_text("FACTOR = 2\n")
    (tmp_path / "modules" / "training.py").write_text(
        "import torch, scaling\nasync def train(size):\n"
        "    return {'weights': torch.arange(size) * scaling.FACTOR, 'array': torch.ones(2).numpy()}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    train = __import__("training").train
    job = pliant.submit(train, args=(4,))
    assert b"cloudpickle.cloudpickle" not in (tmp_path / "home/jobs" / job.name / FILE_NAME).read_bytes()
    found = job.result(MAX_WAIT_S)
    assert torch.equal(found["weights"], torch.tensor([0, 2, 4, 6]))
    assert found["array"].tolist() == [1, 1]
    assert "Succeeded" in job._repr_html_()


def test_a_failure_raises_the_node_and_the_remote_traceback() -> None:
    def train() -> None:
        raise ZeroDivisionError("no <b>batch</b>")

    job = pliant.submit(train, max_restarts=0)
    with pytest.raises(pliant.JobFailed, match="first worker-0: exit code 1: ZeroDivisionError") as found:
        job.wait(MAX_WAIT_S)
    assert found.value.node == "worker-0"
    assert 'raise ZeroDivisionError("no <b>batch</b>")' in found.value.traceback
    assert "worker-0.log" in found.value.hint
    assert "&lt;b&gt;batch" in job._repr_html_()
    with pytest.raises(pliant.JobFailed):
        asyncio.run(awaited(job))


def interrupted(_: object) -> bool:
    raise KeyboardInterrupt


async def awaited(job: pliant.SubmittedJob) -> Any:
    return await job


def test_a_job_is_scaled_awaited_and_waited_for_with_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = pliant.submit(gated(tmp_path / "gate"), workers="1:3", env={"GREETING": "hello"})
    wait_until(lambda: running(job, 3), what="three workers")
    with pytest.raises(pliant.WaitTimeout, match="has not ended within 0 s: it is Running"):
        job.wait(timeout=0)
    changed = job.scale(workers=1)
    assert (changed.before, changed.now) == (3, 1)
    wait_until(lambda: running(job, 1), what="one worker")
    with pytest.raises(InvalidRequest, match="nothing to change"):
        job.scale()
    with pytest.raises(InvalidRequest, match="lots"):
        job.scale(memory="lots")
    with monkeypatch.context() as patch:
        patch.setattr("pliant.handles.supervision.Supervision.running", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"is still running; job\.stop\(\) stops it"):
            job.wait()
    assert job.plans().plans == ()
    assert job.explain().name == job.name
    (tmp_path / "gate").touch()
    assert asyncio.run(awaited(job)) == {"done": 60}


def test_a_job_is_stopped_and_has_no_result(tmp_path: Path) -> None:
    job = pliant.submit(gated(tmp_path / "gate"))
    wait_until(lambda: running(job, 1), what="a worker")
    assert job.stop(reason="enough").phase is Phase.STOPPED
    assert job.wait().phase is Phase.STOPPED
    with pytest.raises(Conflict, match="has no result: stopped, enough"):
        job.result()


def test_the_job_goes_on_when_the_kernel_is_killed(tmp_path: Path) -> None:
    program = """
        import pathlib, sys, time
        import pliant

        gate = pathlib.Path(sys.argv[1])

        def train():
            for shard in pliant.connect().shards("train", size=20, shard_size=5):
                while not gate.exists(): time.sleep(0.02)
            return "done"

        job = pliant.submit(train, workers=2, name="survivor")
        print("submitted", flush=True)
        job.wait()
    """
    kernel = script(program, tmp_path, str(tmp_path / "gate"))
    assert kernel.stdout is not None
    assert kernel.stdout.readline() == "submitted\n"
    os.killpg(kernel.pid, signal.SIGKILL)
    kernel.communicate()
    job = pliant.attach("survivor")
    wait_until(lambda: running(job, 2), what="two workers")
    (tmp_path / "gate").touch()
    assert job.result(MAX_WAIT_S) == "done"


def test_the_same_result_after_a_worker_was_killed(tmp_path: Path) -> None:
    job = pliant.submit(gated(tmp_path / "gate"), workers=1)
    wait_until(lambda: running(job, 1), what="a worker")
    (node,) = [node for node in job.status().nodes if node.pid]
    os.kill(node.pid, signal.SIGKILL)
    (tmp_path / "gate").touch()
    assert job.result(MAX_WAIT_S) == {"done": 60}
    assert job.wait().restarts + job.wait().replacements >= 1


def test_a_payload_that_was_swapped_after_submit_is_never_loaded(tmp_path: Path) -> None:
    job = pliant.submit(gated(tmp_path / "gate"))
    wait_until(lambda: running(job, 1), what="a worker")
    evil = pliant.submit(lambda: (tmp_path / "harm").touch(), name="evil")
    evil.wait(MAX_WAIT_S)
    (tmp_path / "harm").unlink()
    assert job.folder is not None
    assert evil.folder is not None
    os.replace(evil.folder / FILE_NAME, job.folder / FILE_NAME)
    os.kill(next(node.pid for node in job.status().nodes if node.pid), signal.SIGKILL)
    with pytest.raises(pliant.JobFailed, match="was changed after the job was submitted") as found:
        job.wait(MAX_WAIT_S)
    assert "submit the function again" in found.value.hint
    assert not (tmp_path / "harm").exists()


def test_a_payload_of_another_python_fails_the_job_at_once_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Stamps, "here", classmethod(lambda cls: replace(HERE, python="3.9")))
        job = pliant.submit(lambda: 1)
    with pytest.raises(pliant.JobFailed, match=r"was pickled with Python 3\.9, and this is Python") as found:
        job.wait(MAX_WAIT_S)
    assert "use the same Python on both sides" in found.value.hint


HERE = Stamps.here()


def test_functions_that_exit_and_values_that_cannot_be_kept() -> None:
    def leaves() -> None:
        sys.exit(0)

    def vanishes() -> None:
        os._exit(0)

    def unpicklable() -> Any:
        return (n for n in range(3))

    def custom() -> Any:
        return {1, 2}

    jobs = [pliant.submit(function) for function in (leaves, vanishes, unpicklable, custom)]
    for job in jobs[:2]:
        with pytest.raises(NotFound, match="no worker returned from its function"):
            job.result(MAX_WAIT_S)
    with pytest.raises(InvalidRequest, match=r"was not kept: result is a generator, which cannot be pickled"):
        jobs[2].result(MAX_WAIT_S)
    with pytest.raises(InvalidRequest, match="is a pickle: result is a set"):
        jobs[3].result(MAX_WAIT_S)
    assert jobs[3].result(allow_pickle=True) == {1, 2}

    job = pliant.submit(sys.exit, args=(3,), max_restarts=0)
    with pytest.raises(pliant.JobFailed, match="exit code 3"):
        job.result(MAX_WAIT_S)


def test_scripts_and_commands_run_with_their_files(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "helper.py").write_text("NAME = 'helper'\n")
    (tmp_path / "train.py").write_text("import sys, os, helper\nprint(helper.NAME, os.environ['A'], *sys.argv[1:])\n")
    files = [tmp_path / "elsewhere" / "helper.py"]
    jobs = [
        pliant.submit("train.py", args=("--epochs", 3), files=files, env={"A": "a b"}),
        pliant.submit([sys.executable, Path("train.py"), "--epochs"], args=(3,), files=files, env={"A": "a b"}),
    ]
    for job in jobs:
        assert job.result(MAX_WAIT_S) is None
        assert [line.text for line in job.log_lines(nodes="worker-0")] == ["helper a b --epochs 3"]
        assert job.results() == {}


def test_files_of_a_function_can_be_imported_and_read() -> None:
    Path("sent.py").write_text("VALUE = 5\n")

    def train() -> int:
        return int(import_module("sent").VALUE)

    job = pliant.submit(train, files=["sent.py"])
    Path("sent.py").write_text("VALUE = 6\n")
    assert job.result(MAX_WAIT_S) == 5


def test_names_and_logs_with_markup_are_text() -> None:
    def train() -> None:
        print("<script>\x1b[2Jalert(1)</script>")
        raise RuntimeError("<img src=x onerror=alert(1)>")

    job = pliant.submit(train, max_restarts=0)
    log = io.StringIO()
    job.logs(follow=True, file=log)
    assert "\x1b" not in log.getvalue()
    assert "<img" not in job._repr_html_()
    assert "&lt;img" in job._repr_html_()
