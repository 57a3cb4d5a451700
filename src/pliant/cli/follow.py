"""Following a running job in the terminal: output of the workers, live progress, Ctrl-C, and how it ended.

``Follower`` knows a ``Place`` and an ``Until``, and so follows a job of this machine and one of a cluster alike. On this
machine the launcher has to keep the master alive meanwhile (``KeptAlive``); elsewhere the platform does that.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from pliant.cli.ending import print_ending
from pliant.cli.interrupts import Interrupts
from pliant.cli.places import Caller, Output, Place
from pliant.cli.progress import progress_view
from pliant.core.errors import JobFailed, PliantError
from pliant.master.supervisor import Supervisor
from pliant.rpc import pliant_pb2 as pb

if TYPE_CHECKING:
    from rich.live import Live

TELL_EVERY = 5.0  # seconds, where there is no terminal for a live view


class Until(Protocol):
    """How long to follow."""

    def running(self) -> bool:
        """The job is not over. Raises what went wrong with following it."""

    def wait(self, seconds: float) -> None:
        """So long, or until it is over."""


class KeptAlive:
    """A supervisor at work in a thread of its own."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._problem: PliantError | None = None
        self._thread = threading.Thread(target=self._work, name="keep-master", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def running(self) -> bool:
        if self._thread.is_alive():
            return True
        if self._problem is not None:
            raise self._problem
        return False

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            self._supervisor.keep_alive()
        except PliantError as error:
            self._problem = error


class Follower:
    def __init__(
        self, place: Place, interrupts: Interrupts, *, show_output: bool, progress: bool, to_stderr: bool
    ) -> None:
        self._place = place
        self._interrupts = interrupts
        self._console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
        self._show_output = show_output
        self._output: Output | None = None
        self._progress = progress
        self._caller: Caller | None = None
        self._stop_sent = 0  # for so many of the interrupts
        self._told = 0.0

    def follow(self, until: Until) -> dict[str, Any]:
        """Until the job is over."""
        if self._show_output:
            self._output = self._place.output(self._console, nodes=None, tail=None, follow=True)
        try:
            if self._progress and self._console.is_terminal:
                from rich.live import Live

                with Live(console=self._console, refresh_per_second=8, transient=True) as live:
                    self._watch(until, live)
            else:
                self._watch(until, None)
        finally:
            if self._caller is not None:
                self._caller.close()
        if self._output is not None:
            while self._output.show_new():
                continue
            self._output.finish()
        summary = self._place.summary()
        if summary is None:
            hint = f"`pliant logs {self._place.name} --master` may tell why"
            raise JobFailed(f"job {self._place.name} ({self._place.where}) has no summary", hint=hint)
        if self._progress:
            print_ending(self._console, self._place, summary)
        return summary

    def say(self, text: str) -> None:
        if self._progress:
            self._console.print(f"pliant | {text}", markup=False)

    def _watch(self, until: Until, live: Live | None) -> None:
        while until.running():
            self._send_stop()
            status = self._status()
            if live is not None:
                live.update(progress_view(status))
            elif status is not None and self._progress and time.monotonic() - self._told > TELL_EVERY:
                self._told = time.monotonic()
                self.say(_one_line(status))
            if self._output is not None:
                self._output.show_new()
            until.wait(self._place.refresh)

    def _status(self) -> pb.JobStatus | None:
        """None while there is no master to ask."""
        try:
            if self._caller is None:
                self._caller = Caller(self._place.address())
            return self._caller.status(timeout=self._place.call_timeout)
        except PliantError:
            return None

    def _send_stop(self) -> None:
        """First Ctrl-C: programs get SIGTERM and their grace. Second: at once."""
        stops = self._interrupts.count
        if stops <= self._stop_sent or self._caller is None:
            return
        at_once = stops > 1
        self.say("stopping at once" if at_once else "stopping; press Ctrl-C again to stop at once")
        request = pb.StopRequest(reason="stopped by Ctrl-C", at_once=at_once)
        try:
            self._caller.call(self._caller.stubs.Stop, request, timeout=2 * self._place.call_timeout)
            self._stop_sent = stops
        except PliantError:
            return  # the master is being restarted; the next turn tries again


def _one_line(status: pb.JobStatus) -> str:
    running = sum(1 for node in status.nodes if node.state == "Running")
    parts = [f"{running} nodes running"]
    for dataset in status.datasets:
        share = 100 * dataset.records_done / dataset.records_total if dataset.records_total else 0
        parts.append(f"{dataset.name} {dataset.records_done:,} of {dataset.records_total:,} records ({share:.0f} %)")
    return ", ".join(parts)
