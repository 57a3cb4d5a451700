"""The table of ``pliant jobs``: one line per job, in as many columns as the terminal has, 100 where there is none.

Why a failed job failed is worth more than how its failure was counted: where not all of it fits, the message of the program
(its exception) stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from pliant.cli.render.console import EscapingConsole
from pliant.cli.render.progress import clock
from pliant.cli.render.tables import PHASE_STYLES
from pliant.core.status import JobStatus
from pliant.handles.job_handle import JobView

WIDTH = 100  # columns, where the output goes to a file or another program
MAX_NAME = 24  # characters
MIN_WHY = 20
GAP = 2  # between two columns
HEADS = ("NAME", "PHASE", "AGE", "TIME", "WORKERS", "PROGRESS", "WHY")
RIGHT = ("AGE", "TIME", "WORKERS", "PROGRESS")


def print_jobs(views: Sequence[JobView], now: float) -> None:
    console = EscapingConsole()
    if not console.is_terminal:
        console = EscapingConsole(width=WIDTH)
    console.print(job_list(views, now, console.width))


def job_list(views: Sequence[JobView], now: float, width: int) -> Table:
    rows = [_cells(view, now) for view in views]
    used = sum(max(len(head), *(len(row[at]) for row in rows)) + GAP for at, head in enumerate(HEADS[:-1]))
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    for head in HEADS:
        table.add_column(head, justify="right" if head in RIGHT else "left", no_wrap=True)
    for view, (name, phase, *figures) in zip(views, rows, strict=True):
        style = PHASE_STYLES.get(view.phase, "yellow")
        table.add_row(Text(name), Text(phase, style=style), *figures, Text(why(view, max(MIN_WHY, width - used))))
    return table


def _cells(view: JobView, now: float) -> tuple[str, ...]:
    status = view.status
    return (
        shortened(status.name, MAX_NAME),
        view.phase.value,
        age(now - status.started_at) if status.started_at else "",
        clock(status.seconds),
        workers(status),
        progress(status),
    )


def workers(status: JobStatus) -> str:
    """Running or done, of how many there should be."""
    role = status.role("worker")
    return f"{role.present}/{role.wanted}" if role is not None else ""


def progress(status: JobStatus) -> str:
    percent, step = status.progress.percent, status.progress.step
    if percent is not None:
        return f"{int(percent)} %"  # 99.9 % are not all
    return f"step {step:,}" if step else ""


def why(view: JobView, width: int) -> str:
    """One line of this many characters at the most."""
    status = view.status
    reason, message = _one_line(status.reason), _one_line(status.message)
    if len(message) <= width and message.startswith(reason):
        return message or _end_cut(_one_line(view.note), width)
    detail = message.removeprefix(reason).lstrip(": ")
    if not detail:
        return _end_cut(reason, width)
    if len(detail) > width and detail.startswith("exit code "):
        detail = detail.partition(": ")[2] or detail
    return shortened(detail, width)


def shortened(text: str, width: int) -> str:
    """Cut in the middle: a name and an error begin and end with what tells them apart."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def age(seconds: float) -> str:
    """As kubectl has it: the largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def _end_cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _one_line(text: str) -> str:
    return " ".join(text.split())
