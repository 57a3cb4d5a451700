"""Plans of a job's planner: as blocks (``pliant plans``), and in one line each, for who follows the job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pliant.core.planning.objectives import difference
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.proposal import Prediction, Proposal
from pliant.core.planning.reports import JobPlans
from pliant.core.plurals import counted
from pliant.core.status import PlannerStatus, PlanStatus

HOW_TO_PLAN = (
    "nothing is planned (optimize: manual); start the job with `--auto`, or set `optimize: single-job` in its spec"
)
OUTCOME_STYLES = {
    Outcome.KEPT: "green",
    Outcome.ROLLED_BACK: "red",
    Outcome.REFUSED: "red",
    Outcome.EXPIRED: "yellow",
    Outcome.SUPERSEDED: "yellow",
    Outcome.ADVISED: "cyan",
}


def plans_view(found: JobPlans, now: float) -> RenderableType:
    head = Text().append(found.name, style="bold").append(f"  {summed_up(found.plans)}", style="default")
    parts: list[RenderableType] = [head]
    if found.note:
        parts.append(Text(found.note, style="yellow"))
    elif found.planner is not None:
        parts.append(planner_text(found.planner, now))
    if found.planner is None:
        parts.append(Text(HOW_TO_PLAN))
    for record in found.plans:
        parts += [Text(), plan_block(record)]
    return Group(*parts)


def planner_text(planner: PlannerStatus, now: float) -> RenderableType:
    state = Text(f"planner: {planner.sentence(now)}")
    return Group(state, Text(planner.grant.sentence())) if planner.grant is not None else state


def summed_up(records: Sequence[PlanRecord]) -> str:
    """Such as: 3 plans: 2 kept, 1 rolled back."""
    counts = Counter(record.standing for record in records if not record.rolls_back)
    if not counts:
        return "no plans"
    return f"{counted(counts.total(), 'plan')}: " + ", ".join(f"{number} {name}" for name, number in counts.items())


def plan_block(record: PlanRecord) -> RenderableType:
    head = Text().append(record.id, style="bold")
    head.append(f"  {_moment(record.time)}  {record.proposal.algorithm}  ", style="default")
    head.append(record.standing, style=OUTCOME_STYLES.get(record.outcome, "yellow"))
    rows = [("reason", record.proposal.reason), *_change(record), *_facts(record.proposal)]
    if record.before_rate:
        rows.append(("before", f"{record.before_rate:.4g} records/s"))
    if record.achieved_rate is not None:
        rows.append(("achieved", f"{record.achieved_rate:.4g} records/s{_compared(record)}"))
    if record.judgement:
        rows.append(("result", record.judgement))
    return Group(head, _rows(rows))


def proposal_block(proposal: Proposal) -> RenderableType:
    """Of what would be planned next."""
    return _rows([("reason", proposal.reason), ("algorithm", proposal.algorithm), *_facts(proposal)])


def plan_lines(known: dict[str, str], records: Iterable[PlanRecord]) -> list[str]:
    """What is new of plans, a sentence each. ``known``: by plan, its standing; brought up to date."""
    lines = []
    for record in records:
        before, known[record.id] = known.get(record.id), record.standing
        if before == record.standing:
            continue
        if before is None:
            lines.append(_made(record))
        if record.ended_at is not None and not (before is None and record.outcome is Outcome.ADVISED):
            lines.append(_ended(record))
    return lines


def last_plan_line(plan: PlanStatus) -> str:
    """Of a job's status."""
    if not plan.algorithm:
        return f"last change: {plan.reason or 'no reason given'}"
    outcome = f" ({plan.outcome})" if plan.outcome else ""
    return f"last plan {plan.name} by {plan.algorithm}{outcome}: {plan.reason}"


def _made(record: PlanRecord) -> str:
    proposal, prediction = record.proposal, record.proposal.prediction
    what = "advice" if record.outcome is Outcome.ADVISED else "plan"
    expected = f"; expects {prediction_text(prediction)}" if prediction is not None and prediction.rate else ""
    return f"{what} {record.id} ({proposal.algorithm}): {proposal.reason}{expected}"


def _ended(record: PlanRecord) -> str:
    return f"plan {record.id} {record.standing}" + (f": {record.judgement}" if record.judgement else "")


def prediction_text(prediction: Prediction) -> str:
    return f"{prediction.rate:.4g} records/s ({prediction.low:.4g} to {prediction.high:.4g})"


def _facts(proposal: Proposal) -> list[tuple[str, str]]:
    prediction, rows = proposal.prediction, []
    if prediction is not None and prediction.rate:
        pause = f", {prediction.change_s:.0f} s without records for the change" if prediction.change_s >= 1 else ""
        rows.append(("predicted", prediction_text(prediction) + pause))
    if prediction is not None and prediction.memory_mb:
        rows.append(("memory", f"{prediction.memory_mb:,.0f} MB on the fullest node"))
    if proposal.replace:
        rows.append(("replaces", ", ".join(proposal.replace)))
    if proposal.seats:
        rows.append(("seats", ", ".join(f"{node} {seats}" for node, seats in proposal.seats.items())))
    if proposal.moves:
        moves = (f"{share:.0%} of the partitions of {node}" for node, share in proposal.moves.items())
        rows.append(("moves", ", ".join(moves)))
    return rows


def _change(record: PlanRecord) -> list[tuple[str, str]]:
    new = record.proposal.configuration
    if new == record.before:
        return []
    when = ", at the next restart of each node" if record.proposal.at_next_restart else ""
    return [("change", difference(record.before, new) + when)]


def _compared(record: PlanRecord) -> str:
    prediction = record.proposal.prediction
    if prediction is None or not prediction.rate or record.achieved_rate is None:
        return ""
    inside = prediction.low <= record.achieved_rate <= prediction.high
    return f", {'within' if inside else 'outside'} the interval"


def _rows(rows: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
