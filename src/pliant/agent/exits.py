"""Why a program ended, judged from what is left of it: its return code, the kernel's OOM count and its last words.

``classify`` is pure; ``read_tail`` reads the program's log, ``write_exit`` leaves the report where the platform looks for it.
The reason decides which budget of the node is charged (``core/nodes/fault_policy.py``), so the order of the rules matters: memory
first, since a kill for memory looks like any other SIGKILL; then the end of the node, under which a program may fail in any way;
then the program's own failure, which may be one that a restart would only repeat (``permanent_errors``).

A program started through a shell ends as the shell reports it: 128 plus the signal's number is read as that signal.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from pliant.agent.permanent_errors import Ending, find_permanent
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.nodes.fault_policy import OUT_OF_GRACE, ExitReason
from pliant.core.nodes.permanent import PermanentKind
from pliant.files.atomic import write_json

log = logging.getLogger(__name__)

TAIL_BYTES = 64 * 1024
LAST_LINES = 20
MAX_LAST_WORDS = 2000  # characters; Kubernetes keeps 4096 bytes

_HEADER = re.compile(r"^(?P<prefix>.*?)(?:Exception Group )?Traceback \(most recent call last\):\s*$")
_LINKS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Group|Warning)(?::.*)?$")
_NAMED = re.compile(r"^[A-Za-z_][\w.]*(?::.*)?$")
_OUT_OF_MEMORY = re.compile(
    r"^(?:[\w.]*MemoryError\b|[\w.]*OutOfMemoryError\b)"
    r"|out of memory|DefaultCPUAllocator: (?:can't allocate|not enough) memory|std::bad_alloc"
    r"|RESOURCE_EXHAUSTED.*(?:alloc|memory)|\[Errno 12\] Cannot allocate memory",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ExitReport:
    exit_reason: ExitReason
    message: str  # one line for people
    traceback: str  # of Python, else the last lines; empty unless the program failed by itself
    permanent: PermanentKind | None = None  # a restart would fail in the same way
    hint: str = ""  # what to do about a permanent error
    peak_mb: int = 0  # of the memory that was measured; 0: nothing was


def read_tail(log: Path, offset: int = 0, limit: int = TAIL_BYTES) -> str:
    """What a run wrote from ``offset`` on, at most its last ``limit`` bytes; bytes that are not UTF-8 are replaced.

    A file shorter than the offset was cut by someone: then all of it is this run's.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = offset if offset <= size else 0
            file.seek(max(begin, size - limit))
            return file.read(limit).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def write_exit(report: ExitReport, environment: NodeEnvironment) -> None:
    """For a platform that reads why a node ended: in the node's folder, or where it asks for last words."""
    value = {"exit_reason": report.exit_reason.value, "message": report.message}
    if environment.node_dir is not None:
        try:
            write_json(environment.node_dir / "exit.json", value)
        except OSError as error:  # a full disk: the master has the report, or takes the end for a kill
            log.warning("why %s ended cannot be written to %s: %s", environment.node, environment.node_dir, error)
    if environment.last_words is not None:
        words = json.dumps({**value, "message": report.message[:MAX_LAST_WORDS]})
        try:
            environment.last_words.write_text(words, encoding="utf-8")  # in place: Kubernetes has made the file
        except OSError as error:
            log.warning("cannot write the exit report of %s to %s: %s", environment.node, environment.last_words, error)


