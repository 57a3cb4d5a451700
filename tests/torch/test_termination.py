"""What a program does between the notice and the end of its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from pliant.torch.termination import EXIT_CODE

LIGHT = Path(__file__).parents[1] / "light"
HEAD = """
import atexit, os, signal, sys, threading
atexit.register(lambda: print("registered before us", flush=True))
from pliant.torch import termination
from pliant.torch.termination import TerminationNotice
notice = TerminationNotice(on_exit=lambda: print("last call", flush=True))
notice.install()
"""


def run(body: str) -> tuple[int, list[str]]:
    path = os.pathsep.join(filter(None, (str(LIGHT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", HEAD + body],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout.split("\n")[:-1]


def test_a_held_notice_unwinds_the_program_and_ends_its_process_without_tearing_libraries_down() -> None:
    code, lines = run(
        """
atexit.register(lambda: print("exit handler"))
notice.hold()
os.kill(os.getpid(), signal.SIGTERM)
print("step done")
notice.release()
try:
    notice.exit_if_given()
    print("after the loop")
finally:
    print("finally")
"""
    )
    assert code == EXIT_CODE == 128 + signal.SIGTERM
    assert lines == ["step done", "finally", "exit handler", "last call"]


def test_whatever_blocks_at_the_end_of_the_program_does_not_keep_its_process() -> None:
    code, lines = run(
        """
termination.EXIT_TIMEOUT_S = 0.2
threading.Thread(target=threading.Event().wait).start()  # not a daemon: the interpreter waits for it
print("ready")
os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
"""
    )
    assert (code, lines) == (EXIT_CODE, ["ready"])


def test_a_program_that_ends_by_itself_ends_as_ever() -> None:
    assert run("notice.hold(); notice.release(); notice.exit_if_given(); sys.exit(3)") == (3, ["registered before us"])
