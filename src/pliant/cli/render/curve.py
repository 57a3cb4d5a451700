"""A fitted curve in the terminal: records per second over the number of workers, as wide as the terminal.

Measured points are marked, the interval of the fit is shaded, and an arrow below the axis points to the present number of workers.
Where the terminal is too narrow for a chart, or there is a single point, it is a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from pliant.core.planning.explanation import CurvePoint

HEIGHT = 10  # rows
MAX_WIDTH, MIN_WIDTH = 72, 36  # columns
LABEL = 9  # columns of the vertical axis
HEADROOM = 1.25  # of the largest rate: an interval may be far wider


@dataclass(frozen=True, slots=True)
class Marks:
    fitted: str
    shade: str
    measured: str
    corner: str
    line: str
    side: str
    arrow: str


UNICODE = Marks("•", "░", "●", "└", "─", "│", "▲")
ASCII = Marks("-", ".", "o", "+", "-", "|", "^")
STYLES = {"fitted": "cyan", "shade": "dim", "measured": "bold green"}


@dataclass(frozen=True)
class CurveChart:
    points: Sequence[CurvePoint]
    present: int  # workers now

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(MAX_WIDTH, options.max_width)
        if width < MIN_WIDTH or len({point.workers for point in self.points}) < 2:
            yield curve_table(self.points, self.present)
        else:
            marks = ASCII if options.ascii_only else UNICODE
            yield from chart_rows(sorted(self.points, key=lambda point: point.workers), self.present, width, marks)


def chart_rows(points: Sequence[CurvePoint], present: int, width: int, marks: Marks) -> list[Text]:
    """Top to bottom, each at most ``width`` wide. ``points``: by workers, at least two."""
    columns = width - LABEL - 2
    left, right = points[0].workers, points[-1].workers
    top = HEADROOM * max(max(point.rate, point.measured or 0.0) for point in points) or 1.0

    def column(workers: int) -> int:
        return round((workers - left) / (right - left) * (columns - 1))

    def row(rate: float) -> int:
        return min(HEIGHT - 1, max(0, round((1.0 - rate / top) * (HEIGHT - 1))))

    cells = [[(" ", "")] * columns for _ in range(HEIGHT)]
    for at in range(columns):
        rate, low, high = _between(points, left + at / (columns - 1) * (right - left))
        for shaded in range(row(high), row(low) + 1):
            cells[shaded][at] = (marks.shade, STYLES["shade"])
        cells[row(rate)][at] = (marks.fitted, STYLES["fitted"])
    for point in points:
        if point.measured is not None:
            cells[row(point.measured)][column(point.workers)] = (marks.measured, STYLES["measured"])
    lines = []
    for number, found in enumerate(cells):
        label = f"{top * (1 - number / (HEIGHT - 1)):.4g}" if number % 3 == 0 else ""
        text = Text(f"{label:>{LABEL}} {marks.side}", style="default", no_wrap=True)
        for mark, style in found:
            text.append(mark, style=style or None)
        lines.append(text)
    lines.append(Text(" " * (LABEL + 1) + marks.corner + marks.line * columns, no_wrap=True))
    lines.append(_ticks(left, right, columns))
    if left <= present <= right:
        at = column(present)
        note = f"now: {present}"
        before = at > columns - len(note) - 2
        pointed = f"{note} {marks.arrow}" if before else f"{marks.arrow} {note}"
        start = at - len(note) - 1 if before else at
        lines.append(Text(" " * (LABEL + 2 + start) + pointed, style="bold", no_wrap=True))
    shown = f"{marks.measured} measured  {marks.fitted} fitted  {marks.shade} 90 % interval"
    lines.append(Text(f"{'':{LABEL + 2}}{shown}"[:width], style="dim", no_wrap=True))
    return lines


def curve_table(points: Sequence[CurvePoint], present: int) -> Table:
    """The present number of workers, and those that were measured; else all."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for name in ("WORKERS", "FITTED", "LOW", "HIGH", "SEEN"):
        table.add_column(name, justify="right", overflow="fold")
    chosen = [point for point in points if point.measured is not None or point.workers == present]
    for point in chosen or points:
        measured = f"{point.measured:.4g}" if point.measured is not None else ""
        workers = f"{'now: ' if point.workers == present else ''}{point.workers}"
        table.add_row(workers, f"{point.rate:.4g}", f"{point.low:.4g}", f"{point.high:.4g}", measured)
    return table


def _ticks(left: int, right: int, columns: int) -> Text:
    text = f"{left}{right:>{columns - len(str(left))}}"
    middle, name = str((left + right) // 2), "workers"
    if columns > 40 and (left + right) % 2 == 0 and right - left > 3:
        at = (columns - len(middle)) // 2
        text = text[:at] + middle + text[at + len(middle) :]
        at = columns // 4 - len(name) // 2
    else:
        at = (columns - len(name)) // 2
    return Text(" " * (LABEL + 2) + text[:at] + name + text[at + len(name) :], style="dim", no_wrap=True)


def _between(points: Sequence[CurvePoint], workers: float) -> tuple[float, float, float]:
    """The curve and its interval between two of its points."""
    right = next((i for i, point in enumerate(points) if point.workers >= workers - 1e-9), len(points) - 1)
    one, other = points[max(0, right - 1)], points[right]
    share = (workers - one.workers) / (other.workers - one.workers) if other.workers > one.workers else 0.0

    def mix(low: float, high: float) -> float:
        return low + (high - low) * share

    return mix(one.rate, other.rate), mix(one.low, other.low), mix(one.high, other.high)
