"""One server for all workers of a test run, up for as long as any of them lives.

Whoever uses the server holds a shared ``flock`` on FOLDER/FAMILY.users; the supervisor waits for an exclusive one, which it gets
when the last user is gone, however it went. Then it takes the server down with everything it wrote, and ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]


def supervise(family: str, folder: Path) -> None:
    from tools.databases.servers import make_server

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = make_server(family)
    try:
        server.start()
        facts = {"url": server.url("DATABASE"), "folder": str(server.folder)}
        (folder / f"{family}.json").write_text(json.dumps(facts))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        with (folder / f"{family}.users").open("ab") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            (folder / f"{family}.json").unlink()
            server.stop()
    finally:
        server.stop()


@contextmanager
def shared_server(family: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The facts of the server that the users of this folder share; started if there is none."""
    with (folder / f"{family}.users").open("ab") as users, (folder / f"{family}.start").open("ab") as start:
        fcntl.flock(start, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)  # waits for a supervisor that is taking its server down
        facts = folder / f"{family}.json"
        if not facts.exists():
            _start_supervisor(family, folder)
        found = json.loads(facts.read_text())
        fcntl.flock(start, fcntl.LOCK_UN)
        yield found


def _start_supervisor(family: str, folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.databases.supervisor", family, str(folder)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for pytest
    )
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdout.readline() != b"ready\n":
        raise RuntimeError(f"{family} did not start:\n{process.stderr.read().decode(errors='replace')[-3000:]}")


if __name__ == "__main__":
    supervise(sys.argv[1], Path(sys.argv[2]))
