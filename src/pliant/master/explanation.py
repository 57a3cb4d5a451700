"""A job's plans and where its time goes, for people: of a living master, or (plans only) of a journal that was replayed."""

from __future__ import annotations

from statistics import fmean

from pliant.core.end_policy import worker_roles
from pliant.core.errors import NotAvailable
from pliant.core.job_state import JobState
from pliant.core.planning.explanation import Explanation
from pliant.core.planning.history import StepParts
from pliant.core.planning.planner_status import planner_status
from pliant.core.planning.reports import MAX_RECENT, JobExplanation, JobPlans
from pliant.master.components.planning.brain_link import BrainLink
from pliant.master.components.planning.planner import ResourcePlanner
from pliant.master.components.stats import MemoryStats
from pliant.master.controller import JobController


def plans_of(name: str, state: JobState, note: str = "", brain: str = "") -> JobPlans:
    """``brain``: whether it leads, which only a living master knows."""
    planner = state.planner
    if planner is None:
        return JobPlans(name, note=note)
    return JobPlans(name, planner_status(planner, brain), planner.records(), note)


def plans_of_job(controller: JobController) -> JobPlans:
    link = controller.find(BrainLink)
    return plans_of(controller.name, controller.state, brain=link.standing if link is not None else "")


async def explain_job(controller: JobController) -> JobExplanation:
    """Raises ``NotAvailable`` if what fits curves is not installed where the master runs."""
    planner = controller.find(ResourcePlanner)
    explanation = await _explain(planner) if planner is not None else None
    plans = plans_of_job(controller)
    return JobExplanation(
        plans.name, plans.planner, _time_of_workers(controller), explanation, plans.plans[-MAX_RECENT:]
    )


async def _explain(planner: ResourcePlanner) -> Explanation:
    try:
        return await planner.explain()
    except ImportError as error:
        raise NotAvailable(
            f"an explanation needs a package that is not installed where the master runs: {error.name}",
            hint="pip install 'pliant[auto]'",
        ) from error


def _time_of_workers(controller: JobController) -> StepParts | None:
    stats, nodes = controller.find(MemoryStats), controller.state.nodes
    if stats is None or nodes is None:
        return None
    names = [node.name for role in worker_roles(nodes) for node in nodes.active(role)]
    known = [share for name in names if (share := stats.time_shares(name)) is not None]
    if not known:
        return None
    return StepParts(fmean(s.data for s in known), fmean(s.compute for s in known), fmean(s.peers for s in known))
