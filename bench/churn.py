"""A worker is killed (and replaced) every 20 seconds for five minutes: what is left of the speed?

    python bench/churn.py [--quick] [--rounds N] [--minutes M] [--every S] [--systems NAMES] [--json]

Three workers. Useful steps per second under churn relative to the same system without faults: Pliant with and without a warm
standby beside each worker, torchft, and torchrun (with a checkpoint every 30 steps, from which it goes on). A step counts once,
however often it was done.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from harness import finish, machine, median, options_of, parsed, say, table
from systems import SYSTEMS
from training import TrainingJob

TURN = ("pliant-warm", "pliant", "torchft", "torchrun")
SHAPE = {"units": 6, "micro": 16, "pause_ms": 20}  # waiting, as for a device: two cores cannot show compute of three


def useful_steps(system: str, python: Path, seconds: float, every: float | None) -> float:
    """Steps per second, from the first step of all workers on."""
    dice = random.Random(7)
    with TrainingJob(system, 3, python, **SHAPE, steps=10_000_000) as job:
        job.wait_for_step(3)
        began, first = time.time(), max(c.step for c in job.commits())
        shot = began
        while (now := time.time()) < began + seconds:
            if every is not None and now >= shot + every:
                shot = now
                ranks = sorted(job.pids_by_rank())
                try:
                    job.kill(dice.choice(ranks))
                except ProcessLookupError:
                    continue
            time.sleep(0.2)
            if job.ended():
                say(f"{system} ended by itself after {now - began:.0f} s")
                break
        return (max(c.step for c in job.commits()) - first) / (time.time() - began)


def main() -> None:
    parser = options_of(__doc__, rounds=1)
    parser.add_argument("--minutes", type=float, default=0.0, help="of churn in each round [5; quick: 0.25]")
    parser.add_argument("--every", type=float, default=0.0, help="seconds between two kills [20; quick: 5]")
    parser.add_argument("--systems", type=lambda text: text.split(","), help=f"[{','.join(TURN)}; quick: {TURN[0]}]")
    options = parsed(parser)
    options.minutes = options.minutes or (0.25 if options.quick else 5.0)
    options.every = options.every or (5.0 if options.quick else 20.0)
    pythons: dict[str, Path] = {}
    for system in options.systems or (TURN[:1] if options.quick else TURN):
        peer = SYSTEMS[system].install()
        if peer.python is None:
            say(f"{SYSTEMS[system].title} is not run: {peer.reason}")
        else:
            pythons[system] = peer.python
    taken: dict[str, list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for system, python in pythons.items():
            quiet = useful_steps(system, python, options.minutes * 60 / 5, None)
            churn = useful_steps(system, python, options.minutes * 60, options.every)
            taken.setdefault(system, []).append({"quiet": quiet, "churn": churn, "share": churn / quiet})
            say(f"{system}: {taken[system][-1]}")
    rates = {
        system: {key: median([run[key] for run in runs]) for key in ("quiet", "churn", "share")}
        for system, runs in taken.items()
    }
    rows = [
        (SYSTEMS[s].title, f"{r['quiet']:.2f}", f"{r['churn']:.2f}", f"{100 * r['share']:.1f} %")
        for s, r in rates.items()
    ]
    title = f"useful steps per second, one of three workers killed every {options.every:.0f} s"
    table(title, ["system", "no faults", "churn", "share (aim: 95 %)"], rows)
    finish({"machine": machine(), "rates": rates, "all": taken, "aim": 0.95}, options.json)


if __name__ == "__main__":
    main()
