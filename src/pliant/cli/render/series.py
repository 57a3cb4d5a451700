"""Curves of a job in the terminal: one small chart each, over time, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from pliant.core.series.curve import Curve, thinned
from pliant.core.series.job_series import JobSeries

HEIGHT = 4  # rows of a chart
LABEL = 10  # columns of the vertical axis
MAX_WIDTH, MIN_WIDTH = 100, 30  # columns
BLOCKS, ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:#"
NOTHING = "nothing recorded yet; programs report metrics with job.report(step, loss=…)"


def series_view(found: JobSeries, chosen: Sequence[str], max_charts: int) -> RenderableType:
    """Of the chosen metrics; if none are, of the speed and of as many metrics as that."""
    parts: list[RenderableType] = [Text(found.name, style="bold")]
    if found.note:
        parts.append(Text(found.note, style="yellow"))
    shown = {name: found.metrics[name] for name in chosen} or dict(_most_important(found, max_charts))
    parts += [part for name, curve in shown.items() for part in (_headline(name, curve), CurveChart(curve))]
    if not shown:
        parts.append(Text(NOTHING))
    if not chosen and (more := [name for name in found.metrics if name not in shown]):
        parts.append(Text(f"more metrics, with --metric NAME: {', '.join(more)}", style="dim"))
    parts += [Text(f"left out: {what}", style="yellow") for what in found.left_out]
    return Group(*parts)


def _most_important(found: JobSeries, max_charts: int) -> Iterable[tuple[str, Curve]]:
    yield from list(found.metrics.items())[:max_charts]
    for name, curve in (("records/s", found.records_per_second), ("steps/s", found.steps_per_second)):
        if any(point.maximum for point in curve):
            yield name, curve


def _headline(name: str, curve: Curve) -> Text:
    last, steps = curve[-1], f"steps {curve[0].step} to {curve[-1].step}"
    seconds = last.time - curve[0].time
    return Text.assemble((name, "bold"), f"  last {last.mean:.5g}  ({steps}, {seconds:.0f} s)")


@dataclass(frozen=True)
class CurveChart:
    curve: Curve

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(MAX_WIDTH, options.max_width)
        if width >= MIN_WIDTH and self.curve:
            blocks = ASCII_BLOCKS if options.ascii_only else BLOCKS
            yield from chart_rows(self.curve, width, blocks)


def chart_rows(curve: Curve, width: int, blocks: str) -> list[Text]:
    """Top to bottom; each column is a bar as high as the mean of its part of the curve."""
    means = [point.mean for point in thinned(curve, width - LABEL - 2)]
    low, high = min(means), max(means)
    if low == high:
        low, high = min(0.0, low), max(0.0, high) or 1.0
    full = len(blocks) - 1
    units = [1 + round((mean - low) / (high - low) * (HEIGHT * full - 1)) for mean in means]
    rows = []
    for row in range(HEIGHT - 1, -1, -1):
        label = f"{high:.4g}" if row == HEIGHT - 1 else f"{low:.4g}" if row == 0 else ""
        bars = "".join(blocks[min(full, max(0, unit - row * full))] for unit in units)
        rows.append(Text.assemble(f"{label:>{LABEL}} ", (bars, "cyan"), no_wrap=True))
    return rows
