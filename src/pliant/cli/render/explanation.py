"""Why a job has what it has: where the time goes, the fitted curve, the next plan and what keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pliant.cli.render.curve import CurveChart
from pliant.cli.render.plans import HOW_TO_PLAN, plan_block, planner_text, proposal_block
from pliant.core.planning.explanation import Explanation
from pliant.core.planning.history import StepParts
from pliant.core.planning.reports import JobExplanation

BAR_WIDTH, MIN_WIDTH = 24, 64  # columns: of a bar, and of a terminal that has room for one
MIN_SHARE = 0.005
UNSURE = 0.5  # of what is known of a term
SILENT = "not measured: no program of a worker has reported its waiting times yet"


def explanation_view(found: JobExplanation, now: float) -> RenderableType:
    parts: list[RenderableType] = [Text(found.name, style="bold")]
    if found.note:
        parts.append(Text(found.note, style="yellow"))
        if found.planner is None:
            parts.append(Text(HOW_TO_PLAN))
        return Group(*parts, *_last_plans(found))
    if found.planner is not None:
        parts.append(planner_text(found.planner, now))
    explained = found.explanation
    if explained is not None:
        rate = f"{explained.rate:.4g} records/s" if explained.rate is not None else "speed not measured yet"
        parts.append(Text(f"now: {explained.configuration}; {rate}"))
    shares = _time_shares(found.time) or (explained.parts if explained is not None else {})
    parts += [Text(), Text("where the time of workers goes", style="bold")]
    parts.append(Shares(shares) if shares else Text(SILENT))
    if bottleneck := max(shares, key=lambda name: shares[name], default="") or (explained and explained.bottleneck):
        parts.append(Text(f"bottleneck: {bottleneck}"))
    parts += [Text(), *(_planned(explained) if explained is not None else [Text(HOW_TO_PLAN)])]
    return Group(*parts, *_last_plans(found))


def _planned(explained: Explanation) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if explained.terms:
        unsure = frozenset(name for name, known in explained.identified.items() if known < UNSURE)
        parts += [Text("what a step consists of, by the fit", style="bold"), Shares(explained.terms, unsure), Text()]
    if explained.curve:
        head = Text("records/s by number of workers", style="bold")
        parts += [head, CurveChart(explained.curve, explained.configuration.worker.replicas), Text()]
    if explained.next_plan is None:
        parts.append(Text(f"no next plan: {explained.not_yet}"))
        return parts
    parts += [Text("next plan", style="bold"), proposal_block(explained.next_plan)]
    parts.append(Text(f"not made yet: {explained.not_yet}" if explained.not_yet else "it is about to be made"))
    return parts


def _last_plans(found: JobExplanation) -> list[RenderableType]:
    if found.planner is None:
        return []
    parts: list[RenderableType] = [Text(), Text("last plans" if found.plans else "no plans yet", style="bold")]
    for record in found.plans:
        parts.append(plan_block(record))
    return parts


def _time_shares(parts: StepParts | None) -> dict[str, float]:
    if parts is None:
        return {}
    return {
        "waiting for data": parts.data,
        "computing": parts.compute,
        "waiting for peers or servers": parts.peers,
    }


@dataclass(frozen=True)
class Shares:
    """Parts of a whole, largest first, with bars where there is room."""

    shares: Mapping[str, float]
    unsure: frozenset[str] = frozenset()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(overflow="fold")
        table.add_column(justify="right", no_wrap=True)
        for name, share in sorted(self.shares.items(), key=lambda entry: -entry[1]):
            if share < MIN_SHARE:
                continue
            cells: list[RenderableType] = [Text(f"  {name}"), f"{100 * share:.0f} %"]
            if options.max_width >= MIN_WIDTH:
                cells.append(ProgressBar(total=1.0, completed=min(1.0, share), width=BAR_WIDTH))
                cells.append(Text("uncertain" if name in self.unsure else "", style="dim"))
            table.add_row(*cells)
        yield table
