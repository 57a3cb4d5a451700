"""A job that plans its own resources, on loads of ``pliant.testing.load``; its plans are read from the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner import Planner
from pliant.core.status import JobStatus
from pliant.master.offline import JobOnDisk
from pliant.testing.jobs import LocalJob

PLANNING_TIMEOUT_S = 240.0  # a busy machine measures longer


class PlannedJob(LocalJob):
    def __init__(
        self,
        folder: Path,
        kind: str,
        *load: str,
        workers: str | None = None,
        servers: Mapping[str, Any] | None = None,
        role: Mapping[str, Any] | None = None,
        optimize: Mapping[str, Any] | None = None,
        strategy: str = "none",
        records: int = 100_000,
        name: str = "job",
        command_of: str = "",
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        """``command_of``: has the same command as the job of that name, so that it is of its kind. ``spec``: the rest of it."""
        self._hurry = folder / f"{command_of or name}.hurry"
        self._hurry.unlink(missing_ok=True)
        command = ["python", "-m", "pliant.testing.load", kind, "--records", str(records), *load]
        command += ["--hurry", str(self._hurry)]
        worker: dict[str, Any] = {"command": command, **(role or {})}
        if workers is not None:
            worker["replicas"] = workers
        roles = {"worker": worker, **({"ps": dict(servers)} if servers is not None else {})}
        planned = {"optimize": {"mode": "single-job", **(optimize or {})}, "strategy": strategy, "roles": roles}
        super().__init__(folder, command, spec={**planned, **(spec or {})}, name=name)

    def __enter__(self) -> Self:
        self.start()
        self.wait_for(lambda status: status, "the master, and with it a journal", PLANNING_TIMEOUT_S)
        return self

    def hurry(self) -> None:
        """Records cost nothing from now on."""
        self._hurry.touch()

    def planner(self) -> Planner:
        planner = JobOnDisk(self.home).state.planner
        assert planner is not None
        return planner

    def plans(self) -> Sequence[PlanRecord]:
        return self.planner().records()

    def plan(self, name: str) -> PlanRecord:
        return next(plan for plan in self.plans() if plan.id == name)

    def wait_for_plan(self, algorithm: str, *outcomes: Outcome) -> PlanRecord:
        def found() -> PlanRecord | None:
            plans = [p for p in self.plans() if p.proposal.algorithm == algorithm]
            return next((p for p in plans if not outcomes or p.outcome in outcomes), None)

        return self.until(found, f"a plan of {algorithm}", PLANNING_TIMEOUT_S)

    def wait_for_replicas(self, role: str, count: int) -> JobStatus:
        def reached(status: JobStatus) -> JobStatus | None:
            found = status.role(role)
            return status if found is not None and found.wanted == count and found.ready == count else None

        return self.wait_for(reached, f"{count} nodes of role {role}", PLANNING_TIMEOUT_S)

    def finish(self) -> None:
        """Let it end, and see that no record was lost."""
        self.hurry()
        assert self.wait(PLANNING_TIMEOUT_S) == 0, self.report()
        assert sum(row.end - row.begin for row in self.audit()) == self.summary()["progress"]["records_total"]
