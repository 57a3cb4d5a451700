"""A worker joins two others: how long do they finish no step?

    python bench/join.py [--quick] [--rounds N] [--json]

A job of three loses one worker, and its successor joins. Imports and the building of the model happen before it asks to be
let in, so the others should stop for less than a step and the time to move the state. Beside it: the length of a step, and
the time to copy the state over a loopback socket, measured in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import threading
import time

from harness import finish, machine, median, say, table
from training import TrainingJob

SHAPE = {"width": 1800, "layers": 4, "micro": 32, "units": 6}
PARAMETERS = 64 * 1800 + 3 * 1800 * 1800 + 1800 * 10 + 1800 * 4 + 10


def one_run() -> tuple[float, float]:
    """(stall, length of a step), in seconds."""
    with TrainingJob("pliant", 3, **SHAPE, steps=100_000) as job:
        job.wait_for_step(8)
        _, pid = job.kill(2)
        job.wait_for(lambda cs: len({c.pid for c in cs if c.world == 3 and c.pid != pid}) >= 3, "the join", 120)
        grown = max(c.step for c in job.commits()) + 5
        job.wait_for_step(grown)
        commits = [c for c in job.commits() if c.pid == job.pids_by_rank()[0]]
        at = next(i for i, (a, b) in enumerate(itertools.pairwise(commits)) if a.world == 2 and b.world == 3)
        gaps = [b.time - a.time for a, b in itertools.pairwise(commits)]
        usual = median(gaps[max(0, at - 6) : at] + gaps[at + 2 : at + 7])
        return max(0.0, gaps[at] - usual), usual


def loopback_seconds(size: int) -> float:
    """To send so many bytes through a socket on this machine."""
    server = socket.create_server(("127.0.0.1", 0))
    buffer = bytearray(size)

    def receive() -> None:
        connection, _ = server.accept()
        view = memoryview(buffer)
        while view:
            view = view[connection.recv_into(view) :]
        connection.sendall(b"x")

    thread = threading.Thread(target=receive)
    thread.start()
    with socket.create_connection(server.getsockname()) as client:
        began = time.perf_counter()
        client.sendall(bytes(size))
        client.recv(1)
        taken = time.perf_counter() - began
    thread.join()
    server.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", "--runs", dest="runs", type=int, default=0, help="[5; quick: 1]")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.runs = options.runs or (1 if options.quick else 5)
    runs = []
    for _ in range(options.runs):
        runs.append(one_run())
        say(f"stall {runs[-1][0]:.3f} s, step {runs[-1][1]:.3f} s")
    stall, step = median([r[0] for r in runs]), median([r[1] for r in runs])
    move = median([loopback_seconds(4 * PARAMETERS) for _ in range(5)])
    table(
        "a worker joins two others",
        ["", "seconds"],
        [
            ("stall of the others", f"{stall:.3f}"),
            ("a step", f"{step:.3f}"),
            (f"{4 * PARAMETERS >> 20} MB of state through a socket", f"{move:.3f}"),
            ("stall / (step + move); aim: below 1", f"{stall / (step + move):.2f}"),
        ],
    )
    result = {"machine": machine(), "runs": runs, "stall": stall, "step": step, "move": move}
    finish(result, options.json)


if __name__ == "__main__":
    main()
