"""From the job's state to the reports that its master sends to the Brain: what changed since the last one that was answered.

One report is under way at a time, and is sent again as it is until it is answered, refused or old. Meanwhile samples gather, the
newest ``MAX_SAMPLES`` of them, and what is dropped is counted. Facts need no memory: they are compared with what was answered last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from pliant.core.clock import Clock
from pliant.core.job_state import JobState
from pliant.core.nodes.states import Node, NodeState
from pliant.core.planning.cluster.report import (
    MAX_NODES,
    MAX_PLANS,
    JobDescription,
    JobIdentity,
    JobReport,
    JobSample,
    NodeFacts,
    NodeSample,
    NumberedPeriod,
    PlannerFacts,
)
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory, Period
from pliant.core.planning.past_jobs import PastJob
from pliant.core.planning.plan_record import PlanRecord
from pliant.core.planning.planner import Planner
from pliant.core.planning.planner_state import PlannerState
from pliant.master.components.planning.history import HistoryBuilder, Surroundings
from pliant.master.components.stats import MemoryStats

MAX_SAMPLES = 20_000  # of all nodes that wait to be sent: hours, for a job of ordinary size
STALE_S = 600.0  # after which a report that is not answered is made anew
MIN_SAMPLE_S = 5.0  # between two samples of a node


class ReportBuilder:
    def __init__(
        self,
        identity: JobIdentity,
        description: JobDescription,
        state: JobState,
        stats: MemoryStats,
        clock: Clock,
        history: HistoryBuilder | None,
        *,
        session: int,
    ) -> None:
        """``history``: of a job whose resources are planned. ``session``: number of this master's start."""
        self._identity, self._description = identity, description
        self._state, self._stats, self._clock, self._history = state, stats, clock, history
        self._session = session
        self._sequence = 0
        self._under_way: JobReport | None = None
        self._samples: deque[NodeSample] = deque()
        self._sampled_at: dict[str, float] = {}
        self._lost = 0
        self._numbers = PeriodNumbers()
        self._is_described = False
        self._nodes: dict[str, NodeFacts] = {}  # as they were answered
        self._periods: dict[int, Period] = {}
        self._plans: dict[str, PlanRecord] = {}
        self._was: JobHistory | None = None
        self._has_taught = False

    def sample(self) -> None:
        """Of each living node, not more often than makes sense."""
        now = self._clock.now()
        for name, usage in self._stats.report_resource_usage().items():
            if usage.time < self._sampled_at.get(name, float("-inf")) + MIN_SAMPLE_S or not self._is_running(name):
                continue
            self._sampled_at[name] = usage.time
            records = self._stats.node(name).records.total
            self._samples.append(NodeSample(name, usage.time, usage.cpu, usage.throttled, usage.memory_mb, records))
        while len(self._samples) > MAX_SAMPLES:
            self._samples.popleft()
            self._lost += 1
        if len(self._sampled_at) > 2 * MAX_NODES:
            self._sampled_at = {name: at for name, at in self._sampled_at.items() if at > now - 60}

    def next(self, phase: str, around: Surroundings, *, is_led: bool, taught: PastJob | None) -> JobReport:
        """The one that is not answered yet, or a new one. One that is old is made anew: a Brain that was away for long would take
        its time for that of a wrong clock."""
        if self._under_way is not None and abs(self._clock.now() - self._under_way.time) > STALE_S:
            self.withdraw()
        if self._under_way is None:
            self._sequence += 1
            self._under_way = self._make(phase, around, is_led, taught)
        return self._under_way

    def withdraw(self) -> None:
        """The report that is under way was refused, or is old: the next one says all that is in it. Its number is not used again,
        since nobody knows whether the Brain has it."""
        self._under_way = None

    def answered(self, *, wants_all: bool) -> None:
        report, self._under_way = self._under_way, None
        assert report is not None
        for _ in report.samples:
            self._samples.popleft()
        if wants_all:
            self.forget_answers()
            return
        self._is_described = self._is_described or report.description is not None
        self._nodes.update({node.name: node for node in report.nodes})
        self._periods.update({each.number: each.period for each in report.periods})
        self._plans.update({record.id: record for record in report.plans})
        self._was = report.history or self._was
        self._has_taught = self._has_taught or report.taught is not None

    def forget_answers(self) -> None:
        """The Brain does not have what it answered: a database that was restored, or another one. Say everything again."""
        self._is_described = self._has_taught = False
        self._nodes, self._periods, self._plans, self._was = {}, {}, {}, None

    @property
    def is_complete(self) -> bool:
        """Everything was answered, of a job that is over."""
        return self._under_way is None and not self._samples

    # --- inside

    def _make(self, phase: str, around: Surroundings, is_led: bool, taught: PastJob | None) -> JobReport:
        now = self._clock.now()
        planner, periods = self._state.planner, self._state.periods
        history = self._build_history(now, around)
        numbered = self._numbers.of(periods.periods()) if periods is not None else []
        samples = [self._samples[at] for at in range(min(len(self._samples), MAX_NODES))]
        plans = planner.records() if planner is not None else ()
        return JobReport(
            self._identity,
            self._session,
            self._sequence,
            now,
            phase,
            self._job_sample(now),
            None if self._is_described else self._description,
            tuple(facts for facts in self._facts() if self._nodes.get(facts.name) != facts)[:MAX_NODES],
            tuple(samples),
            tuple(each for each in numbered if self._periods.get(each.number) != each.period),
            tuple(record for record in plans if self._plans.get(record.id) != record)[:MAX_PLANS],
            history if history != self._was else None,
            taught if not self._has_taught else None,
            planner_facts(planner, now, is_led=is_led) if planner is not None else PlannerFacts(""),
            *_granted(planner),
            self._lost,
        )

    def _build_history(self, now: float, around: Surroundings) -> JobHistory | None:
        if self._history is None:
            return None
        return replace(self._history.build(now, around), periods=(), similar=())

    def _job_sample(self, now: float) -> JobSample:
        live = self._state.nodes.live() if self._state.nodes is not None else []
        return JobSample(
            now,
            self._stats.accepted_records(),
            self._stats.training.progress.step,
            self._stats.records_per_second(),
            sum(node.state is NodeState.RUNNING for node in live),
            sum(node.waiting_since is not None for node in live),
        )

    def _facts(self) -> Iterable[NodeFacts]:
        nodes = self._state.nodes
        return (node_facts(node) for node in nodes.nodes()) if nodes is not None else ()

    def _is_running(self, name: str) -> bool:
        nodes = self._state.nodes
        return nodes is None or any(node.name == name for node in nodes.live())


