"""Following a running job in the terminal: output of the workers, live progress, Ctrl-C, and how it ended.

``Follower`` knows a ``JobHandle`` and a ``Lifetime``, and so follows a job of this machine and one of a cluster alike. On this
machine the launcher supervises the master meanwhile (``SupervisedMaster``); elsewhere the platform restarts it, and
``pliant attach`` follows what another process supervises (``following/attached.py``).

Ctrl-C stops the job: its master is asked, again and again while it is restarted, and the lifetime hears of it too, for the case
that no master can start. Who is only attached (``detaches``) leaves instead, and the job goes on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pliant.cli.following.held_output import HeldOutput
from pliant.cli.following.interrupts import Interrupts
from pliant.cli.following.plan_reporter import PlanReporter
from pliant.cli.render.console import EscapingConsole
from pliant.cli.render.final_report import print_final_report
from pliant.cli.render.output_lines import for_people
from pliant.cli.render.progress import clock, figures, progress_view
from pliant.core.errors import JobFailed, PliantError
from pliant.core.job import Failure, Phase
from pliant.core.nodes.states import NodeState
from pliant.core.plurals import counted
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.handles.job_handle import Caller, JobHandle, Output
from pliant.rpc import pliant_pb2 as pb

if TYPE_CHECKING:
    from rich.live import Live

STOP_REASON = "stopped by Ctrl-C"
UNANSWERED_STOP_S = 10.0  # a master that does not answer for so long is replaced: it may be frozen
OUTPUT_INTERVAL_S = 0.1  # between two looks at what programs write, even if they write all the time
FIRST_SECONDS_S = 10.0  # in which much happens: the status is asked for more often
STATUS_INTERVAL_S = 1.0  # after them
PROGRESS_INTERVAL_S = 5.0  # where there is no terminal for a live view


class Lifetime(Protocol):
    """How long to follow a job."""

    def running(self) -> bool:
        """Whether the job is not over. Raises if it cannot be followed any longer."""

    def wait(self, seconds: float, beside: Sequence[int] = ()) -> None:
        """Wait, at most until it is over, or until one of these descriptors is readable."""

    def request_stop(self, reason: str, *, at_once: bool) -> None:
        """Somebody wants the job stopped; its master is asked by the follower."""

    def replace_master(self) -> bool:
        """The master is there and does not answer: end it, so that a successor does; False: that is not ours to do."""

    @property
    def unrecorded_stop(self) -> str:
        """Why a job was stopped that has no summary since none could be written; empty otherwise."""


class Detached(Exception):
    """Ctrl-C by somebody who is only attached."""


class Follower:
    def __init__(
        self,
        handle: JobHandle,
        interrupts: Interrupts,
        *,
        show_output: bool,
        progress: bool,
        to_stderr: bool,
        tail: int | None = None,
        detaches: bool = False,
    ) -> None:
        """``tail``: of the output so far, only the last lines of each node. ``detaches``: Ctrl-C raises ``Detached``."""
        self._handle = handle
        self._interrupts = interrupts
        self._console = EscapingConsole(stderr=to_stderr, soft_wrap=True)
        self._show_output = show_output
        self._output: Output | None = None
        self._held = HeldOutput(for_people(self._console))
        self._progress = progress
        self._caller: Caller | None = None
        self._introduction = ""
        self._tail = tail
        self._detaches = detaches
        self._stops_said = 0  # number of interrupts that were answered
        self._stop_sent = 0  # number of interrupts that reached the master
        self._unanswered_since = math.inf  # monotonic: somebody wants to stop the job, and its master has not answered
        self._reported_at = 0.0
        self._warnings_said: set[str] = set()
        self._failing_checkpoints: set[str] = set()  # directories
        self._plans = PlanReporter(self.say, from_now_on=detaches)
        self._waiting_said = ""  # what the job was last said to wait for
        self._began = time.monotonic()
        self._status_due = 0.0  # monotonic
        self._shown_at = 0.0  # when output was last shown; monotonic

    def follow(self, lifetime: Lifetime) -> JobSummary:
        """Until the job is over."""
        if self._show_output:
            self._output = self._handle.output(self._held.add, nodes=None, tail=self._tail, follow=True)
        try:
            if self._progress and self._console.is_terminal:
                from rich.live import Live

                with Live(console=self._console, auto_refresh=False, transient=True) as live:
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
        same = self._held.finish(_permanent_failure(summary) if self._progress else None)
        if summary is None and (reason := lifetime.unrecorded_stop):
            summary = JobSummary(JobStatus(self._handle.name, Phase.INTERRUPTED, reason))
        if summary is None:
            hint = f"check `pliant logs {self._handle.argument} --master`"
            raise JobFailed(f"job {self._handle.name} ({self._handle.where}) has no summary", hint=hint)
        self._say_warnings(summary.status)
        if same:
            self.say(f"{', '.join(same)} failed in the same way, see below")
        if self._progress:
            print_final_report(self._console, self._handle, summary)
        return summary

    def introduce(self, text: str) -> None:
        """Said once the job has a master: before that it may turn out that it cannot start."""
        self._introduction = text

    def _say_introduction(self) -> None:
        text, self._introduction = self._introduction, ""
        if text:
            self.say(text)

    def say(self, text: str) -> None:
        if self._progress:
            self._console.print(f"pliant | {text}")

    def _watch(self, lifetime: Lifetime, live: Live | None) -> None:
        while lifetime.running():
            self._send_stop(lifetime)
            if time.monotonic() >= self._status_due:
                self._look(live)
            if self._output is not None:
                if self._output.show_new():
                    self._shown_at = time.monotonic()
                self._held.release_due()
            self._wait(lifetime)
        self._say_introduction()

    def _look(self, live: Live | None) -> None:
        """Ask how the job is doing, and say what is new."""
        status = self._status()
        if status is not None:
            self._say_introduction()
            self._say_waiting(status)
            self._say_warnings(status)
            self._say_recovered(status)
            if self._progress and self._caller is not None:
                self._plans.report(status, self._caller, timeout=self._handle.call_timeout_s)
        if live is not None:
            live.update(progress_view(status), refresh=True)
        elif status is not None and self._progress and time.monotonic() - self._reported_at > PROGRESS_INTERVAL_S:
            self._reported_at = time.monotonic()
            self.say(_one_line(status))
        now = time.monotonic()
        is_new = status is None or now - self._began < FIRST_SECONDS_S
        self._status_due = now + (self._handle.refresh_interval_s if is_new else STATUS_INTERVAL_S)

    def _wait(self, lifetime: Lifetime) -> None:
        """Until the next question is due, something was written, somebody presses Ctrl-C, or the job is over."""
        now = time.monotonic()
        until = self._status_due
        beside = [self._interrupts.fileno()]
        if self._stop_sent < self._interrupts.count:
            until = now + self._handle.refresh_interval_s  # the master has yet to hear of it
        if self._output is not None and self._output.fileno() < 0:
            until = min(until, now + self._handle.refresh_interval_s)
        elif self._output is not None and now - self._shown_at >= OUTPUT_INTERVAL_S:
            beside.append(self._output.fileno())
        elif self._output is not None:
            until = min(until, self._shown_at + OUTPUT_INTERVAL_S)
        lifetime.wait(max(0.0, until - now), [descriptor for descriptor in beside if descriptor >= 0])
        self._interrupts.clear()

    def _say_waiting(self, status: JobStatus) -> None:
        """As soon as it is known, and once: what keeps the job from running as it should."""
        waiting = status.waiting
        said = waiting.message if waiting is not None else ""
        if said and said != self._waiting_said:
            self.say(f"waiting: {said}")
        self._waiting_said = said

    def _say_warnings(self, status: JobStatus) -> None:
        for message in status.warnings:
            if message not in self._warnings_said:
                self._warnings_said.add(message)
                self.say(f"warning: {message}")

    def _say_recovered(self, status: JobStatus) -> None:
        """After a warning that checkpoints cannot be written."""
        failing = {found.directory for found in status.checkpoints if found.failures_in_a_row}
        for found in status.checkpoints:
            if found.directory in self._failing_checkpoints - failing:
                self.say(f"checkpoints are written to {found.directory} again, with that of step {found.last_step:,}")
        self._failing_checkpoints = failing

    def _status(self) -> JobStatus | None:
        """None while there is no master to ask."""
        try:
            if self._caller is None:
                self._caller = Caller(self._handle.address())
            return self._caller.status(timeout=self._handle.call_timeout_s)
        except PliantError:
            return None

    def _send_stop(self, lifetime: Lifetime) -> None:
        """First Ctrl-C: programs get SIGTERM and their grace. Second: at once."""
        stops = self._interrupts.count
        if not stops:
            return
        if self._detaches:
            raise Detached
        at_once = stops > 1
        if stops > self._stops_said:
            self._stops_said = stops
            self.say("stopping at once" if at_once else "stopping; press Ctrl-C again to stop at once")
            lifetime.request_stop(STOP_REASON, at_once=at_once)
            self._unanswered_since = min(self._unanswered_since, time.monotonic())
        if stops <= self._stop_sent or self._caller is None:
            return
        request = pb.StopRequest(reason=STOP_REASON, at_once=at_once)
        try:
            self._caller.call(self._caller.stubs.Stop, request, timeout=2 * self._handle.call_timeout_s)
            self._stop_sent = stops
            self._unanswered_since = math.inf
        except PliantError:  # the master is being restarted, or frozen; the next round retries
            if time.monotonic() - self._unanswered_since > UNANSWERED_STOP_S:
                self._unanswered_since = time.monotonic()
                if lifetime.replace_master():
                    self.say("the master does not answer; replacing it to stop the job")


def _permanent_failure(summary: JobSummary | None) -> Failure | None:
    """The error that the job failed of at once: the final report shows it. Only of these it is known what to do."""
    failure = summary.status.first_failure if summary is not None and summary.phase is Phase.FAILED else None
    return failure if failure is not None and failure.hint else None


def _one_line(status: JobStatus) -> str:
    running = sum(1 for node in status.nodes if node.state is NodeState.RUNNING)
    parts = [f"{counted(running, 'node')} running"]
    if (waiting := status.waiting) is not None:
        parts.append(f"waiting ({waiting.reason})")
    for dataset in status.used_datasets:
        share = 100 * dataset.records_done / dataset.records_total if dataset.records_total else 0
        parts.append(f"{dataset.name} {dataset.records_done:,} of {dataset.records_total:,} records ({share:.0f} %)")
    percent = status.progress.percent
    for figure in figures(status):
        in_steps = percent is not None and status.progress.total_steps and figure.startswith("step ")
        parts.append(f"{figure} ({percent:.0f} %)" if in_steps else figure)
    if status.eta is not None:
        parts.append(f"{clock(status.eta)} left")
    return ", ".join(parts)
