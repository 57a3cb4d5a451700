"""``make fuzz``: each target in a process of its own, two at a time, for a minute.

    python -m tests.fuzz [--seconds 60] [--seed N] [target ...]

An input that breaks the property is saved in ``.fuzz/`` and its path printed; move it to ``tests/fuzz/corpus/<target>/`` with the
fix. A crash of the process (a library in C) leaves its last input there too.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.fuzz.run_target import FOUND
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of {', '.join(TARGETS)}; all by default")
    given = parser.parse_args()
    if unknown := [name for name in given.targets if name not in TARGETS]:
        parser.error(f"unknown target {unknown[0]}; known: {', '.join(TARGETS)}")

    def run(name: str) -> bool:
        command = [sys.executable, "-m", "tests.fuzz.run_target", name, str(given.seconds), str(given.seed)]
        code = subprocess.run(command, check=False).returncode
        if code not in (0, 1):
            print(f"{name}: seed {given.seed}, died with exit code {code}, input {FOUND / f'{name}-last'}", flush=True)
        return code == 0

    names = given.targets or list(TARGETS)
    with ThreadPoolExecutor(2) as pool:
        failed = [name for name, good in zip(names, pool.map(run, names), strict=True) if not good]
    print(f"findings in: {', '.join(failed)}" if failed else "no findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
