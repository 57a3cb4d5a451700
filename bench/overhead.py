"""Step time without faults: Pliant's Trainer beside plain DDP, two workers, a model of ten million parameters.

    python bench/overhead.py [--rounds N] [--json]

Both train the same model on the same records, one micro-batch per worker and step, one thread per process; in turn, medians.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from harness import finish, machine, median, say, table
from training import TrainingJob

SHAPE = {"width": 1800, "layers": 4, "micro": 64, "units": 2}  # 10 M parameters
WARM, MEASURED = 10, 40  # steps


def step_times(system: str, **more: int) -> list[float]:
    with TrainingJob(system, 2, **SHAPE, steps=WARM + MEASURED, **more) as job:
        job.wait_for_step(WARM + MEASURED - 1)
        commits = job.commits()
    pid = commits[0].pid
    times = [c.time for c in commits if c.pid == pid and c.step >= WARM]
    return [b - a for a, b in itertools.pairwise(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds: dict[str, tuple[str, dict[str, int]]] = {
        "plain DDP": ("torchrun", {}),
        "Pliant": ("pliant", {}),
        "Pliant, deterministic": ("pliant", {"exact": 1}),
    }
    medians: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, (system, more) in kinds.items():
            medians[name].append(median(step_times(system, **more)))
            say(f"{name}: {medians[name][-1] * 1000:.1f} ms a step")
    base = median(medians["plain DDP"])
    rows = [
        (name, f"{median(values) * 1000:.1f} ms", f"{median(values) / base:.3f}") for name, values in medians.items()
    ]
    table("step time, 2 workers, 10 M parameters, no faults", ["", "median", "ratio to DDP"], rows)
    result: dict[str, Any] = {"machine": machine(), "seconds": medians, "aim": 1.03}
    finish(result, options.json)


if __name__ == "__main__":
    main()
