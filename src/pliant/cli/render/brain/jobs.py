"""The table of ``pliant brain jobs``."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from pliant.brain.inspection import ListedJob, standing
from pliant.cli.render.brain.parts import ago, plain_table
from pliant.core.planning.cluster.report import JobSample

HEADS = (
    *("JOB", "PHASE", "QUOTA", "PRIORITY", "NODES", "RECORDS", "RECORDS/S", "MODE"),
    *("LAST PLAN", "HEARD", "LOST"),
)
RIGHT = ("PRIORITY", "NODES", "RECORDS", "RECORDS/S", "LOST")


def job_table(found: Sequence[ListedJob], now: float) -> Table:
    table = plain_table(*HEADS, right=RIGHT)
    for listed in found:
        job, described, plan = listed.job, listed.job.description, listed.last_plan
        table.add_row(
            Text(str(job.identity)),
            Text(job.phase, style="green" if job.is_running else "default"),
            Text(described.quota),
            str(described.priority),
            nodes_text(job.sample) if job.is_running else "",
            f"{job.sample.records:,}",
            f"{job.sample.rate:,.1f}" if job.is_running else "",
            Text(described.mode),
            Text(f"{plan.proposal.algorithm}, {standing(plan)}" if plan is not None else ""),
            ago(job.last_heard_at, now),
            str(job.reports_lost) if job.reports_lost else "",
        )
    return table


def nodes_text(sample: JobSample) -> str:
    """Such as 4, or 4+2 if two wait for room."""
    return f"{sample.running}+{sample.waiting}" if sample.waiting else str(sample.running)
