"""Holds back what looks like a program's last words, so that an error of all workers is shown once and not by each of them.

A traceback, the usage text of an argument parser or a syntax error is held while nothing follows it, for ``MAX_HOLD_S`` at most.
If the program goes on, it is shown as any other output. If the job failed of a permanent error, the final report shows that of
one node, and the same words of the others are left out; they stay in their logs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pliant.core.job import Failure
from pliant.handles.job_handle import LinePrinter

MAX_HOLD_S = 15.0  # longer than the end of a program and its master's decision take, also on a busy machine
MAX_LINES = 500

_TRACEBACK = re.compile(r"^(?P<prefix>.*?)Traceback \(most recent call last\):\s*$")
_SYNTAX_ERROR = re.compile(r'^  File ".+", line \d+$')
_USAGE = re.compile(r"^usage: ", re.IGNORECASE)
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


@dataclass(slots=True)
class _Held:
    since: float
    prefix: str = ""  # torch puts "[rank0]: " before each line
    is_usage: bool = False  # its end cannot be seen
    lines: list[str] = field(default_factory=list)

    def is_continued_by(self, line: str) -> bool:
        text, last = line.removeprefix(self.prefix), self.lines[-1].removeprefix(self.prefix)
        if self.is_usage or not text or text[0].isspace() or text.startswith(_CHAINED) or _TRACEBACK.match(line):
            return True
        return not last or last[0].isspace() or bool(_TRACEBACK.match(self.lines[-1]))  # this one names the exception


class HeldOutput:
    def __init__(self, show: LinePrinter, clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def add(self, node: str, line: str) -> None:
        """A new line of a program."""
        held = self._held.get(node)
        if held is not None and (not held.is_continued_by(line) or len(held.lines) >= MAX_LINES):
            self._release(node)
            held = None
        if held is None and (held := self._begin(line)) is not None:
            self._held[node] = held
        if held is None:
            self._show(node, line)
        else:
            held.lines.append(line)

    def release_due(self) -> None:
        for node in [node for node, held in self._held.items() if self._clock() - held.since > MAX_HOLD_S]:
            self._release(node)

    def finish(self, reported: Failure | None) -> list[str]:
        """The job is over. ``reported``: the permanent error that the final report shows, if it failed of one.

        Returns the other nodes that failed in the same way, whose words are left out.
        """
        same = []
        for node in list(self._held):
            if reported is not None and _last(self._held[node].lines) == _last(reported.traceback.splitlines()):
                del self._held[node]
                same.append(node)
            else:
                self._release(node)
        return [node for node in same if reported is not None and node != reported.node]

    def _begin(self, line: str) -> _Held | None:
        if found := _TRACEBACK.match(line):
            return _Held(self._clock(), prefix=found["prefix"])
        if _SYNTAX_ERROR.match(line):
            return _Held(self._clock())
        return _Held(self._clock(), is_usage=True) if _USAGE.match(line) else None

    def _release(self, node: str) -> None:
        for line in self._held.pop(node).lines:
            self._show(node, line)


def _last(lines: list[str]) -> str:
    """The last line that says something, without torch's prefix."""
    found = next((line for line in reversed(lines) if line.strip()), "")
    return re.sub(r"^\[rank\d+\]: ", "", found).strip()
