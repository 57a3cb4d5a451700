"""A tiny job that the planner changes: a true speed, noise, a cost of each change. The real simulator is ``pliant.sim``."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pliant.core.planning.configuration import Bounds, Configuration
from pliant.core.planning.history import JobHistory, JobKind, Objective
from pliant.core.planning.objectives import with_shape
from pliant.core.planning.periods import PeriodBook
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.planner import Planner
from pliant.core.resources import Resources

SAMPLE_S = 5.0
STARTED = 10_000.0


@dataclass
class World:
    kind: JobKind
    configuration: Configuration
    bounds: Bounds
    truth: Callable[[Configuration], float]
    planner: Planner
    noise: float = 0.05
    change_s: float = 10.0
    seed: int = 0
    virtual_workers: int = 0
    objective: Objective = Objective.BALANCED
    remaining: int | None = None
    book: PeriodBook = field(default_factory=PeriodBook)
    now: float = STARTED
    records: float = 0.0
    version: int = 1
    changes: list[tuple[float, Configuration]] = field(default_factory=list)
    journal: list[tuple[str, float, str]] = field(default_factory=list)
    more: Callable[[JobHistory], JobHistory] = lambda history: history

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._idle_until = 0.0

    def history(self) -> JobHistory:
        left = None if self.remaining is None else max(0, int(self.remaining - self.records))
        return self.more(
            JobHistory(
                self.kind,
                self.configuration,
                self.bounds,
                started=STARTED,
                version=self.version,
                virtual_workers=self.virtual_workers,
                remaining_records=left,
                objective=self.objective,
                periods=self.book.periods(),
                settling_since=self.book.settling_since,
            )
        )

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.tick()

    def tick(self) -> None:
        self.now += SAMPLE_S
        if self.now > self._idle_until:
            factor = self._random.lognormvariate(0.0, self.noise)
            self.records += self.truth(self.configuration) * SAMPLE_S * factor
        is_ready = self.now > self._idle_until
        self.book.observe(self.now, configuration=self.configuration.to_json(), records=self.records, ready=is_ready)
        for _ in range(3):
            step = self.planner.next_step(self.history(), self.now)
            if step is None:
                break
            plan = self.apply(step.method, dict(step.arguments))
            if isinstance(plan, ResourcePlan):
                self.carry_out(plan)

    def apply(self, method: str, arguments: dict[str, Any]) -> Any:
        text = json.dumps(arguments)
        self.journal.append((method, self.now, text))
        return self.planner.apply(method, self.now, json.loads(text))

    def carry_out(self, plan: ResourcePlan) -> None:
        assert plan.base_version == self.version
        new = after(self.configuration, plan)
        assert self.bounds.allows(new), "a plan never leaves the bounds"
        self.change(new)
        self.apply("accepted", {"plan": plan.id})

    def change(self, new: Configuration) -> None:
        self.configuration = new
        self.version += 1
        self.changes.append((self.now, new))
        self._idle_until = self.now + self.change_s


def after(configuration: Configuration, plan: ResourcePlan) -> Configuration:
    """What a job has once the plan is carried out."""
    for role, wanted in plan.roles.items():
        shape = configuration.worker if role == "worker" else configuration.server
        assert shape is not None
        resources = wanted.resources or Resources(shape.cpu, shape.memory_mb, shape.gpu)
        shape = replace(
            shape,
            replicas=shape.replicas if wanted.replicas is None else wanted.replicas,
            cpu=resources.cpu,
            memory_mb=resources.memory_mb,
            gpu=resources.gpu,
        )
        configuration = with_shape(configuration, role, shape)
    if plan.micro_batch:
        configuration = replace(configuration, micro_batch=plan.micro_batch)
    return configuration
