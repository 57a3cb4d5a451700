"""What happened to a job, as facts: one kind and one frozen dataclass per thing that can happen.

Facts come first: the journal stores them, ``pliant events --json``, Kubernetes Events and the summary carry them, and
programs compare kinds and facts. The sentence for people is computed from the facts by ``describe``, and nobody parses it.

The state machines of ``core`` decide; the components of ``master`` note what was decided as one of these events
(``Journal.event``). There is one module per part of the master; ``rpc/events.py`` converts records to protobuf and back.
"""

from __future__ import annotations

from pliant.core.events.base import Event, describe, event_from_facts, event_type
from pliant.core.events.changes import ChangeAccepted, ChangeNoted, ChangeRefused, ChangesUnavailable
from pliant.core.events.checkpoints import CheckpointFailed, CheckpointsRecovered, DestinationUnusable
from pliant.core.events.data import DatasetCreated, DatasetEnded, DatasetsRestored, LeaseTimedOut, SessionTimedOut
from pliant.core.events.job import JobEnded, JobResumed, JournalLost, MasterStarted, TakenOver, WorkersNotCombined
from pliant.core.events.kinds import EventKind
from pliant.core.events.nodes import (
    ExitCause,
    LaunchRefused,
    NodeEnded,
    NodeGivenUp,
    NodeHung,
    NodeLaunched,
    NodeRemoved,
    NodeRunning,
    NodeScheduled,
    NodeTooLarge,
    NodeUnschedulable,
    ProgramExited,
    ProgramFrozen,
    ProgramRestarted,
    RoleScaled,
)
from pliant.core.events.parameters import (
    DumpCompleted,
    DumpFailed,
    LastDumpTimedOut,
    ParametersDefined,
    ParametersMoved,
    ParametersRestored,
    ScheduleDefined,
    SeatReady,
    SeatRetired,
    SeatsLeaving,
    SeatTaken,
    ServerReported,
)
from pliant.core.events.planning import (
    AlgorithmFailed,
    BrainFound,
    BrainLost,
    PlanEnded,
    PlanMade,
    PlannerPaused,
    QuotaGranted,
)
from pliant.core.events.record import EventRecord
from pliant.core.events.rollouts import NodeResized, ResizeRefused, RolloutFinished, RolloutStarted
from pliant.core.events.training import (
    BestVersionFound,
    EvaluationDone,
    EvaluationFailed,
    EvaluationStarted,
    TrainingStopped,
)
from pliant.core.events.worlds import (
    GroupConnected,
    GroupFormed,
    GroupRestarted,
    MemberSilent,
    WorldFormed,
    WorldLimitsSet,
    WorldTakenOver,
)

__all__ = [
    "AlgorithmFailed",
    "BestVersionFound",
    "BrainFound",
    "BrainLost",
    "ChangeAccepted",
    "ChangeNoted",
    "ChangeRefused",
    "ChangesUnavailable",
    "CheckpointFailed",
    "CheckpointsRecovered",
    "DatasetCreated",
    "DatasetEnded",
    "DatasetsRestored",
    "DestinationUnusable",
    "DumpCompleted",
    "DumpFailed",
    "EvaluationDone",
    "EvaluationFailed",
    "EvaluationStarted",
    "Event",
    "EventKind",
    "EventRecord",
    "ExitCause",
    "GroupConnected",
    "GroupFormed",
    "GroupRestarted",
    "JobEnded",
    "JobResumed",
    "JournalLost",
    "LastDumpTimedOut",
    "LaunchRefused",
    "LeaseTimedOut",
    "MasterStarted",
    "MemberSilent",
    "NodeEnded",
    "NodeGivenUp",
    "NodeHung",
    "NodeLaunched",
    "NodeRemoved",
    "NodeResized",
    "NodeRunning",
    "NodeScheduled",
    "NodeTooLarge",
    "NodeUnschedulable",
    "ParametersDefined",
    "ParametersMoved",
    "ParametersRestored",
    "PlanEnded",
    "PlanMade",
    "PlannerPaused",
    "ProgramExited",
    "ProgramFrozen",
    "ProgramRestarted",
    "QuotaGranted",
    "ResizeRefused",
    "RoleScaled",
    "RolloutFinished",
    "RolloutStarted",
    "ScheduleDefined",
    "SeatReady",
    "SeatRetired",
    "SeatTaken",
    "SeatsLeaving",
    "ServerReported",
    "SessionTimedOut",
    "TakenOver",
    "TrainingStopped",
    "WorkersNotCombined",
    "WorldFormed",
    "WorldLimitsSet",
    "WorldTakenOver",
    "describe",
    "event_from_facts",
    "event_type",
]
