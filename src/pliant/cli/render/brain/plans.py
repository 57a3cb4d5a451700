"""Plans of many jobs with what came of them, and how well algorithms predict: ``pliant brain plans``."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pliant.brain.inspection import standing
from pliant.brain.store.plans import StoredPlan
from pliant.cli.render.brain.parts import moment, percent, plain_table, rate
from pliant.cli.render.plans import OUTCOME_STYLES
from pliant.core.planning.plan_statistics import AlgorithmStatistics, comparison_of


def plans_view(found: Sequence[StoredPlan], summed: Sequence[AlgorithmStatistics]) -> RenderableType:
    parts: list[RenderableType] = [plan_table(found)]
    if summed:
        parts += [Text(), statistics_table(summed)]
    return Group(*parts)


def plan_table(found: Sequence[StoredPlan], *, with_job: bool = True) -> Table:
    heads = ("TIME", "JOB", "ALGORITHM", "REASON", "PREDICTED", "ACHIEVED", "OUTCOME", "JUDGEMENT")
    table = plain_table(*(head for head in heads if with_job or head != "JOB"), right=("ACHIEVED",))
    for plan in found:
        record, judgement = plan.record, plan.closed
        style = "yellow"
        if record is not None:
            judgement, style = record.judgement, OUTCOME_STYLES.get(record.outcome, "yellow")
        table.add_row(
            moment(plan.made_at),
            *((Text(str(plan.job)),) if with_job else ()),
            Text(plan.proposal.algorithm),
            Text(plan.proposal.reason),
            _predicted(plan),
            rate(record.achieved_rate) if record is not None else "",
            Text(standing(plan), style=style),
            Text(judgement),
        )
    return table


def statistics_table(summed: Sequence[AlgorithmStatistics]) -> Table:
    heads = ("ALGORITHM", "PLANS", "KEPT", "ROLLED BACK", "COMPARED", "MEDIAN ERROR", "COVERAGE")
    table = plain_table(*heads, right=heads[1:])
    for each in summed:
        counts = (each.plans, each.kept, each.rolled_back, each.compared)
        table.add_row(Text(each.algorithm), *map(str, counts), percent(each.median_error), percent(each.coverage))
    return table


def _predicted(plan: StoredPlan) -> str:
    prediction = plan.proposal.prediction
    if prediction is None or not prediction.rate:
        return ""
    record = plan.record
    compared = comparison_of(record) if record is not None else None
    outside = ", outside" if compared is not None and not compared.is_inside else ""
    return f"{rate(prediction.rate)} ({rate(prediction.low)} to {rate(prediction.high)}{outside})"
