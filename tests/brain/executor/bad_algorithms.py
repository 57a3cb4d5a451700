"""Algorithms that do what algorithms should not, and some that are only unusual. Real code, run by real processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

from pliant.core.planning.history import JobHistory
from pliant.core.planning.proposal import Prediction, Proposal

_hoard: list[Any] = []


def named(name: str) -> str:
    return f"{__name__}:{name}"


def one_more(history: JobHistory, reason: str = "one more worker") -> Proposal:
    worker = history.configuration.worker
    new = replace(history.configuration, worker=replace(worker, replicas=worker.replicas + 1))
    return Proposal("whatever", reason, new, Prediction(10.0, 9.0, 11.0))


@dataclass
class Good:
    name: str = "good"

    def __call__(self, history: JobHistory, now: float) -> Any:
        return one_more(history)


class SaysItsPid(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        return one_more(history, str(os.getpid()))


class SaysItsPidToo(SaysItsPid): ...


class SaysItsEnvironment(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        return one_more(history, " ".join(sorted(os.environ)))


class SeesNothing(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        return None


class Sleeps(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        if history.pending:
            Path(history.pending[0]).touch()
        while True:
            time.sleep(1000)


class Spins(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        while True:
            pass


class SleepsInC(Good):
    """Holds the GIL: no Python code of its process runs."""

    def __call__(self, history: JobHistory, now: float) -> Any:
        ctypes.PyDLL(None).sleep(1000)


class IgnoresSignals(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1000)


class TakesTenGigabytes(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        return bytearray(10 << 30)


class TakesMoreAndMore(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        parts = []
        while True:
            parts.append(bytearray(64 << 20))


class Hoards(Good):
    """Fine at first."""

    def __call__(self, history: JobHistory, now: float) -> Any:
        _hoard.append(bytearray(200 << 20))


class Exits(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        print("this is", "the end", flush=True)
        os._exit(3)


class Crashes(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


class ClosesEverything(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        os.closerange(0, 100)


class Raises(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        raise ValueError("a bad\nday")


class RaisesSometimes(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        if history.pending:
            raise ValueError("no pending nodes, please")


class CannotSayWhatItRaises(Good):
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    def __call__(self, history: JobHistory, now: float) -> Any:
        raise self.Odd


class RaisesSystemExit(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        sys.exit(0)


class RaisesKeyboardInterrupt(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        raise KeyboardInterrupt


class Recurses(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        return self(history, now)


class CannotBeMade(Good):
    def __init__(self) -> None:
        raise OSError("no licence")


class Prints(Good):
    """Ten megabytes, by Python and by the descriptors."""

    def __call__(self, history: JobHistory, now: float) -> Any:
        for _ in range(100):
            print('{"result": "proposed"}' * 2500)
            os.write(2, b"\0\0\0\1{}" * 8000)
        return one_more(history)


class WritesIntoEverything(Good):
    def __call__(self, history: JobHistory, now: float) -> Any:
        for descriptor in range(3, 64):
            with suppress(OSError):
                os.write(descriptor, b"\0\0\0\2{}" * 10)


class Forks(Good):
    """Both copies return from here."""

    def __call__(self, history: JobHistory, now: float) -> Any:
        os.fork()
        return one_more(history)


class LeavesAProcess(Good):
    """In a session of its own."""

    def __call__(self, history: JobHistory, now: float) -> Any:
        code = "import time\nwhile True: time.sleep(1000)"
        started = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
        return one_more(history, str(started.pid))


class LeavesAProcessAndDies(LeavesAProcess):
    def __call__(self, history: JobHistory, now: float) -> Any:
        Path(history.pending[0]).write_text(super().__call__(history, now).reason)
        os._exit(0)


class LeavesAThread(SaysItsPid):
    def __call__(self, history: JobHistory, now: float) -> Any:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return super().__call__(history, now)


def returning(make: Callable[[JobHistory], Any]) -> type[Good]:
    class Returns(Good):
        def __call__(self, history: JobHistory, now: float) -> Any:
            return make(history)

    return Returns


def _with_worker(history: JobHistory, **changed: Any) -> Proposal:
    new = replace(history.configuration, worker=replace(history.configuration.worker, **changed))
    return replace(one_more(history), configuration=new)


def _endless(history: JobHistory) -> Proposal:
    circle: list[Any] = []
    circle.append(circle)
    return replace(one_more(history), replace=circle)  # type: ignore[arg-type]


ReturnsText = returning(lambda history: "8 workers")
ReturnsTrue = returning(lambda history: True)
ReturnsTooMany = returning(lambda history: _with_worker(history, replicas=10**6))
ReturnsGpus = returning(lambda history: _with_worker(history, gpu=8))
ReturnsNan = returning(lambda history: replace(one_more(history), prediction=Prediction(nan, nan, nan)))
ReturnsNoReason = returning(lambda history: replace(one_more(history), reason=""))
ReturnsAMegabyte = returning(lambda history: replace(one_more(history), replace=("worker-0",) * 200_000))
ReturnsAnotherType = returning(lambda history: replace(one_more(history), configuration=history))  # type: ignore[arg-type]
ReturnsACircle = returning(_endless)
