"""Following a running job in the terminal: output of the workers, live progress, Ctrl-C, and how it ended."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pliant.cli.ending import print_ending
from pliant.cli.interrupts import Interrupts
from pliant.cli.output import OutputTail
from pliant.cli.progress import progress_view
from pliant.core.errors import JobFailed, PliantError
from pliant.master.job_dir import JobDir
from pliant.master.supervisor import Supervisor
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient

if TYPE_CHECKING:
    from rich.live import Live

REFRESH = 0.2  # seconds


class Follower:
    def __init__(
        self, home: JobDir, interrupts: Interrupts, *, show_output: bool, progress: bool, to_stderr: bool
    ) -> None:
        self._home = home
        self._interrupts = interrupts
        self._console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
        self._tail = OutputTail(home.logs, self._console) if show_output else None
        self._progress = progress
        self._client: MasterClient | None = None
        self._stop_sent = 0  # for so many of the interrupts
        self._problem: PliantError | None = None

    def follow(self, supervisor: Supervisor) -> dict[str, Any]:
        """Until the job is over."""
        supervisor.on_restart = self._say
        if self._progress:
            self._say(f"job {self._home.path.name}: files in {self._home.path}")
        keeper = threading.Thread(target=self._keep_alive, args=(supervisor,), name="keep-master", daemon=True)
        keeper.start()
        try:
            if self._progress and self._console.is_terminal:
                from rich.live import Live

                with Live(console=self._console, refresh_per_second=8, transient=True) as live:
                    self._watch(keeper, live)
            else:
                self._watch(keeper, None)
        finally:
            if self._client is not None:
                self._client.close()
        if self._problem is not None:
            raise self._problem
        summary = self._home.summary()
        if summary is None:
            raise JobFailed(f"the job in {self._home.path} has no summary", hint="see logs/master.log there")
        if self._progress:
            print_ending(self._console, self._home, summary)
        return summary

    def _keep_alive(self, supervisor: Supervisor) -> None:
        try:
            supervisor.keep_alive()
        except PliantError as error:
            self._problem = error

    def _watch(self, keeper: threading.Thread, live: Live | None) -> None:
        told = 0.0
        while keeper.is_alive():
            self._send_stop()
            status = self._status()
            if live is not None:
                live.update(progress_view(status))
            elif status is not None and self._progress and time.monotonic() - told > 5:
                told = time.monotonic()
                self._say(_one_line(status))
            if self._tail is not None:
                self._tail.show_new()
            keeper.join(REFRESH)
        if self._tail is not None:
            self._tail.show_new()

    def _status(self) -> pb.JobStatus | None:
        """None while there is no master to ask."""
        try:
            if self._client is None:
                self._client = MasterClient(self._home.address())
            reply: pb.JobStatus = self._client.call(self._client.stubs.job.GetStatus, pb.Empty(), timeout=1)
        except PliantError:
            return None
        return reply

    def _send_stop(self) -> None:
        """First Ctrl-C: programs get SIGTERM and their grace. Second: at once."""
        stops = self._interrupts.count
        if stops <= self._stop_sent or self._client is None:
            return
        at_once = stops > 1
        self._say("stopping at once" if at_once else "stopping; press Ctrl-C again to stop at once")
        request = pb.StopRequest(reason="stopped by Ctrl-C", at_once=at_once)
        try:
            self._client.call(self._client.stubs.job.Stop, request, timeout=2)
            self._stop_sent = stops
        except PliantError:
            return  # the master is being restarted; the next turn tries again

    def _say(self, text: str) -> None:
        if self._progress:
            self._console.print(f"pliant | {text}", markup=False)


def _one_line(status: pb.JobStatus) -> str:
    running = sum(1 for node in status.nodes if node.state == "Running")
    parts = [f"{running} nodes running"]
    for dataset in status.datasets:
        share = 100 * dataset.records_done / dataset.records_total if dataset.records_total else 0
        parts.append(f"{dataset.name} {dataset.records_done:,} of {dataset.records_total:,} records ({share:.0f} %)")
    return ", ".join(parts)
