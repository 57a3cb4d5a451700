"""Training jobs for the benches: those of ``systems.py``, started, watched by their step logs, and shot at."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from harness import CACHE
from systems import SYSTEMS


@dataclass(frozen=True)
class Commit:
    """A step that one worker finished."""

    time: float
    step: int
    rank: int
    world: int
    pid: int


class TrainingJob:
    """One run of one system; ``with`` ends everything it started. ``python`` is that of the system's environment."""

    def __init__(self, system: str, workers: int, python: Path = Path(sys.executable), **options: int) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        self.system = system
        self._python = python
        self._workers = workers
        self.home = Path(tempfile.mkdtemp(prefix=f"{system}-", dir=CACHE))
        self.out = self.home / "out"
        self.out.mkdir()
        self._env = {**os.environ, "BENCH_OUT": str(self.out), "OMP_NUM_THREADS": "1"}
        self._env |= {f"BENCH_{name.upper()}": str(value) for name, value in options.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self.began = 0.0

    def __enter__(self) -> TrainingJob:
        command = SYSTEMS[self.system].command(self._python, self._workers, self.home)
        self.began = time.time()
        with (self.home / "launcher.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self._env, stdout=log, stderr=log, start_new_session=True, cwd=self.home
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        started = self._descendants()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(15)
        for process in {*started, *self._leftovers()}:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def commits(self) -> list[Commit]:
        found = []
        for path in self.out.iterdir():
            pid = int(path.suffix[1:])
            for line in path.read_text().splitlines():
                fields = line.split()
                if len(fields) == 4:
                    found.append(Commit(float(fields[0]), *(int(f) for f in fields[1:]), pid))
        return sorted(found, key=lambda commit: commit.time)

    def wait_for(self, condition, what: str, timeout: float = 120.0) -> None:  # type: ignore[no-untyped-def]
        deadline = time.time() + timeout
        while not condition(self.commits()):
            if time.time() > deadline or self.ended():
                log = (self.home / "launcher.log").read_text(errors="replace")[-1500:]
                raise TimeoutError(f"{self.system}: {what} did not happen\n{log}")
            time.sleep(0.05)

    def wait_for_step(self, step: int, world: int | None = None, timeout: float = 120.0) -> None:
        """Until the whole world has finished that step."""
        size = world or self._workers

        def reached(commits: list[Commit]) -> bool:
            return len({c.pid for c in commits if c.step >= step and c.world == size}) >= size

        self.wait_for(reached, f"step {step} by {size} workers", timeout)

    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def pids_by_rank(self) -> dict[int, int]:
        latest = self.commits()
        newest = max(c.step for c in latest[-self._workers * 3 :])
        return {c.rank: c.pid for c in latest if c.step >= newest - 1}

    def kill(self, rank: int) -> tuple[float, int]:
        """kill -9 the worker of a rank; gives when, and its pid."""
        pid = self.pids_by_rank()[rank]
        now = time.time()
        os.kill(pid, signal.SIGKILL)
        return now, pid

    def _descendants(self) -> list[psutil.Process]:
        assert self._process is not None
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _leftovers(self) -> list[psutil.Process]:
        """Those that a launcher left behind: they carry our environment, unless they wrote a title over it, as Ray's do."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get("BENCH_OUT") == str(self.out):
                    found.append(process)
        return found
