"""Following a running job in the terminal: output of the workers, live progress, Ctrl-C, and how it ended.

``Follower`` knows a ``JobHandle`` and a ``Lifetime``, and so follows a job of this machine and one of a cluster alike. On this
machine the launcher supervises the master meanwhile (``SupervisedMaster``); elsewhere the platform restarts it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

from pliant.cli.following.interrupts import Interrupts
from pliant.cli.handles.job_handle import Caller, JobHandle, Output
from pliant.cli.render.final_report import print_final_report
from pliant.cli.render.progress import progress_view
from pliant.core.errors import JobFailed, PliantError
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.master.supervisor import Supervisor
from pliant.rpc import pliant_pb2 as pb

if TYPE_CHECKING:
    from rich.live import Live

PROGRESS_INTERVAL_S = 5.0  # where there is no terminal for a live view


class Lifetime(Protocol):
    """How long to follow a job."""

    def running(self) -> bool:
        """Whether the job is not over. Raises if it cannot be followed any longer."""

    def wait(self, seconds: float) -> None:
        """Wait, at most until it is over."""


class SupervisedMaster:
    """Runs a supervisor in a thread of its own."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._problem: PliantError | None = None
        self._thread = threading.Thread(target=self._work, name="supervisor", daemon=True)

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
        self, handle: JobHandle, interrupts: Interrupts, *, show_output: bool, progress: bool, to_stderr: bool
    ) -> None:
        self._handle = handle
        self._interrupts = interrupts
        self._console = Console(stderr=to_stderr, markup=False, highlight=False, soft_wrap=True)
        self._show_output = show_output
        self._output: Output | None = None
        self._progress = progress
        self._caller: Caller | None = None
        self._stop_sent = 0  # number of interrupts that were passed on
        self._reported_at = 0.0
        self._waiting_said = ""  # what the job was last said to wait for

    def follow(self, lifetime: Lifetime) -> JobSummary:
        """Until the job is over."""
        if self._show_output:
            self._output = self._handle.output(self._console, nodes=None, tail=None, follow=True)
        try:
            if self._progress and self._console.is_terminal:
                from rich.live import Live

                with Live(console=self._console, refresh_per_second=8, transient=True) as live:
                    self._watch(lifetime, live)
            else:
                self._watch(lifetime, None)
        finally:
            if self._caller is not None:
                self._caller.close()
        if self._output is not None:
            while self._output.show_new():
                continue
            self._output.finish()
        summary = self._handle.summary()
        if summary is None:
            hint = f"`pliant logs {self._handle.name} --master` may say why"
            raise JobFailed(f"job {self._handle.name} ({self._handle.where}) has no summary", hint=hint)
        if self._progress:
            print_final_report(self._console, self._handle, summary)
        return summary

    def say(self, text: str) -> None:
        if self._progress:
            self._console.print(f"pliant | {text}", markup=False)

    def _watch(self, lifetime: Lifetime, live: Live | None) -> None:
        while lifetime.running():
            self._send_stop()
            status = self._status()
            if status is not None:
                self._say_waiting(status)
            if live is not None:
                live.update(progress_view(status))
            elif status is not None and self._progress and time.monotonic() - self._reported_at > PROGRESS_INTERVAL_S:
                self._reported_at = time.monotonic()
                self.say(_one_line(status))
            if self._output is not None:
                self._output.show_new()
            lifetime.wait(self._handle.refresh_interval_s)

    def _say_waiting(self, status: JobStatus) -> None:
        """As soon as it is known, and once: what keeps the job from running as it should."""
        waiting = status.waiting
        said = waiting.message if waiting is not None else ""
        if said and said != self._waiting_said:
            self.say(f"waiting: {said}")
        self._waiting_said = said

    def _status(self) -> JobStatus | None:
        """None while there is no master to ask."""
        try:
            if self._caller is None:
                self._caller = Caller(self._handle.address())
            return self._caller.status(timeout=self._handle.call_timeout_s)
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
            self._caller.call(self._caller.stubs.Stop, request, timeout=2 * self._handle.call_timeout_s)
            self._stop_sent = stops
        except PliantError:
            return  # the master is being restarted; the next round retries


def _one_line(status: JobStatus) -> str:
    running = sum(1 for node in status.nodes if node.state is NodeState.RUNNING)
    parts = [f"{running} nodes running"]
    if (waiting := status.waiting) is not None:
        parts.append(f"waiting ({waiting.reason})")
    for dataset in status.datasets:
        share = 100 * dataset.records_done / dataset.records_total if dataset.records_total else 0
        parts.append(f"{dataset.name} {dataset.records_done:,} of {dataset.records_total:,} records ({share:.0f} %)")
    return ", ".join(parts)
