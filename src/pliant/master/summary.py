"""The summary of the job of a living master."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.core.summary import JobSummary
from pliant.master.controller import JobController


def job_summary(master: JobController, components: Mapping[str, object]) -> JobSummary:
    """``components``: those that the job's spec asked for."""
    status = master.status()
    evaluation = status.evaluations[-1].metrics if status.evaluations else {}
    metrics = {**status.progress.metrics, **evaluation}
    return JobSummary(
        status,
        restarts=sum(node.restarts for node in status.nodes),
        replacements=sum(1 for node in status.nodes if node.replaces),
        metrics=metrics,
        evaluation=evaluation,
        master_parts=components,
        plans=master.state.planner.records() if master.state.planner is not None else (),
    )