def _granted(planner: Planner | None) -> tuple[int, Configuration | None, bool]:
    grant = planner.grant if planner is not None else None
    return (grant.number, grant.limit, grant.is_unlimited) if grant is not None else (0, None, False)


def node_facts(node: Node) -> NodeFacts:
    return NodeFacts(
        node.name,
        node.role,
        node.state.value,
        node.resources.cpu,
        node.resources.memory_mb,
        node.resources.gpu,
        node.host,
        node.created_at,
        node.started_at or 0.0,
        node.ended_at or 0.0,
        node.exit_reason.value if node.exit_reason is not None else "",
    )


def planner_facts(planner: Planner, now: float, *, is_led: bool) -> PlannerFacts:
    until = planner.paused[0] if planner.paused is not None else planner.not_before
    rests = max(0.0, until - now) if planner.state in (PlannerState.OBSERVING, PlannerState.PAUSED) else 0.0
    return PlannerFacts(planner.state.value, rests, is_led)


class PeriodNumbers:
    """Names for periods that hold while the open one grows, and across masters: the millisecond in which each was seen to begin."""

    def __init__(self) -> None:
        self._known: dict[tuple[float, float], int] = {}
        self._open: tuple[int, Period] | None = None

    def of(self, periods: tuple[Period, ...]) -> list[NumberedPeriod]:
        found = []
        for at, period in enumerate(periods):
            span = (period.began, period.ended)
            number = self._known.get(span) or self._of_open(period) or round(period.began * 1000)
            found.append(NumberedPeriod(number, period))
            if at == len(periods) - 1:
                self._open = (number, period)
        self._known = {(each.period.began, each.period.ended): each.number for each in found}
        return found

    def _of_open(self, period: Period) -> int | None:
        """Of one that grew since, or whose beginning was forgotten."""
        if self._open is None:
            return None
        number, before = self._open
        is_same = period.configuration == before.configuration and before.began <= period.began <= before.ended
        return number if is_same and period.ended > before.ended else None
