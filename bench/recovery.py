"""kill -9 one of three workers: how long do the others finish no step, and how many steps are lost?

    python bench/recovery.py [--runs N] [--json]

Pliant beside torchrun (``--max-restarts``), in turn; the killed worker is rank 0 in every second run. Shown are medians.
The stall is the longest time after the kill in which no worker finished a step, less the step's own length. Steps
lost are those that were finished before the kill and had to be done again. Other systems: the figures of a like machine.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from harness import finish, machine, median, say, table
from training import TrainingJob

ELSEWHERE = {  # measured once on a machine like this; seconds, steps
    "torchft 0.2, heartbeat time-out 1 s": (1.07, 1),
    "dlrover-run 0.6.1": (4.7, 30),
    "Ray Train 2.60": (18.5, 30),
}
AIMS = {"torchrun": 1 / 30, "torchft": 1 / 5}


def one_run(system: str, rank: int) -> dict[str, Any]:
    # torchrun's default store hangs now and then after a kill: such a run is counted apart
    with TrainingJob(system, 3, units=6, micro=16, steps=100_000, pause_ms=5) as job:
        job.wait_for_step(45)
        before = job.commits()
        launched = before[0].time - job.began
        steps = [b.time - a.time for a, b in zip(before[-60:], before[-59:], strict=False) if b.pid == a.pid]
        killed_at, pid = job.kill(rank)
        done = max(c.step for c in job.commits() if c.time <= killed_at)
        try:
            job.wait_for(lambda cs: any(c.step > done + 5 and c.time > killed_at for c in cs), "recovery", 60)
        except TimeoutError:
            return {"hung": True, "launch": launched}
        after = sorted(c.time for c in job.commits() if c.pid != pid and c.time > killed_at)
        last = max((c.time for c in job.commits() if c.time <= killed_at), default=killed_at)
        moments = [last, *after]
        stall = max(b - a for a, b in itertools.pairwise(moments)) - median(steps or [0.0])
        again = min((c.step for c in job.commits() if c.time > killed_at and c.pid != pid), default=done)
        return {"hung": False, "stall": max(stall, 0.0), "lost": max(0, done - again), "launch": launched}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {"pliant": [], "torchrun": []}
    for number in range(options.runs):
        for system, runs in results.items():
            runs.append(one_run(system, rank=number % 2))
            say(f"{system}, rank {number % 2} killed: {runs[-1]}")
    good = {system: [r for r in runs if not r["hung"]] for system, runs in results.items()}
    stall = {system: median([r["stall"] for r in runs]) for system, runs in good.items()}
    rows = [
        (
            system,
            f"{median([r['launch'] for r in results[system]]):.1f} s",
            f"{stall[system]:.3f} s",
            f"{median([r['lost'] for r in good[system]]):.0f}",
            f"{len(results[system]) - len(good[system])} of {len(results[system])}",
            f"1/{stall[system] / stall['pliant']:.0f}" if system != "pliant" else "",
        )
        for system in results
    ]
    rows += [
        (name, "", f"{s:.2f} s *", f"{lost}", "", f"1/{s / stall['pliant']:.0f}")
        for name, (s, lost) in ELSEWHERE.items()
    ]
    table(
        "kill -9 of one of three workers", ["system", "launch", "stall", "steps lost", "hung", "Pliant's share"], rows
    )
    say("* not run here: figures of a like machine; aims: 1/30 of torchrun's, 1/5 of torchft's, no step lost")
    finish({"machine": machine(), "runs": results, "stall": stall, "aims": AIMS}, options.json)


if __name__ == "__main__":
    main()
