"""Reports and their parts, with everything that a test does not care about filled in."""

from __future__ import annotations

from dataclasses import replace

from pliant.core.planning.cluster.report import (
    JobDescription,
    JobIdentity,
    JobReport,
    JobSample,
    NodeFacts,
    NodeSample,
    NumberedPeriod,
)
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, Objective, Period, StepParts
from pliant.core.planning.past_jobs import Fingerprint, PastJob
from pliant.core.planning.plan_record import PlanRecord
from pliant.core.planning.proposal import Prediction, Proposal

MARK = Fingerprint("allreduce", "0123456789abcdef", "train.py", "resnet", 50_000)
TWO = Configuration(Shape(2, 1.0, 1024))
FOUR = Configuration(Shape(4, 1.0, 1024))
DESCRIPTION = JobDescription("ann", "vision", 5, True, "cluster", "kubernetes", ("probe", "plan_job"), MARK)
HISTORY = JobHistory(JobKind.ALLREDUCE, TWO, Bounds(RoleBounds(1, 8)), started=900.0, version=3, virtual_workers=8)
TAUGHT = PastJob(MARK, 5000.0, True, FOUR, 123.5, 700.0)


def identity(name: str = "resnet-1", uid: str = "u1") -> JobIdentity:
    return JobIdentity("team", name, uid)


def node(name: str, **others: object) -> NodeFacts:
    facts = NodeFacts(name, "worker", "Running", 2.0, 2048, 1, "host-1", 1000.0, 1001.0, 0.0, "")
    return replace(facts, **others)  # type: ignore[arg-type]


def node_sample(name: str, time: float, records: int = 0) -> NodeSample:
    return NodeSample(name, time, 1.5, 0.1, 512.25, records)


def period(number: int, rate: float = 10.0) -> NumberedPeriod:
    return NumberedPeriod(number, Period(TWO, 1000.0, 1060.0, rate, 0.5, 12, StepParts(0.1, 0.7, 0.2)))


def proposal(reason: str = "four workers are faster") -> Proposal:
    return Proposal("plan_job", reason, FOUR, Prediction(20.0, 18.0, 22.0, change_s=5.0), replace=("worker-1",))


def plan(id: str, origin: str = "", **others: object) -> PlanRecord:
    made = PlanRecord(id, 1100.0, proposal(), TWO, 10.0, 0.5, Objective.BALANCED, 3, 1400.0, origin=origin)
    return replace(made, **others)  # type: ignore[arg-type]


def report(
    sequence: int = 1, records: int = 0, *, job: JobIdentity | None = None, session: int = 1, **others: object
) -> JobReport:
    """The first one of a session has the description."""
    time = 1000.0 + 5 * sequence + 100_000 * session
    made = JobReport(
        job or identity(),
        session,
        sequence,
        time,
        "Running",
        JobSample(time, records, records // 10, 12.5, 2, 0),
        DESCRIPTION if sequence == 1 else None,
    )
    return replace(made, **others)  # type: ignore[arg-type]
