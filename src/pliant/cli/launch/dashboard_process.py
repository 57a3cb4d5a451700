"""The dashboard of a job that is followed in a terminal: a process of its own, which ends with the command, however that ends.

It ends when the pipe that is its standard input closes, so nothing is left of it if the command is killed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from pliant.core.errors import InvalidRequest, NotAvailable
from pliant.master.job_dir import JobDir

END_TIMEOUT_S = 5.0


def check_dashboard(*, is_detached: bool, is_resumed: bool, platform: str) -> None:
    """Raise for what ``--dashboard`` cannot be combined with."""
    if platform == "kubernetes":
        raise InvalidRequest("--dashboard is for jobs of this machine", hint="use `pliant dashboard NAME -N NAMESPACE`")
    if is_detached or is_resumed:
        option = "--detach" if is_detached else "--resume"
        raise InvalidRequest(f"--dashboard and {option} are mutually exclusive", hint="use `pliant dashboard NAME`")
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise NotAvailable(
                f"the dashboard needs a package that is not installed: {package}",
                hint="pip install 'pliant[dashboard]'",
            )


@contextlib.contextmanager
def dashboard_beside(home: JobDir) -> Iterator[None]:
    """Its messages, with the link, go to the standard error: the standard output is the job's."""
    command = [sys.executable, "-m", "pliant.cli", "dashboard", "--job-dir", str(home.path), "--until-stdin-closes"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr, start_new_session=True)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
