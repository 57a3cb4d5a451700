"""Parameter servers in real jobs: training throughput by number of workers, and what dumps and moves cost while it goes on.

A job here is what a user starts: a master, servers with logs and dumps, workers; every gradient goes through its log and the
master's decision. ``clients/ps_loop.py`` is a worker that writes down when each of its steps ended.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import ps_trace
import ps_wire
from clients.ps_loop import TURN_S
from deepfm_job import train_deepfm
from harness import median, paired, say, table

from pliant.native.click_log import write_click_log
from pliant.testing.jobs import LocalJob

HERE = Path(__file__).resolve().parent
LOOP = HERE / "clients" / "ps_loop.py"
DIM, BATCH = 64, 4096
LONG = 120.0  # seconds


class LoopJob:
    """Workers that pull and push, in a job with dumps and moves as wanted."""

    def __init__(self, job: LocalJob, folder: Path) -> None:
        self.job = job
        self._folder = folder

    def pause(self) -> None:
        (self._folder / "pause").touch()
        time.sleep(0.2)

    def run(self, seconds: float, cpu: Counter[str]) -> tuple[float, float]:
        """Let workers that pause run for a while: from when to when they did. The CPU time of each role is added to ``cpu``."""
        cpu.subtract(self._cpu())
        (self._folder / "pause").unlink()
        time.sleep(0.1)
        begun = time.time()
        time.sleep(seconds)
        ended = time.time()
        self.pause()
        cpu.update(self._cpu())
        return begun, ended

    def _cpu(self) -> Counter[str]:
        spent: Counter[str] = Counter()
        for process in self.job.processes():
            words = " ".join(process.cmdline())
            names = (("ps_loop.py", "worker"), ("pliant.ps", "ps"), ("pliant.master", "master"))
            role = next((role for word, role in names if word in words and "pliant.agent" not in words), "rest")
            spent[role] += sum(process.cpu_times()[:2])  # type: ignore[assignment]
        return spent

    def stop(self) -> np.ndarray[Any, Any]:
        """The steps of all workers, by the time of their end: (end, seconds of pull, seconds of push, window)."""
        (self._folder / "stop").touch()
        if self.job.wait(LONG):
            raise RuntimeError(f"the job failed\n{self.job.report()}")
        steps = np.concatenate([np.load(path) for path in self._folder.glob("worker-*.npy")])
        return steps[np.argsort(steps[:, 0])]


@contextmanager
def loop_job(
    *,
    rows: int,
    servers: Mapping[str, int],
    workers: int = 1,
    parameters: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
) -> Iterator[LoopJob]:
    with tempfile.TemporaryDirectory(prefix="bench-ps-") as name:
        folder = Path(name)
        command = ["python", str(LOOP), str(folder), *map(str, (rows, DIM, BATCH))]
        roles = {"worker": {"replicas": workers, "command": command}, "ps": {"replicas": dict(servers)}}
        spec = {"strategy": "ps-async", "roles": roles, "parameters": dict(parameters), "audit": False}
        whole_env = {"BENCH_WORKERS": str(workers), "OMP_NUM_THREADS": "1", **(env or {})}
        with LocalJob(folder, command, spec=spec, env=whole_env) as job:
            ready = [folder / f"ready-{number}" for number in range(workers)]
            job.until(lambda: all(path.exists() for path in ready), "a filled table", LONG)
            yield LoopJob(job, folder)


def _rate(steps: np.ndarray[Any, Any], first: float, last: float) -> float:
    """Steps per second that ended in this time."""
    inside = (steps[:, 0] >= first) & (steps[:, 0] < last)
    return float(inside.sum() / max(last - first, 1e-9))


def _longest(steps: np.ndarray[Any, Any], first: float, last: float) -> float:
    """The longest time within it in which no step ended."""
    ends = steps[:, 0]
    inside = ends[(ends >= first) & (ends < last)]
    return float(np.diff(np.concatenate([[first], inside, [last]])).max())


def dump(rows: int, seconds: float) -> dict[str, Any]:
    """Training while full dumps are taken."""
    say(f"dump: {rows:,} rows of {DIM} floats with Adagrad on one server, full dumps")
    with loop_job(
        rows=rows,
        servers={"min": 1, "max": 1},
        parameters={"dump_seconds": seconds / 3, "full_every": 1, "keep_last": 1},
    ) as running:
        begun = time.time()
        time.sleep(seconds)
        ended = time.time()
        steps = running.stop()
        logs = running.job.home.log_of("ps-0").read_text()
    copied = [float(found) for found in re.findall(r"dump \d+: written in ([0-9.]+) s", logs)][-3:]
    inside = steps[(steps[:, 0] >= begun) & (steps[:, 0] < ended)]
    took = inside[:, 1] + inside[:, 2]
    result = {
        "rows": rows,
        "bytes": rows * DIM * 4 * 2,
        "steps_per_second": _rate(steps, begun, ended),
        "step_ms": 1000 * median(took.tolist()),
        "longest_stall": _longest(steps, begun, ended),
        "copy_seconds": copied,
    }
    say(
        f"{result['steps_per_second']:.0f} steps/s, {result['step_ms']:.1f} ms a step (median); dumps took "
        f"{', '.join(f'{c:.2f}' for c in copied) or '?'} s; the longest time without a step was {result['longest_stall']:.2f} s"
    )
    return result


def move(rows: int, seconds: float) -> dict[str, Any]:
    """Training while a second server is added and given half of the partitions."""
    say(f"move: half of {rows:,} rows of {DIM} floats with Adagrad go to a new server while a worker pulls and pushes")
    with loop_job(rows=rows, servers={"min": 1, "max": 2, "wanted": 1}, parameters={"dump_seconds": 0}) as running:
        job = running.job
        begun = time.time()
        time.sleep(seconds)
        asked = time.time()
        scale = [sys.executable, "-c", "from pliant.cli import main; main()", "scale", str(job.home.path), "ps=2"]
        subprocess.run(
            scale, check=True, capture_output=True, timeout=60, env={**os.environ, "PLIANT_HOME": str(job.folder)}
        )
        job.until(lambda: _balanced(job), "the end of the moves", LONG)
        moved = time.time()
        time.sleep(seconds)
        ended = time.time()
        steps = running.stop()
    result = {
        "rows": rows,
        "before": _rate(steps, begun, asked),
        "during": _rate(steps, asked, moved),
        "after": _rate(steps, moved, ended),
        "seconds": moved - asked,
        "longest_stall": _longest(steps, asked, ended),
    }
    shown = [("steps per second", *(f"{result[key]:.0f}" for key in ("before", "during", "after")))]
    table("A live move", ("", "before", "from the command to the last move", "after"), shown)
    say(
        f"from the command to the last move (the new server starts in this time) it took {result['seconds']:.1f} s; "
        f"the longest time without a step was {result['longest_stall']:.2f} s"
    )
    return result


def _balanced(job: LocalJob) -> bool:
    status = job.status()
    return status is not None and [seat.partitions for seat in status.seats] == [128, 128]


def whole(
    rows: int,
    turns: int,
    seconds: float,
    servers: tuple[int, ...],
    workers: tuple[int, ...],
    windows: tuple[int, ...],
    fill: float,
) -> dict[str, Any]:
    """One step of a worker (pull and push of rows) all the way: log, master's decision, order; beside torch.rpc's bare pull and
    push of the same rows, which keeps nothing. Windows take turns within the turns of the job. ``fill``: bytes that each server's
    log has seen before, since it is slower while it still needs new memory."""
    result: dict[str, Any] = {}
    shown = []
    for count, each in product(servers, workers):
        env = {"BENCH_WINDOWS": ",".join(map(str, windows)), "BENCH_FILL_BYTES": str(int(fill * count))}
        limits = {"min": count, "max": count}
        spans: list[tuple[float, float]] = []
        cpu: Counter[str] = Counter()
        with tempfile.TemporaryDirectory(prefix="bench-ps-") as logs:
            peer = ps_wire.System("torch", count, each, rows, 0, logs)
            try:
                peer.rate("pull_push", 0.3, each)
                with loop_job(
                    rows=rows, servers=limits, workers=each, parameters={"dump_seconds": 0}, env=env
                ) as running:
                    running.pause()
                    bare = []
                    for _ in range(turns):
                        spans.append(running.run(seconds, cpu))
                        bare.append(peer.rate("pull_push", seconds / 2, each))
                    steps = running.stop()
            finally:
                peer.close()
        rates = np.array([_rates_by_turn(steps, *span, windows).mean(axis=0) for span in spans])
        total = sum(int(((steps[:, 0] >= begun) & (steps[:, 0] < ended)).sum()) for begun, ended in spans)
        used = {role: 1000 * spent / max(total, 1) for role, spent in cpu.items()}
        measured = np.logical_or.reduce([(steps[:, 0] >= begun) & (steps[:, 0] < ended) for begun, ended in spans])
        for at, window in enumerate(windows):
            inside = steps[measured & (steps[:, 3] == window)]
            name = f"{count} PS, {each} workers, window {window}"
            found = result[name] = {
                "steps_per_second": median(rates[:, at].tolist()),
                "torch": median(bare),
                "times": paired(rates[:, at].tolist(), bare),
                "pull_ms": 1000 * median(inside[:, 1].tolist()),
                "push_ms": 1000 * median(inside[:, 2].tolist()),
                "ratio": float(rates[:, at].sum() / max(rates[:, 0].sum(), 1e-9)),
                "cpu_ms": used,
            }
            cells = [f"{found[key]:,.0f}" for key in ("steps_per_second", "torch")]
            cells += [
                f"{found['times']:.2f}",
                f"{found['pull_ms']:.1f}",
                f"{found['push_ms']:.1f}",
                f"{found['ratio']:.2f}",
            ]
            shown.append((f"{count}:{each}, {window}", *cells))
        spent = ", ".join(f"{role} {one:.1f}" for role, one in sorted(used.items()))
        say(f"{count} PS, {each} workers: {total:,} steps; CPU ms a step (all windows together): {spent}")
    titles = ("PS:workers, window", "steps/s", "torch.rpc", "ratio", "ms pull", "ms push", f"of {windows[0]}")
    table(f"Whole steps in a job, {BATCH} ids x {DIM} floats, medians of {turns} turns", titles, shown)
    return result


def _rates_by_turn(
    steps: np.ndarray[Any, Any], begun: float, ended: float, windows: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Steps per second in each whole turn of each window: (round, window)."""
    first = int(np.ceil(begun / TURN_S / len(windows))) * len(windows)
    rounds = (int(ended / TURN_S) - first) // len(windows)
    turns = np.floor(steps[:, 0] / TURN_S).astype(np.int64) - first
    inside = turns[(turns >= 0) & (turns < rounds * len(windows))]
    return np.bincount(inside, minlength=rounds * len(windows)).reshape(rounds, len(windows)) / TURN_S


