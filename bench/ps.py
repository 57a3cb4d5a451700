"""Parameter servers over loopback: the wire beside a bare socket, torch.distributed.rpc, gRPC, Arrow Flight, pyzmq; and in jobs.

    python bench/ps.py --only dense                             # 100 MB in one pull or push
    python bench/ps.py --only embedding [--rows 5000000] [--servers 1,2] [--workers 1,4]
    python bench/ps.py --only steps                             # the same rows in a job: log, master's decision, order
    python bench/ps.py --only steps --trace FILE [--servers 1] [--workers 1]   # where a step's time goes, for a browser
    python bench/ps.py --only decisions [--workers 1,256]      # contributions that one master decides
    python bench/ps.py --only deepfm [--workers 1,2,4]          # `pliant train --strategy ps-async`
    python bench/ps.py --only dump                              # training while dumps are taken
    python bench/ps.py --only move                              # training while a server is added
    python bench/ps.py --only large [--dim 8]                   # tables of up to 100 million rows
    python bench/ps.py --only measuring                         # what it costs to know the load of partitions

Without ``--only`` all of them, one after the other. Dense: 100 MB in one pull or push. Embedding: 4096 random ids of a table of 5
million rows of 64 floats. Pliant's figures include the hash table, the optimizer (SGD; the peers subtract, too) and the client's
merging and grouping of ids; the peers index a plain array. ``…_logged`` also has the server's log, which a job's pushes have
and the peers have not. Shown are medians of turns, medians of the ratios within a turn, and the CPU time of servers and
workers together, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import ps_decisions
import ps_jobs
import ps_large
import ps_measuring
import ps_wire
from harness import finish, machine, say

AIMS = {"dense": 0.7, "pull": 3.0, "push": 4.0, "memory": 1.3, "measuring": 0.01}
STEP_AIMS = {
    (1, 1): 1.5,
    (1, 4): 2.0,
    (2, 1): 1.5,
    (2, 4): 2.0,
}  # servers and workers: times torch.rpc's bare pull and push
LOG_FILL = 2.4e9  # bytes of pushes after which a server's log is written over what it had before (two dumps)
PARTS = ("dense", "embedding", "steps", "decisions", "deepfm", "dump", "move", "measuring", "large")


def judge(result: dict[str, Any]) -> list[str]:
    """What misses its aim."""
    missed = []
    for op, found in result.get("dense", {}).items():
        if found["times"]["raw"] < AIMS["dense"] and op in ("dense_pull", "dense_push"):
            missed.append(f"{op}: {found['times']['raw']:.2f} of a bare socket, aim {AIMS['dense']}")
    for op, found in result.get("measuring", {}).items():
        if found["share"] > AIMS["measuring"]:
            missed.append(f"measuring: {found['share']:.2%} of a {op}, aim {AIMS['measuring']:.0%}")
    for (servers, workers), aim in STEP_AIMS.items():
        key = f"{servers} PS, {workers} workers, window 4"
        if (step := result.get("steps", {}).get(key)) and step["times"] < aim:
            missed.append(f"whole steps, {key}: {step['times']:.2f} times torch.rpc, aim {aim}")
    for key, found in result.get("embedding", {}).items():
        if key == "memory":
            if found["allocated"] > AIMS["memory"]:
                missed.append(f"memory: {found['allocated']:.2f} times the floats, aim {AIMS['memory']}")
        elif (aim := AIMS.get(key.split()[0])) and found["times"]["torch"] < aim:
            missed.append(f"{key}: {found['times']['torch']:.2f} times torch.rpc, aim {aim}")
    return missed


def run(part: str, options: argparse.Namespace) -> dict[str, Any]:
    quick = options.quick
    turns = options.repeats or (1 if quick else 5)
    seconds = 0.4 if quick else 0.8
    if part == "dense":
        return ps_wire.dense(turns, seconds)
    if part == "embedding":
        rows = options.rows or (200_000 if quick else 5_000_000)
        servers, workers = (
            options.servers or ((1,) if quick else (1, 2)),
            options.workers or ((1,) if quick else (1, 4)),
        )
        return ps_wire.embedding(turns, seconds, rows, servers, workers, all_peers=options.peers)
    if part == "large":
        sizes = (
            (options.rows,)
            if options.rows
            else (200_000,)
            if quick
            else (12_500_000, 25_000_000, 50_000_000, 100_000_000)
        )
        return ps_large.large(sizes, options.dim, 0.5 if quick else 3)
    rows = options.rows or (50_000 if quick else 1_000_000)
    if part == "measuring":
        return ps_measuring.measuring(rows, 5 if quick else 40)
    if part == "decisions":
        workers = options.workers or ((4,) if quick else (1, 16, 64, 256))
        return ps_decisions.decisions(workers, options.windows or (1, 4, 16), options.seconds or (1 if quick else 4))
    if part == "steps":
        rows, seconds = options.rows or (50_000 if quick else 200_000), 2 if quick else 4
        if options.trace:
            ps_jobs.trace(rows, 3, (options.servers or (1,))[0], (options.workers or (1,))[0], options.trace)
            return {}
        servers, workers = options.servers or (1, 2), options.workers or (1, 4)
        windows, fill = options.windows or (1, 4), 0.0 if quick else LOG_FILL
        return ps_jobs.whole(rows, turns, options.seconds or seconds, servers, workers, windows, fill)
    if part == "deepfm":
        return ps_jobs.deepfm(20_000 if quick else 150_000, 512, options.workers or ((1, 2) if quick else (1, 2, 4)))
    return (ps_jobs.dump if part == "dump" else ps_jobs.move)(rows, 6 if quick else 24 if part == "dump" else 10)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again")
    parser.add_argument("--quick", action="store_true", help="small and short: does it run?")
    parser.add_argument(
        "--rounds", "--repeats", dest="repeats", type=int, default=0, help="turns of each system (5; quick: 1)"
    )
    parser.add_argument("--rows", type=int, default=0, help="rows of the table")
    parser.add_argument(
        "--servers", type=_numbers, default=(), help="embedding, steps: numbers of servers, such as 1,2"
    )
    parser.add_argument(
        "--workers", type=_numbers, default=(), help="embedding, steps, deepfm: numbers of workers, such as 1,4"
    )
    parser.add_argument("--peers", action="store_true", help="embedding: bare sockets, Arrow Flight and pyzmq, too")
    parser.add_argument("--windows", type=_numbers, default=(), help="steps: undecided pushes of a worker, such as 1,4")
    parser.add_argument("--seconds", type=float, default=0.0, help="steps: of each measurement")
    parser.add_argument("--trace", type=Path, help="steps: write a timeline of one job to this file instead")
    parser.add_argument("--dim", type=int, default=8, help="large: floats of a row [8]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine()}
    for part in options.only or PARTS:
        say(f"part: {part}")
        result[part] = run(part, options)
    result["missed"] = judge(result)
    finish(result, options.json)


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, AssertionError, subprocess.SubprocessError) as error:
        sys.exit(f"bench: {error}")
