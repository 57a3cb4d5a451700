"""What the active Brain has in memory of one running job: the newest of everything that its master reported.

A Brain that takes over builds the same from the database. Times of the history are those of the master's clock; ``master_now`` is
that clock, as far as it can be known here, so that no clock is compared with another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pliant.core.job import FINAL_PHASES, Phase
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.cluster.report import JobDescription, JobIdentity, JobReport, NodeFacts, PlannerFacts
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import FinishedJob, JobHistory, Period, Room
from pliant.core.planning.objectives import SERVER, WORKER

MAX_PERIODS = 64  # the last ones, as many as a master has
ENDED = ("Succeeded", "Failed", "Deleted")  # states of nodes
CLUSTER_MODE, MANUAL_MODE = "cluster", "manual"


@dataclass(slots=True)
class JobView:
    identity: JobIdentity
    description: JobDescription
    arrived: float  # first heard of, by the Brain's clock
    phase: str = Phase.PENDING.value
    session: int = 0
    sequence: int = 0
    heard_at: float = 0.0  # by a monotonic clock
    master_time: float = 0.0  # by the master's, then
    planner: PlannerFacts = field(default_factory=lambda: PlannerFacts(""))
    history: JobHistory | None = None  # without periods and similar jobs
    periods: dict[int, Period] = field(default_factory=dict)
    nodes: dict[str, NodeFacts] = field(default_factory=dict)  # those that have not ended
    similar: tuple[FinishedJob, ...] = ()
    granted: Grant | None = None  # that the master keeps to

    @property
    def key(self) -> str:
        return str(self.identity)

    @property
    def is_over(self) -> bool:
        return Phase(self.phase) in FINAL_PHASES

    @property
    def is_manual(self) -> bool:
        """A person decides on its nodes: it is granted nothing and keeps to nothing."""
        return self.description.mode == MANUAL_MODE

    @property
    def is_running(self) -> bool:
        """It has nodes, and may have them: one that was granted nothing waits, also while its nodes are being removed."""
        told = self.granted
        return bool(self.nodes) and (told is None or told.limit is not None or told.is_unlimited)

    @property
    def is_planned(self) -> bool:
        """By the Brain."""
        return self.description.mode == CLUSTER_MODE

    def take(self, report: JobReport, heard_at: float) -> None:
        self.description = report.description or self.description
        self.phase, self.session, self.sequence = report.phase, report.session, report.sequence
        self.heard_at, self.master_time = heard_at, report.time
        self.planner = report.planner
        self.history = report.history or self.history
        for numbered in report.periods:
            self.periods[numbered.number] = numbered.period
        for number in sorted(self.periods)[:-MAX_PERIODS]:
            del self.periods[number]
        for node in report.nodes:
            self.nodes[node.name] = node
        self.nodes = {name: node for name, node in self.nodes.items() if node.state not in ENDED}
        if report.granted or report.granted_limit is not None:
            self.granted = Grant(self.key, report.granted, report.granted_limit, "", is_unlimited=report.is_unlimited)

    def master_now(self, monotonic: float) -> float:
        return self.master_time + max(0.0, monotonic - self.heard_at)

    def full_history(self, room: Room | None = None) -> JobHistory | None:
        """As algorithms get it. ``room``: of the cluster, for jobs whose platform does not say."""
        if self.history is None:
            return None
        periods = tuple(sorted(self.periods.values(), key=lambda period: period.ended))
        similar = self.similar
        if self.description.platform == "local" and not self.history.configuration.worker.memory_mb:
            # Without a limit a node may use what the machine has: what an earlier one used is none.
            similar = tuple(replace(job, worker_memory_p95_mb=0.0, server_memory_p95_mb=0.0) for job in similar)
        return replace(self.history, periods=periods, similar=similar, room=self.history.room or room)

    def configuration_of_nodes(self) -> Configuration | None:
        """What its nodes have, whoever decided that; None: it has none."""
        workers = [node for node in self.nodes.values() if node.role != SERVER]
        servers = [node for node in self.nodes.values() if node.role == SERVER]
        if not workers and not servers:
            return None
        return Configuration(_shape(workers), _shape(servers) if servers else None)

    @property
    def workers(self) -> int:
        return sum(node.role == WORKER for node in self.nodes.values())


def _shape(nodes: list[NodeFacts]) -> Shape:
    """So that the sums are right: nodes may differ."""
    if not nodes:
        return Shape(0)
    count = len(nodes)
    return Shape(
        count,
        sum(node.cpu or 1.0 for node in nodes) / count,
        round(sum(node.memory_mb for node in nodes) / count),
        round(sum(node.gpu for node in nodes) / count),
    )