def trace(rows: int, seconds: float, servers: int, workers: int, out: Path) -> None:
    """A timeline of the steps of one job. Its processes note spans, so they are a little slower."""
    with tempfile.TemporaryDirectory(prefix="bench-ps-trace-") as name:
        with loop_job(
            rows=rows,
            servers={"min": servers, "max": servers},
            workers=workers,
            parameters={"dump_seconds": 0},
            env=ps_trace.traced_environment(Path(name)),
        ) as running:
            time.sleep(seconds)
            running.stop()
        ps_trace.write_trace(Path(name), out)


def deepfm(records: int, batch: int, workers: tuple[int, ...]) -> dict[str, Any]:
    """``pliant train --strategy ps-async`` of the zoo's DeepFM, records per second by number of workers."""
    result: dict[str, Any] = {}
    shown = []
    with tempfile.TemporaryDirectory(prefix="bench-ps-") as name:
        folder = Path(name)
        write_click_log(folder, records, test=0.01)
        for count in workers:
            found = result[f"{count} workers"] = _deepfm(folder, count, batch)
            found["scaling"] = found["records_per_second"] / result[f"{workers[0]} workers"]["records_per_second"]
            cells = (f"{found['records_per_second']:,.0f}", f"{found['scaling']:.2f} x", f"{found['seconds']:.1f}")
            shown.append((f"{count}", *cells))
    title = f"DeepFM, {records:,} records in batches of {batch}, ps-async, one server, {os.cpu_count()} cores"
    table(title, ("workers", "records/s", "scaling", "seconds"), shown)
    return result


def _deepfm(folder: Path, workers: int, batch: int) -> dict[str, float]:
    seen = train_deepfm(folder, f"deepfm-{workers}", workers, batch).progress
    # from the first moment at which all workers had begun to the last at which all had work
    at, done = np.array([s[0] for s in seen]), np.array([s[1] for s in seen])
    inside = (done > 0.1 * done[-1]) & (done < 0.9 * done[-1])
    rate = float(np.polyfit(at[inside], done[inside], 1)[0])
    return {"records_per_second": rate, "seconds": float(at[-1] - at[0])}
