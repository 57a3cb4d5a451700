"""kill -9 one of three workers: how long do the others finish no step, and how many steps are lost?

    python bench/recovery.py [--quick] [--rounds N] [--peers torchft,dlrover,ray|none] [--json]

Pliant beside torchrun (``--max-restarts``) and the peers, in turn; the killed worker is rank 0 in every second run. Shown
are medians. The stall is the longest time after the kill in which no worker finished a step, less the step's own length.
Steps lost are those that were finished before the kill and had to be done again. A peer that does not install or does not
start is shown with the figures of a like machine.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

from harness import finish, machine, median, say, table
from systems import SYSTEMS
from training import TrainingJob

ELSEWHERE = {"torchft": (1.07, 1), "dlrover": (4.7, 30), "ray": (18.5, 30)}  # on a machine like this; seconds, steps
AIMS = {"torchrun": 1 / 30, "torchft": 1 / 5}
HUNG_AFTER_S = defaultdict(lambda: 30.0, dict.fromkeys(("ray", "ray-train", "ray-train-elastic", "dlrover"), 90.0))
SHAPE = {"units": 6, "micro": 16, "steps": 100_000, "pause_ms": 5}

Run = dict[str, Any]


def one_run(system: str, python: Path, rank: int) -> Run:
    # torchrun's default store hangs now and then after a kill: such a run is counted apart
    with TrainingJob(system, 3, python, **SHAPE) as job:
        job.wait_for_step(45, timeout=240)
        before = job.commits()
        launched = before[0].time - job.began
        steps = [b.time - a.time for a, b in zip(before[-60:], before[-59:], strict=False) if b.pid == a.pid]
        killed_at, pid = job.kill(rank)
        done = max(c.step for c in job.commits() if c.time <= killed_at)
        try:
            job.wait_for(
                lambda cs: any(c.step > done + 5 and c.time > killed_at for c in cs), "recovery", HUNG_AFTER_S[system]
            )
        except TimeoutError:
            return {"hung": True, "launch": launched}
        after = sorted(c.time for c in job.commits() if c.pid != pid and c.time > killed_at)
        last = max((c.time for c in job.commits() if c.time <= killed_at), default=killed_at)
        moments = [last, *after]
        stall = max(b - a for a, b in itertools.pairwise(moments)) - median(steps or [0.0])
        again = min((c.step for c in job.commits() if c.time > killed_at and c.pid != pid), default=done)
        return {"hung": False, "stall": max(stall, 0.0), "lost": max(0, done - again), "launch": launched}


def installed(wanted: list[str]) -> dict[str, Path]:
    """The Python of each system that is here, in the order in which they take turns."""
    found = {}
    for name in ("pliant", "torchrun", *wanted):
        peer = SYSTEMS[name].install()
        if peer.python is None:
            say(f"{SYSTEMS[name].title} is not run: {peer.reason}; shown are figures of a like machine")
        else:
            found[name] = peer.python
    return found


def measure(pythons: dict[str, Path], runs: int) -> dict[str, list[Run]]:
    """All systems in turn. A peer whose job does not train is left out from then on; Pliant and torchrun must train."""
    results: dict[str, list[Run]] = {}
    turn = list(pythons)
    for rank in itertools.islice(itertools.cycle((0, 1)), runs):
        for system in list(turn):
            try:
                run = one_run(system, pythons[system], rank)
            except TimeoutError as error:
                if system not in ELSEWHERE:
                    raise
                turn.remove(system)
                say(f"{SYSTEMS[system].title} is run no more: {error}")
            else:
                results.setdefault(system, []).append(run)
                say(f"{system}, rank {rank} killed: {run}")
    return results


def chosen(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    if unknown := set(names) - set(ELSEWHERE):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {', '.join(ELSEWHERE)}, none")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", "--runs", dest="runs", type=int, default=0, help="[6; quick: 1]")
    parser.add_argument("--quick", action="store_true", help="one run, without peers that have to be installed")
    parser.add_argument("--peers", type=chosen, default=list(ELSEWHERE), help="which to run [all that install]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.runs = options.runs or (1 if options.quick else 6)
    options.peers = [] if options.quick else options.peers
    results = measure(installed(options.peers), options.runs)
    good = {system: [r for r in runs if not r["hung"]] for system, runs in results.items()}
    stall = {system: median([r["stall"] for r in runs]) for system, runs in good.items()}
    rows = [
        (
            SYSTEMS[system].title,
            f"{median([r['launch'] for r in runs]):.1f} s",
            f"{stall[system]:.3f} s" if good[system] else "-",
            f"{median([r['lost'] for r in good[system]]):.0f}" if good[system] else "-",
            f"{len(runs) - len(good[system])} of {len(runs)}",
            f"1/{stall[system] / stall['pliant']:.0f}" if system != "pliant" and good[system] else "",
        )
        for system, runs in results.items()
    ]
    quoted = {name: figures for name, figures in ELSEWHERE.items() if name not in results}
    rows += [
        (SYSTEMS[name].title, "", f"{seconds:.2f} s *", f"{lost}", "", f"1/{seconds / stall['pliant']:.0f}")
        for name, (seconds, lost) in quoted.items()
    ]
    table(
        "kill -9 of one of three workers", ["system", "launch", "stall", "steps lost", "hung", "Pliant's share"], rows
    )
    say("* not run here: figures of a like machine; aims: 1/30 of torchrun's, 1/5 of torchft's, no step lost")
    result = {"machine": machine(), "runs": results, "stall": stall, "quoted": quoted, "aims": AIMS}
    finish(result, options.json)


if __name__ == "__main__":
    main()
