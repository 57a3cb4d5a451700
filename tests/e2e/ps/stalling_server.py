"""A parameter server that spends some seconds in one update, or (``inf``) deadlocks there, if it is the first of the job that
reaches it. ``FOLDER/stuck`` names it.

Usage: ``stalling_server.py FOLDER ITERATION SECONDS``.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pliant.core.parameters.orders import Contribution
from pliant.ps.payloads import Applied
from pliant.ps.recovery import restore as restoring
from pliant.ps.server.process import main
from pliant.ps.store.store import ParameterStore

STUCK, ITERATION, SECONDS = Path(sys.argv[1]) / "stuck", int(sys.argv[2]), float(sys.argv[3])


def stay() -> None:
    if math.isinf(SECONDS):
        lock = threading.Lock()
        with lock, lock:
            raise AssertionError("no lock can be had twice")
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:  # as something that works, with pauses
        time.sleep(0.05)


class Still(ParameterStore):
    def apply(
        self, contributions: Sequence[Contribution], scale: float, iteration: int, factors: Sequence[float] = ()
    ) -> Applied:
        with contextlib.suppress(FileExistsError):
            if iteration >= ITERATION:
                with STUCK.open("x") as file:
                    file.write(os.environ["PLIANT_NODE"])
                with self._locks.state.writing:
                    stay()
        return super().apply(contributions, scale, iteration, factors)


vars(restoring).update(ParameterStore=Still)
main()
