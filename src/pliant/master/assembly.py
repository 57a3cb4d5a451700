"""Puts the components of a master together, as the job needs them: the combinations of the modular master are lists.

The order of the list is the order of ticks and of signals: who hands out work and keeps state comes before who supervises
nodes, so a tick acts on what the ones before it found.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pliant.core.changes import DesiredState
from pliant.core.clock import Clock
from pliant.core.job_progress import job_progress
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.capacity import Capacity
from pliant.core.nodes.states import Launch
from pliant.core.parameters.book import ParameterBook
from pliant.core.planning.cluster.report import JobDescription, JobIdentity
from pliant.core.planning.history import ChangeCosts, Objective, Room
from pliant.core.planning.past_jobs import Fingerprint, fingerprint
from pliant.core.planning.registry import DEFAULT_CHAIN, chain
from pliant.core.rendezvous.book import RendezvousBook
from pliant.core.rendezvous.groups import GroupBook
from pliant.core.resources import Resources
from pliant.core.shards.book import ShardBook
from pliant.master.components.advice import Adviser
from pliant.master.components.base import Component
from pliant.master.components.changes import ChangeHandler
from pliant.master.components.checkpoints import CheckpointMonitor
from pliant.master.components.groups import GroupCoordinator
from pliant.master.components.nodes import NodeManager, unknown_capacity
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.components.planning.brain_link import FALLBACK_S, BrainLink
from pliant.master.components.planning.history import HistoryBuilder, PlanningTerms, RoleTerms, Surroundings
from pliant.master.components.planning.past_jobs import PastJobs, history_dir
from pliant.master.components.planning.planner import ResourcePlanner
from pliant.master.components.planning.report_builder import ReportBuilder
from pliant.master.components.platform_usage import PlatformUsage
from pliant.master.components.programs import ProgramSupervisor
from pliant.master.components.progress import ProgressRecorder
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.components.rollouts import RolloutController
from pliant.master.components.series import SeriesRecorder
from pliant.master.components.server_pool import ServerPool
from pliant.master.components.shards import DataShardManager
from pliant.master.components.signals import SignalBus
from pliant.master.components.stats import MemoryStats
from pliant.master.components.status_reporter import StatusReporter
from pliant.master.components.training import TrainingService
from pliant.master.components.usage_recorder import UsageRecorder
from pliant.master.controller import JobController
from pliant.master.journal.journal import Journal
from pliant.master.journal.notes import NoteStore
from pliant.platforms.base import ControlChannel, Measured, NodeLaunch, NodeWatcher, Scaler
from pliant.rpc.brain.access import BrainAccess
from pliant.rpc.brain.channel import AsyncBrainClient
from pliant.spec import JobSpec
from pliant.spec.state import CLUSTER_INTERVAL_S, sample_interval

MIN_REPORT_S = 1.0  # between two reports to the Brain


async def unknown_room() -> Room | None:
    return None


@dataclass(frozen=True, slots=True)
class OpenPlatform:
    """What the platform of the job offers to a master that manages nodes."""

    scaler: Scaler
    watcher: NodeWatcher
    describe: Callable[[Launch], NodeLaunch]
    is_single_machine: bool
    can_resize: bool = False
    channel: ControlChannel | None = None
    usage: AsyncIterator[Sequence[Measured]] | None = None
    capacity: Callable[[], Awaitable[Capacity | None]] = unknown_capacity
    room: Callable[[], Awaitable[Room | None]] = unknown_room


@dataclass(frozen=True, slots=True)
class Assembly:
    spec: JobSpec
    controller: JobController
    notes_dir: Path
    parameters_dir: Path
    series_file: Path
    takes_over: bool = False  # living nodes that the journal does not know, see core/takeover.py
    brain: BrainAccess | None = None  # to which the job reports
    identity: JobIdentity = field(default_factory=lambda: JobIdentity("", "", ""))
    owner: str = ""

    @property
    def state(self) -> JobState:
        return self.controller.state

    @property
    def journal(self) -> Journal:
        return self.controller.journal

    @property
    def clock(self) -> Clock:
        return self.controller.clock

    @property
    def signals(self) -> SignalBus:
        return self.controller.signals

    def components(self, platform: OpenPlatform | None) -> list[Component]:
        """``platform``: where nodes come from; None: this master manages none."""
        state = self.state
        stats = MemoryStats(self.clock, state)
        made: list[Component] = [stats, ProgressRecorder(state.progress, stats.training, self.journal, self.clock)]
        made.append(SeriesRecorder(self.spec.name, state, stats, self.clock, self.series_file))
        made.append(self._checkpoints(stats))
        shards = self._shards(state.shards) if state.shards is not None else None
        parameters = None
        if shards is not None:
            made.append(shards)
        rendezvous = self._rendezvous(state.rendezvous) if state.rendezvous is not None else None
        if rendezvous is not None:
            made.append(rendezvous)
        if state.training is not None and shards is not None:
            evaluation = self.spec.evaluation_dataset()
            made.append(TrainingService(state.training, self.journal, self.signals, shards, evaluation))
        if state.parameters is not None and shards is not None:
            parameters = self._parameters(state.parameters, shards)
            made.append(parameters)
        nodes, channel, before_nodes = None, None, len(made)
        if platform is not None and state.nodes is not None and state.groups is not None:
            nodes, others = self._nodes(state.nodes, state.groups, parameters, platform, stats)
            made += [*others, RolloutController(nodes, self.journal, self.clock, parameters, rendezvous), nodes]
            if platform.usage is not None:
                made.append(PlatformUsage(stats, state.nodes, self.clock, platform.usage))
            if state.usage is not None:
                made.append(UsageRecorder(state.usage, state.nodes, stats, self.journal, self.clock))
            channel = platform.channel
            made.append(Adviser(state, self.journal))
        if state.changes is not None:
            changes = self._changes(state.changes, nodes, parameters, rendezvous, channel)
            made.append(changes)
            link = self._brain_link(stats) if self.brain is not None else None
            first: list[Component] = [link] if link is not None else []
            if platform is not None and state.planner is not None:
                first.append(self._planner(platform, stats, changes, link))
            made[before_nodes:before_nodes] = first  # the first nodes are planned before they are launched
        if channel is not None:
            is_kept = self.spec.journal.store == "database" or self.spec.platform.kubernetes.journal.volume == "claim"
            can_be_lost = state.rendezvous is not None and not is_kept
            made.append(StatusReporter(channel, self.controller.status, journal_can_be_lost=can_be_lost))
        return made

    def _checkpoints(self, stats: MemoryStats) -> CheckpointMonitor:
        return CheckpointMonitor(
            self.state.checkpoints,
            self.journal,
            self.clock,
            self.signals,
            progress=lambda: job_progress(self.state, stats.training.progress.step),
        )

    def _changes(
        self,
        desired: DesiredState,
        nodes: NodeManager | None,
        parameters: ParameterCoordinator | None,
        rendezvous: RendezvousServer | None,
        channel: ControlChannel | None,
    ) -> ChangeHandler:
        return ChangeHandler(
            self.state,
            desired,
            self.journal,
            self.clock,
            self.signals,
            nodes=nodes,
            parameters=parameters,
            rendezvous=rendezvous,
            channel=channel,
        )

    def _brain_link(self, stats: MemoryStats) -> BrainLink:
        assert self.brain is not None
        spec, state = self.spec, self.state
        optimize = spec.optimize
        description = JobDescription(
            owner=self.owner,
            quota=optimize.quota or "",
            priority=optimize.priority,
            is_preemptible=optimize.preemptible,
            mode=optimize.mode,
            platform=spec.platform.kind,
            algorithms=optimize.algorithms,
            fingerprint=self._fingerprint(),
        )
        history = HistoryBuilder(state, stats, planning_terms(spec)) if state.planner is not None else None
        # Components are put together before the journal notes that this master started.
        reports = ReportBuilder(
            self.identity, description, state, stats, self.clock, history, session=state.job.master_starts + 1
        )
        return BrainLink(
            AsyncBrainClient(self.brain),
            self.identity,
            reports,
            self.journal,
            self.clock,
            phase=lambda: self.controller.status().phase.value,
            interval_s=max(sample_interval(spec), MIN_REPORT_S),
            fallback_s=FALLBACK_S * sample_interval(spec) / CLUSTER_INTERVAL_S,
        )

    def _planner(
        self, platform: OpenPlatform, stats: MemoryStats, changes: ChangeHandler, brain: BrainLink | None
    ) -> ResourcePlanner:
        spec = self.spec
        chain(spec.optimize.algorithms or DEFAULT_CHAIN)  # what is missing is said now, not after the first minutes
        costs = ChangeCosts(scale_up_s=2.0, replace_s=5.0) if platform.is_single_machine else ChangeCosts()
        return ResourcePlanner(
            self.state,
            self.journal,
            self.clock,
            HistoryBuilder(self.state, stats, planning_terms(spec)),
            changes,
            interval_s=sample_interval(spec),
            capacity=platform.capacity,
            room=platform.room,
            is_start_given=any(role.replicas.wanted is not None for role in spec.roles.values()),
            around=Surroundings(
                costs=costs, can_resize=platform.can_resize, is_single_machine=platform.is_single_machine
            ),
            fingerprint=self._fingerprint(),
            past=self._past_jobs() if platform.is_single_machine else None,
            brain=brain,
            is_led=spec.optimize.mode == "cluster",
        )

    def _fingerprint(self) -> Fingerprint:
        roles = self.spec.roles
        command = roles["worker"].command if "worker" in roles else ()
        return fingerprint(self.spec.strategy, command, self.spec.name)

    def _past_jobs(self) -> PastJobs:
        """Of this user on this machine; without a limit in the spec, a node may use what the machine has."""
        has_limits = any(role.resources.memory or role.max_resources.memory for role in self.spec.roles.values())
        return PastJobs(history_dir(), self._fingerprint(), keeps_memory=has_limits)

    def _shards(self, book: ShardBook) -> DataShardManager:
        return DataShardManager(
            book,
            self.journal,
            self.clock,
            self.signals,
            datasets=self.spec.core_datasets(),
            fault_tolerance=self.spec.components().fault_tolerance,
            session_timeout=self.spec.fault.session_timeout,
            drains=self.state.nodes is None,
            audit=self.spec.audit,
            notes=NoteStore(self.notes_dir, has_files=self.spec.journal.store == "file"),
        )

    def _rendezvous(self, book: RendezvousBook) -> RendezvousServer:
        return RendezvousServer(
            book,
            self.journal,
            self.clock,
            self.signals,
            member_timeout=self.spec.fault.session_timeout,
            takes_over=self.takes_over,
        )

    def _parameters(self, book: ParameterBook, shards: DataShardManager) -> ParameterCoordinator:
        return ParameterCoordinator(
            book,
            self.journal,
            self.clock,
            self.signals,
            shards,
            self.parameters_dir,
            restore=self.spec.parameters.restore,
        )

    def _nodes(
        self,
        book: NodeBook,
        groups_book: GroupBook,
        parameters: ParameterCoordinator | None,
        platform: OpenPlatform,
        stats: MemoryStats,
    ) -> tuple[NodeManager, list[Component]]:
        """The node manager, and those that go before it."""
        nodes = NodeManager(
            book,
            self.state.job,
            self.journal,
            self.clock,
            self.signals,
            platform.scaler,
            platform.watcher,
            platform.describe,
            capacity=platform.capacity,
            peak_memory=stats.peak_memory,
            progress=lambda: job_progress(self.state, stats.training.progress.step),
            is_single_machine=platform.is_single_machine,
            takes_over=self.takes_over,
            can_resize=platform.can_resize,
        )
        groups = GroupCoordinator(
            groups_book,
            book,
            self.journal,
            self.clock,
            max_restarts=self.spec.fault.error.limit,
            is_single_machine=platform.is_single_machine,
        )
        programs = ProgramSupervisor(
            self.state.job,
            self.journal,
            self.clock,
            self.signals,
            nodes=nodes,
            groups=groups,
            has_servers=parameters is not None,
        )
        pool = [ServerPool(nodes, parameters)] if parameters is not None else []
        return nodes, [*pool, programs, groups]


def planning_terms(spec: JobSpec) -> PlanningTerms:
    """What the job's description says about plans."""
    optimize = spec.optimize
    return PlanningTerms(
        Objective(optimize.objective),
        optimize.deadline,
        optimize.budget * 3600,
        {
            name: RoleTerms(role.min_resources.to_core(), Resources(role.max_resources.cpu, role.max_resources.memory))
            for name, role in spec.roles.items()
        },
        spec.rendezvous.node_unit if spec.components().rendezvous else 1,
        spec.fault_policy().memory.ceiling_mb,
    )
