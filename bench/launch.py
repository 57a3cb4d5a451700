"""From the command to the program's first line: ``pliant run`` beside torchrun.

    python bench/launch.py [--quick] [--rounds N] [--workers N] [--json]

The program is one line that writes the time, so what is measured is the launcher. Both in turn; shown are medians, and
medians of the ratios within a turn. ``first`` is when the first worker's program runs, ``all`` when the last one does,
``end`` when the command returns.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import CACHE, finish, machine, median, paired, say, table

PROGRAM = "import os, time; open(f\"{os.environ['BENCH_OUT']}/{os.getpid()}\", 'w').write(repr(time.time()))\n"
PHASES = ("first", "all", "end")
TIMEOUT = 120  # seconds


class Launch:
    """One run of one launcher in a folder of its own."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._home = Path(tempfile.mkdtemp(prefix="launch-", dir=CACHE))
        self._program = self._home / "program.py"
        self._program.write_text(PROGRAM)
        self._out = self._home / "out"
        self._out.mkdir()

    def pliant(self) -> dict[str, float]:
        job = self._home / "job"
        arguments = ["--quiet", "-n", str(self._workers), "--job-dir", str(job), "--", "python", str(self._program)]
        began, taken = self._run([str(Path(sys.executable).with_name("pliant")), "run", *arguments])
        stamps = {"spec": job / "job.yaml", "master": job / "master.json", "agent": job / "nodes/worker-0/agent.json"}
        return {**taken, **{f"at {name}": path.stat().st_mtime - began for name, path in stamps.items()}}

    def torchrun(self) -> dict[str, float]:
        module = [sys.executable, "-m", "torch.distributed.run"]
        return self._run([*module, "--standalone", f"--nproc-per-node={self._workers}", str(self._program)])[1]

    def _run(self, command: list[str]) -> tuple[float, dict[str, float]]:
        began = time.time()
        env = {**os.environ, "BENCH_OUT": str(self._out), "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=env, capture_output=True, timeout=TIMEOUT)
        end = time.time() - began
        lines = sorted(float(path.read_text()) - began for path in self._out.iterdir())
        if len(lines) != self._workers:
            raise RuntimeError(f"{len(lines)} of {self._workers} programs ran: {command}")
        return began, {"first": lines[0], "all": lines[-1], "end": end}

    def close(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 runs: a look, not a measurement")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    parser.add_argument("--rounds", "--runs", dest="runs", type=int, default=0, help="of each launcher [11; quick: 3]")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    runs = options.runs or (3 if options.quick else 11)
    launchers = ["pliant"]
    if importlib.util.find_spec("torch") is not None:
        launchers.append("torchrun")
    else:
        say("torch is not installed here; torchrun is left out")
    CACHE.mkdir(parents=True, exist_ok=True)
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in launchers}
    for turn in range(runs + 1):
        for name in launchers:
            launch = Launch(options.workers)
            try:
                one = getattr(launch, name)()
            finally:
                launch.close()
            say(f"{name}: " + ", ".join(f"{k} {v:.2f} s" for k, v in one.items()))
            if turn:  # the first turn warms the page cache
                for key, value in one.items():
                    taken[name].setdefault(key, []).append(value)
    result: dict[str, Any] = {"machine": machine(), "runs": runs, "workers": options.workers}
    result["seconds"] = {name: {key: median(values) for key, values in found.items()} for name, found in taken.items()}
    ours = result["seconds"]["pliant"]
    peer = taken.get("torchrun", {})
    result["ratios"] = {phase: paired(taken["pliant"][phase], peer[phase]) for phase in PHASES if phase in peer}
    table(
        f"Seconds from the command, {options.workers} workers, median of {runs} (aim: no slower than torchrun)",
        ["", *PHASES],
        [
            *([name, *(f"{found[phase]:.2f}" for phase in PHASES)] for name, found in result["seconds"].items()),
            ["ratio", *(f"{result['ratios'][phase]:.2f}" if peer else "-" for phase in PHASES)],
        ],
    )
    marks = ["at spec", "at master", "at agent", "first"]
    steps = ["command line read, job's folder made", "master serves", "agent is started", "first line of the program"]
    table(
        "Where Pliant's time goes",
        ["until", "at", "took"],
        [
            [step, f"{ours[mark]:.2f}", f"{ours[mark] - (ours[marks[n - 1]] if n else 0):.2f}"]
            for n, (mark, step) in enumerate(zip(marks, steps, strict=True))
        ],
    )
    finish(result, options.json)


if __name__ == "__main__":
    main()
