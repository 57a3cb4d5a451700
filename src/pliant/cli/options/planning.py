"""Options of automatic resources, which set the ``optimize`` section of the job's spec and make what is given a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pliant.core.errors import InvalidRequest

LOCAL = "local"  # the Brain of this machine


def local_address() -> str:
    from pliant.rpc.brain.access import local_brain

    return local_brain().address


@dataclass(frozen=True)
class PlanningOptions:
    """Of ``run`` and ``train``."""

    auto: Annotated[
        bool,
        typer.Option(
            "--auto",
            help="Plan workers, CPU and memory while the job runs; numbers and amounts that are given are maximums.",
        ),
    ] = False
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="fastest | balanced | cheapest", help="With --auto: what plans aim at. [default: balanced]"
        ),
    ] = None
    deadline: Annotated[
        str | None, typer.Option(metavar="2h | 90m", help="With --auto: time within which the job should finish.")
    ] = None
    budget: Annotated[
        float | None, typer.Option(metavar="NODE-HOURS", help="With --auto: node hours that the job may use.")
    ] = None
    dry_run_plans: Annotated[
        bool, typer.Option("--dry-run-plans", help="With --auto: show plans, but do not carry them out.")
    ] = False

    brain: Annotated[
        str | None,
        typer.Option(
            metavar="local | HOST:PORT",
            help="Report to this Brain; with --auto it plans, with regard to all jobs. local: the one of this machine.",
        ),
    ] = None
    quota: Annotated[str | None, typer.Option(metavar="NAME", help="With --brain: the quota that the job shares.")] = (
        None
    )
    priority: Annotated[int | None, typer.Option(help="With --quota: higher gets its minimum first. [default: 0]")] = (
        None
    )
    preemptible: Annotated[
        bool, typer.Option("--preemptible", help="With --quota: may be suspended for a job of higher priority.")
    ] = False

    def changes(self) -> dict[str, Any]:
        """Of the section ``optimize``."""
        planned = {
            "objective": self.objective,
            "deadline": _seconds(self.deadline),
            "budget": self.budget,
            "dry_run": self.dry_run_plans or None,
        }
        shared = {"quota": self.quota, "priority": self.priority, "preemptible": self.preemptible or None}
        planned = {name: value for name, value in planned.items() if value is not None}
        shared = {name: value for name, value in shared.items() if value is not None}
        if planned and not self.auto:
            flag = {"dry_run": "--dry-run-plans"}.get(name := next(iter(planned)), f"--{name}")
            raise InvalidRequest(f"{flag} requires --auto", hint="add --auto, or leave it out")
        if shared and self.brain is None:
            raise InvalidRequest(f"--{next(iter(shared))} requires --brain", hint="add --brain local, or leave it out")
        section = {**planned, **shared}
        if self.brain is not None:
            section["brain"] = local_address() if self.brain == LOCAL else self.brain
        if self.auto:
            section["mode"] = "cluster" if self.brain is not None else "single-job"
        return {"optimize": section} if section else {}


def _seconds(text: str | None) -> float | str | None:
    """A bare number is one of seconds; the spec reads the rest."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return text
