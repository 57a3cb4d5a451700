"""What a master reports of its job to the Brain, every few seconds: facts that changed since the report before.

A report belongs to one *session*, the life of one master (the number of its start), and has a number in it that rises by one. The
pair orders all reports of a job, so that one that is sent twice counts once, and one that is lost is noticed. Everything in it is
absolute (how many records were accepted so far, not how many more), so the next report makes up for one that was lost; only samples
of the time in between are missing then.
"""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory, Period
from pliant.core.planning.past_jobs import Fingerprint, PastJob
from pliant.core.planning.plan_record import PlanRecord

MAX_NODES = 4096  # facts, and samples, of one report
MAX_PERIODS = 64  # of one report
MAX_PLANS = 200


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Whose report it is. ``uid`` tells a job from an earlier one of the same name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class JobDescription:
    """What does not change while a master lives; with its first report."""

    owner: str
    quota: str  # by name; empty: none
    priority: int  # higher goes first
    is_preemptible: bool
    mode: str  # manual, single-job or cluster
    platform: str
    algorithms: tuple[str, ...]  # that the job's description names; empty: the default chain
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, as the master knows it."""

    name: str
    role: str
    state: str
    cpu: float  # that it was given; 0: no limit
    memory_mb: int
    gpu: int
    host: str
    created_at: float
    started_at: float  # 0: not yet
    ended_at: float  # 0: not yet
    exit_reason: str  # empty: it has not ended


@dataclass(frozen=True, slots=True)
class NodeSample:
    node: str
    time: float  # seconds since the epoch
    cpu: float  # cores, mean since the sample before
    throttled: float  # share of the time
    memory_mb: float
    records: int  # accepted so far


@dataclass(frozen=True, slots=True)
class JobSample:
    time: float
    records: int  # accepted so far
    step: int
    rate: float  # records per second
    running: int  # nodes
    waiting: int  # nodes that are unschedulable


@dataclass(frozen=True, slots=True)
class NumberedPeriod:
    """``number`` names the period within the job; an open period is reported again as it grows."""

    number: int
    period: Period


@dataclass(frozen=True, slots=True)
class PlannerFacts:
    """Of the job's planner: whether it could take an offer now. Seconds, not times: clocks are not compared."""

    state: str  # see PlannerState; empty: the job plans nothing
    rests_s: float = 0.0  # until the end of its cool-down or pause
    is_led: bool = False  # it takes the Brain's offers and does not plan by itself


@dataclass(frozen=True, slots=True)
class JobReport:
    job: JobIdentity
    session: int  # number of the master's start
    sequence: int  # in the session, from 1
    time: float  # of the master's clock
    phase: str
    sample: JobSample
    description: JobDescription | None = None  # with the first report of a session
    nodes: tuple[NodeFacts, ...] = ()  # that changed
    samples: tuple[NodeSample, ...] = ()
    periods: tuple[NumberedPeriod, ...] = ()  # that changed
    plans: tuple[PlanRecord, ...] = ()  # that changed
    history: JobHistory | None = None  # without periods and similar jobs; None: as before
    taught: PastJob | None = None  # with the last report of a job that ended
    planner: PlannerFacts = PlannerFacts("")
    granted: int = 0  # number of the last grant that is kept to
    granted_limit: Configuration | None = None  # that it says; None: nothing, or it has no limit
    is_unlimited: bool = False  # the last grant says that nothing limits the job
    lost: int = 0  # samples that were dropped while the Brain was away, so far in this session
