"""Options of automatic resources, which set the ``optimize`` section of the job's spec and make what is given a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pliant.core.errors import InvalidRequest


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

    def changes(self) -> dict[str, Any]:
        """Of the section ``optimize``."""
        given = {
            "objective": self.objective,
            "deadline": _seconds(self.deadline),
            "budget": self.budget,
            "dry_run": self.dry_run_plans or None,
        }
        section = {name: value for name, value in given.items() if value is not None}
        if not self.auto:
            if section:
                flag = {"dry_run": "--dry-run-plans"}.get(name := next(iter(section)), f"--{name}")
                raise InvalidRequest(f"{flag} requires --auto", hint="add --auto, or leave it out")
            return {}
        return {"optimize": {"mode": "single-job", **section}}


def _seconds(text: str | None) -> float | str | None:
    """A bare number is one of seconds; the spec reads the rest."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return text