def classify(
    returncode: int, *, terminating: bool, oom_kills: int, log_tail: str, python: str = "python"
) -> ExitReport:
    """Judge one exit.

    ``returncode`` is as Python reports it, negative for a signal. ``terminating``: the node had notice to end.
    ``oom_kills``: by how much the group's count rose in this run, or 1 if the memory watchdog fired. A failure after
    the kernel killed any process of the node is put down to memory: a loader's worker dies of it, and the program
    of the loss. ``python``: the interpreter of the program, for what to do about a missing module.
    """
    if returncode == 0:
        return ExitReport(ExitReason.COMPLETED, "finished", "")
    number = _signal_of(returncode)
    how = f"killed by {_signal_name(number)}" if returncode < 0 else f"exit code {returncode}"
    if returncode > 0 and number:
        how += f" ({_signal_name(number)})"
    words = last_words(log_tail)
    said = _one_line(words.exception)
    if oom_kills > 0:
        kills = f"{oom_kills} processes" if oom_kills > 1 else "a process"
        detail = f"{how}: {said}" if said and number != signal.SIGKILL else how
        return ExitReport(ExitReason.OOM, f"out of memory, {kills} killed at the node's limit; {detail}", words.text)
    if words.final and _OUT_OF_MEMORY.search(words.exception):
        return ExitReport(ExitReason.OOM, f"out of memory, {how}: {said}", words.text)
    if terminating and number == signal.SIGKILL:
        return ExitReport(ExitReason.PREEMPTED, f"preempted, {OUT_OF_GRACE}", "")
    if number == signal.SIGTERM or terminating:
        return ExitReport(ExitReason.PREEMPTED, f"preempted, {how}", "")
    if number == signal.SIGKILL:
        return ExitReport(ExitReason.KILLED, how, "")
    return _error(returncode, how, said, words, log_tail, python)


def _error(returncode: int, how: str, said: str, words: LastWords, log_tail: str, python: str) -> ExitReport:
    ending = Ending(
        returncode,
        lines=log_tail.rstrip().splitlines(),
        traceback=words.text.splitlines() if words.is_traceback else (),
        exception=words.exception.splitlines() if words.is_traceback and words.final else (),
        python=python,
    )
    if (found := find_permanent(ending)) is not None:
        return ExitReport(
            ExitReason.ERROR, f"{how}: {_one_line(said or found.text)}", words.text, found.kind, found.hint
        )
    return ExitReport(ExitReason.ERROR, f"{how}: {said}" if said else how, words.text)


@dataclass(frozen=True, slots=True)
class LastWords:
    text: str  # the last traceback with those it is chained to, or the last lines
    exception: str  # the name and message that end it, or what looks like one
    final: bool  # little follows it; an exception that was logged and survived is no cause
    is_traceback: bool = False


def last_words(log_tail: str) -> LastWords:
    lines = log_tail.rstrip().splitlines()
    headers = [(at, found) for at, line in enumerate(lines) if (found := _HEADER.match(line))]
    headers = [(at, found) for at, found in headers if "|" not in found["prefix"]]  # those belong to a group's
    if not headers:
        ending = lines[-LAST_LINES:]
        spoken = [line for line in ending if _EXCEPTION.match(line) or _OUT_OF_MEMORY.search(line)]
        return LastWords("\n".join(ending), spoken[-1] if spoken else "", final=True)
    prefix = headers[-1][1]["prefix"].lstrip(" +")  # torch puts "[rank0]: " before each line
    lines = [line.removeprefix(prefix).rstrip() for line in lines]
    starts = [at for at, _ in headers]
    begin = starts.pop()
    named = _exception_line(lines, begin)
    while starts and _is_linked(lines[starts[-1] : begin]):
        begin = starts.pop()
    # A message may have many lines; where it ends is unknown.
    return LastWords(
        "\n".join(lines[begin : named + LAST_LINES]),
        "\n".join(lines[named : named + LAST_LINES]),
        final=len(lines) - named <= LAST_LINES,
        is_traceback=True,
    )


def _is_linked(lines: list[str]) -> bool:
    """Whether a traceback ends by saying that the next one came of it."""
    return next((line for line in reversed(lines) if line), "") in _LINKS


def _exception_line(lines: list[str], header: int) -> int:
    """Below the header come the frames, indented; the first line that is not indented names the exception."""
    for at in range(header + 1, len(lines)):
        if _NAMED.match(lines[at]) or _EXCEPTION.match(lines[at].strip(" |")):
            return at
    return len(lines) - 1


def _one_line(exception: str) -> str:
    line = exception.split("\n", 1)[0].strip(" |")
    return line if len(line) <= 300 else line[:299] + "…"


def _signal_of(returncode: int) -> int:
    """The number of the signal that ended the program or, reported by a shell, its command; 0: none."""
    if returncode < 0:
        return -returncode
    number = returncode - 128
    return number if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS) else 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
