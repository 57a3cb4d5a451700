"""How an algorithm did on recorded jobs, and how it failed: ``pliant brain evaluate``."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pliant.brain.evaluation import FailedRun, JudgedAlgorithm
from pliant.cli.render.brain.parts import percent, plain_table, rate
from pliant.core.planning.evaluation import Evaluation, Kind
from pliant.core.plurals import counted

MAX_PROPOSALS = 30  # compared ones that are shown


def evaluation_view(found: JudgedAlgorithm) -> RenderableType:
    parts: list[RenderableType] = []
    if found.evaluation is not None:
        parts += [_job_table(found.evaluation)]
        if any(proposal.kind is Kind.COMPARED for row in found.evaluation.rows for proposal in row.proposals):
            parts += [Text(), _compared_table(found.evaluation)]
        parts += [Text(), Text(_summary(found.evaluation))]
    if found.skipped:
        parts.append(Text(f"left out: {counted(found.skipped, 'job')} of which no period was measured", style="dim"))
    for failure in found.failures:
        parts += [Text(), *_failure(failure)]
    return Group(*parts)


def _job_table(evaluation: Evaluation) -> Table:
    heads = ("JOB", "ASKED", "PROPOSALS", "COMPARED", "NOT TRIED", "MEAN ERROR", "REGRET", "AT THE END", "FAILURES")
    table = plain_table(*heads, right=heads[1:-1])
    for row in evaluation.rows:
        kinds = [proposal.kind for proposal in row.proposals]
        errors = [proposal.error for proposal in row.proposals if proposal.error is not None]
        table.add_row(
            Text(row.job),
            str(row.asked),
            str(len(kinds)),
            str(kinds.count(Kind.COMPARED)),
            str(kinds.count(Kind.NOT_TRIED)),
            percent(sum(errors) / len(errors) if errors else None),
            percent(row.regret),
            percent(row.final_regret),
            Text(_failures(row.failures), style="red"),
        )
    return table


def _compared_table(evaluation: Evaluation) -> Table:
    heads = ("JOB", "PROPOSED", "BEFORE", "PREDICTED", "ACHIEVED", "ERROR", "")
    table = plain_table(*heads, right=("BEFORE", "ACHIEVED", "ERROR"))
    compared = [(row.job, each) for row in evaluation.rows for each in row.proposals if each.kind is Kind.COMPARED]
    for job, each in compared[:MAX_PROPOSALS]:
        prediction = each.prediction
        table.add_row(
            Text(job),
            Text(str(each.configuration)),
            rate(each.before),
            f"{rate(prediction.rate)} ({rate(prediction.low)} to {rate(prediction.high)})" if prediction else "",
            rate(each.achieved),
            percent(each.error),
            "" if each.is_inside else "outside the interval",
        )
    return table


def _summary(found: Evaluation) -> str:
    counts = (
        f"{counted(found.jobs, 'job')}, asked {counted(found.asked, 'time')}: {counted(found.proposals, 'proposal')}"
    )
    if not found.compared:
        compared = "none of them can be compared with what was measured"
    else:
        compared = (
            f"{found.compared} compared with what was measured: median error {percent(found.median_error)}, "
            f"{percent(found.coverage)} inside the interval, {percent(found.right_direction)} in the right direction"
        )
    regret = (
        f"; regret {percent(found.regret)}, at the end {percent(found.final_regret)}"
        if found.regret is not None
        else ""
    )
    failures = f"; failures: {_failures(found.failures)}" if found.failures else ""
    return f"{found.algorithm}: {counts}; {compared}{regret}{failures}"


def _failures(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in failures.items())


def _failure(failure: FailedRun) -> list[RenderableType]:
    where = f" (job {failure.job}, period {failure.period})" if failure.job else ""
    head = Text(f"failed: {failure.result}{where}: {failure.message}", style="red")
    return [head, *(Text(f"  {line}") for line in failure.traceback.splitlines())]
