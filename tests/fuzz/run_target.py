"""One target for some seconds, with a limit of memory: ``python -m tests.fuzz.run_target NAME SECONDS SEED``."""

from __future__ import annotations

import logging
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.driver import Finding, inputs, problem_of
from tests.fuzz.targets import TARGETS

FOUND = Path(".fuzz")
MAX_MEMORY = 12 << 30  # bytes of addresses: torch and Arrow reserve much that they do not use
MAX_FINDINGS = 5  # then it is time to look at them


def fuzz(name: str, seconds: float, seed: int) -> int:
    logging.disable()  # what parsers say about damage
    target = TARGETS[name]()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    last = FOUND / f"{name}-last"
    FOUND.mkdir(exist_ok=True)
    end, count = time.monotonic() + seconds, 0
    seen: set[str] = set()
    for data in inputs(target, seed):
        if time.monotonic() > end or len(seen) >= MAX_FINDINGS:
            break
        last.write_bytes(data)  # if the process dies, this was it
        with TemporaryDirectory() as folder:
            problem = problem_of(target, data, Path(folder))
        count += 1
        lines = problem.splitlines()
        where = str(lines[-1:] + [line for line in lines if "pliant" in line][-1:])
        if problem and where not in seen:
            seen.add(where)
            path = Finding(name, data, problem, seed).save(FOUND)
            print(f"{name}: seed {seed}, input {path}\n{problem}", flush=True)
    last.unlink()
    print(f"{name}: {count} inputs, {len(seen)} findings (seed {seed})", flush=True)
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(fuzz(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
