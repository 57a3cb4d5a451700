"""Step time without faults: Pliant's Trainer beside plain DDP, two workers, a model of ten million parameters.

    python bench/overhead.py [--rounds N] [--only steps | measuring] [--json]

Both train the same model on the same records, one micro-batch per worker and step, one thread per process; in turn, medians.

Measuring: what it costs a program to count where its time goes (``files/time_meter.py``). Every other step of one run is not
measured, on all workers, and neighbouring steps are compared; beside it what the calls of one step cost by themselves.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

from harness import finish, machine, median, say, table
from training import TrainingJob

from pliant.files.time_meter import MeterPage, TimeMeter

SHAPE = {"width": 1800, "layers": 4, "micro": 64, "units": 2}  # 10 M parameters
WARM, MEASURED = 10, 40  # steps


def step_times(system: str, **more: int) -> list[float]:
    with TrainingJob(system, 2, **SHAPE, steps=WARM + MEASURED, **more) as job:
        job.wait_for_step(WARM + MEASURED - 1)
        commits = job.commits()
    pid = commits[0].pid
    times = [c.time for c in commits if c.pid == pid and c.step >= WARM]
    return [b - a for a, b in itertools.pairwise(times)]


def measuring(rounds: int) -> dict[str, float]:
    """Ratios of neighbouring steps with and without the meter, and the cost of its calls as a share of a step."""
    ratios, steps = [], []
    for _ in range(rounds):
        times = step_times("pliant", meter_every_other=1)  # the first is that of step WARM + 1, which is not measured
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=("steps", "measuring"), help="this part")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "aims": {"steps": 1.03, "measuring": 0.01}}
    if options.only != "measuring":
        result["seconds"] = compare(options.rounds)
    if options.only != "steps":
        result["measuring"] = measuring(options.rounds)
    finish(result, options.json)


def compare(rounds: int) -> dict[str, list[float]]:
    kinds: dict[str, tuple[str, dict[str, int]]] = {
        "plain DDP": ("torchrun", {}),
        "Pliant": ("pliant", {}),
        "Pliant, deterministic": ("pliant", {"exact": 1}),
    }
    medians: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, (system, more) in kinds.items():
            medians[name].append(median(step_times(system, **more)))
            say(f"{name}: {medians[name][-1] * 1000:.1f} ms a step")
    base = median(medians["plain DDP"])
    rows = [
        (name, f"{median(values) * 1000:.1f} ms", f"{median(values) / base:.3f}") for name, values in medians.items()
    ]
    table("step time, 2 workers, 10 M parameters, no faults", ["", "median", "ratio to DDP"], rows)
    return medians


if __name__ == "__main__":
    main()
