"""Step time without faults: Pliant's Trainer beside plain DDP, a model of ten million parameters.

    python bench/overhead.py [--rounds N] [--quick] [--case 2x2 | 2x8 | 2x7 | 3x7 | measuring]... [--alternating] [--json]

A case is WORKERSxUNITS. All systems train the same model on the same records, one thread per process, as many micro-batches
per step as there are units (DDP accumulates its gradients without communication, but for the last one); in turn, medians.
Pliant runs as it is (by shared memory), and over sockets. Memory is that of a worker, shared pages divided among those who
share them.

With ``--alternating`` all of them take turns step by step in the same processes, without the Trainer around them: what slows the
machine for a while slows all, so that ratios of a busy machine can be believed more.

Measuring: what it costs a program to count where its time goes (``files/time_meter.py``). Every other step of one run is not
measured, on all workers, and neighbouring steps are compared; beside it what the calls of one step cost by themselves.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import finish, machine, median, options_of, paired, parsed, say, table
from training import TrainingJob

from pliant.files.time_meter import MeterPage, TimeMeter

SHAPE = {"width": 1800, "layers": 4, "micro": 64}  # 10 M parameters
WARM, MEASURED = 10, 40  # steps of two micro-batches
CASES = {"2x2": (2, 2), "2x8": (2, 8), "2x7": (2, 7), "3x7": (3, 7)}  # workers, units
ALTERNATING = Path(__file__).resolve().parent / "clients" / "alternating_steps.py"
DDP = "plain DDP"
KINDS: dict[str, tuple[str, dict[str, int]]] = {
    DDP: ("torchrun", {}),
    "Pliant": ("pliant", {}),
    "Pliant, sockets": ("pliant", {"shared": 0}),
}
AIMS = {"2x2": (0.90, 1.10), "2x8": (None, 1.10), "2x7": (None, 1.30), "3x7": (None, 1.30)}  # by memory, by sockets


def step_times(system: str, workers: int = 2, units: int = 2, **more: int) -> tuple[list[float], float]:
    """Seconds of each step, and the memory of a worker in MB."""
    warm, measured = max(4, WARM * 2 // units), max(12, MEASURED * 2 // units)
    with TrainingJob(system, workers, **SHAPE, units=units, steps=warm + measured + 2, **more) as job:
        job.wait_for_step(warm + measured - 1)
        commits = job.commits()
        memory = median([_pss_mb(pid) for pid in {c.pid for c in commits}])
    pid = commits[0].pid
    times = [c.time for c in commits if c.pid == pid and c.step >= warm]
    return [b - a for a, b in itertools.pairwise(times)], memory


def _pss_mb(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:  # it has ended
        pass
    return float("nan")


def measuring(rounds: int) -> dict[str, float]:
    """Ratios of neighbouring steps with and without the meter, and the cost of its calls as a share of a step."""
    ratios, steps = [], []
    for _ in range(rounds):
        times, _ = step_times(
            "pliant", meter_every_other=1
        )  # the first is that of step WARM + 1, which is not measured
        without, measured = times[0::2], times[1::2]
        ratios += [b / a for a, b in zip(without, measured, strict=False)]
        steps += times
        say(f"measured: {median(measured) * 1000:.1f} ms a step, not measured: {median(without) * 1000:.1f} ms")
    calls = cost_of_calls()
    share = calls / median(steps)
    rows = [
        ("ratio of neighbouring steps", f"{median(ratios):.4f}"),
        ("calls of one step", f"{calls * 1e6:.1f} us"),
        ("their share of a step", f"{share:.5%}"),
    ]
    table("measuring, 2 workers, 10 M parameters", ["", "cost"], rows)
    return {"ratio": median(ratios), "calls": calls, "share": share}


def cost_of_calls() -> float:
    """CPU seconds of what a worker counts in one step of one unit: a wait for data, a wait for peers, the unit."""
    page = MeterPage()
    meter, rounds = TimeMeter(page.path), 1000
    found: list[float] = []
    for _ in range(50):
        began = time.process_time()
        for _ in range(rounds):
            with meter.data:
                pass
            with meter.peers:
                pass
            meter.unit(0.0)
        found.append((time.process_time() - began) / rounds)
    return median(found)


def main() -> None:
    parser = options_of(__doc__, rounds=5)
    parser.add_argument("--case", action="append", choices=[*CASES, "measuring"], help="only this one; may be repeated")
    parser.add_argument("--alternating", action="store_true", help="take turns step by step, in the same processes")
    options = parsed(parser)
    cases = options.case or (
        [*CASES][:1] if options.quick else [*CASES, *([] if options.alternating else ["measuring"])]
    )
    compare_case = alternate if options.alternating else compare
    result: dict[str, Any] = {"machine": machine(), "aims": {**AIMS, "measuring": 0.01}}
    for case in cases:
        result[case] = measuring(options.rounds) if case == "measuring" else compare_case(case, options.rounds)
    finish(result, options.json)


def compare(case: str, rounds: int) -> dict[str, Any]:
    workers, units = CASES[case]
    seconds: dict[str, list[float]] = {name: [] for name in KINDS}
    memory: dict[str, list[float]] = {name: [] for name in KINDS}
    for _ in range(rounds):
        for name, (system, more) in KINDS.items():
            times, used = step_times(system, workers, units, **more)
            seconds[name].append(median(times))
            memory[name].append(used)
            say(f"{case}, {name}: {seconds[name][-1] * 1000:.1f} ms a step, {used:.0f} MB")
    ratios = {name: paired(values, seconds[DDP]) for name, values in seconds.items()}
    rows = [
        (name, f"{median(seconds[name]) * 1000:.1f} ms", f"{ratios[name]:.3f}", f"{median(memory[name]):.0f} MB")
        for name in KINDS
    ]
    title = f"step time, {workers} workers, {units} units, 10 M parameters, no faults"
    table(title, ["", "median", "ratio to DDP", "memory"], rows)
    return {"seconds": seconds, "ratios": ratios, "memory_mb": memory}


def alternate(case: str, rounds: int) -> dict[str, Any]:
    workers, units = CASES[case]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "BENCH_UNITS": str(units), "BENCH_STEPS": str(max(8, 40 // units))}
    env |= {f"BENCH_{name.upper()}": str(value) for name, value in SHAPE.items()}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    made: list[dict[str, Any]] = []
    for _ in range(rounds):
        done = subprocess.run([*launcher, str(ALTERNATING)], env=env, capture_output=True, text=True, check=True)
        made.append(json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{"))))
        say(f"{case}: {', '.join(f'{name} {ratio:.3f}' for name, ratio in made[-1]['ratios'].items())}")
    seconds = {name: [t for one in made for t in one["seconds"][name]] for name in KINDS}
    ratios = {name: median([one["ratios"][name] for one in made]) for name in KINDS}
    rows = [(name, f"{median(seconds[name]) * 1000:.1f} ms", f"{ratios[name]:.3f}") for name in KINDS]
    table(f"alternating steps, {workers} workers, {units} units", ["", "median", "ratio to DDP"], rows)
    return {"seconds": seconds, "ratios": ratios, "by_round": [one["ratios"] for one in made]}


if __name__ == "__main__":
    main()
