from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_PENDING: _ClassVar[Phase]
    PHASE_INVALID: _ClassVar[Phase]
    PHASE_CREATING: _ClassVar[Phase]
    PHASE_RUNNING: _ClassVar[Phase]
    PHASE_SUSPENDING: _ClassVar[Phase]
    PHASE_SUSPENDED: _ClassVar[Phase]
    PHASE_SUCCEEDED: _ClassVar[Phase]
    PHASE_FAILED: _ClassVar[Phase]
    PHASE_STOPPED: _ClassVar[Phase]
    PHASE_INTERRUPTED: _ClassVar[Phase]

class NodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATE_UNSPECIFIED: _ClassVar[NodeState]
    NODE_STATE_PENDING: _ClassVar[NodeState]
    NODE_STATE_CREATING: _ClassVar[NodeState]
    NODE_STATE_RUNNING: _ClassVar[NodeState]
    NODE_STATE_SUCCEEDED: _ClassVar[NodeState]
    NODE_STATE_FAILED: _ClassVar[NodeState]
    NODE_STATE_DELETED: _ClassVar[NodeState]

class ExitReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXIT_REASON_UNSPECIFIED: _ClassVar[ExitReason]
    EXIT_REASON_COMPLETED: _ClassVar[ExitReason]
    EXIT_REASON_OOM: _ClassVar[ExitReason]
    EXIT_REASON_PREEMPTED: _ClassVar[ExitReason]
    EXIT_REASON_KILLED: _ClassVar[ExitReason]
    EXIT_REASON_ERROR: _ClassVar[ExitReason]
    EXIT_REASON_HANG: _ClassVar[ExitReason]
    EXIT_REASON_UNKNOWN: _ClassVar[ExitReason]

class PermanentKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PERMANENT_KIND_UNSPECIFIED: _ClassVar[PermanentKind]
    PERMANENT_KIND_MISSING_MODULE: _ClassVar[PermanentKind]
    PERMANENT_KIND_SYNTAX_ERROR: _ClassVar[PermanentKind]
    PERMANENT_KIND_USAGE_ERROR: _ClassVar[PermanentKind]
    PERMANENT_KIND_COMMAND_NOT_FOUND: _ClassVar[PermanentKind]
    PERMANENT_KIND_SCRIPT_NOT_FOUND: _ClassVar[PermanentKind]
    PERMANENT_KIND_INVALID_REQUEST: _ClassVar[PermanentKind]
    PERMANENT_KIND_CHECKPOINT_DESTINATION: _ClassVar[PermanentKind]

class ShardType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHARD_TYPE_UNSPECIFIED: _ClassVar[ShardType]
    SHARD_TYPE_TRAIN: _ClassVar[ShardType]
    SHARD_TYPE_EVAL: _ClassVar[ShardType]
    SHARD_TYPE_PREDICT: _ClassVar[ShardType]
    SHARD_TYPE_TRAIN_END: _ClassVar[ShardType]

class Availability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AVAILABILITY_UNSPECIFIED: _ClassVar[Availability]
    AVAILABILITY_MORE: _ClassVar[Availability]
    AVAILABILITY_WAIT: _ClassVar[Availability]
    AVAILABILITY_END: _ClassVar[Availability]

class WorldState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORLD_STATE_UNSPECIFIED: _ClassVar[WorldState]
    WORLD_STATE_WAITING: _ClassVar[WorldState]
    WORLD_STATE_FORMED: _ClassVar[WorldState]
    WORLD_STATE_REJOIN: _ClassVar[WorldState]
    WORLD_STATE_EXPELLED: _ClassVar[WorldState]
    WORLD_STATE_CLOSED: _ClassVar[WorldState]

class ExchangeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXCHANGE_STATE_UNSPECIFIED: _ClassVar[ExchangeState]
    EXCHANGE_STATE_WAITING: _ClassVar[ExchangeState]
    EXCHANGE_STATE_COMPLETE: _ClassVar[ExchangeState]
    EXCHANGE_STATE_BROKEN: _ClassVar[ExchangeState]

class PlannerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLANNER_STATE_UNSPECIFIED: _ClassVar[PlannerState]
    PLANNER_STATE_OBSERVING: _ClassVar[PlannerState]
    PLANNER_STATE_PLANNED: _ClassVar[PlannerState]
    PLANNER_STATE_PROBING: _ClassVar[PlannerState]
    PLANNER_STATE_SETTLING: _ClassVar[PlannerState]
    PLANNER_STATE_JUDGING: _ClassVar[PlannerState]
    PLANNER_STATE_ROLLED_BACK: _ClassVar[PlannerState]
    PLANNER_STATE_PAUSED: _ClassVar[PlannerState]

class PlanOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAN_OUTCOME_UNSPECIFIED: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_ADVISED: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_PLANNED: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_CARRIED_OUT: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_KEPT: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_ROLLED_BACK: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_REFUSED: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_EXPIRED: _ClassVar[PlanOutcome]
    PLAN_OUTCOME_SUPERSEDED: _ClassVar[PlanOutcome]

class PlanObjective(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAN_OBJECTIVE_UNSPECIFIED: _ClassVar[PlanObjective]
    PLAN_OBJECTIVE_FASTEST: _ClassVar[PlanObjective]
    PLAN_OBJECTIVE_BALANCED: _ClassVar[PlanObjective]
    PLAN_OBJECTIVE_CHEAPEST: _ClassVar[PlanObjective]

class OrderKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_NOTHING: _ClassVar[OrderKind]
    ORDER_DEFINE: _ClassVar[OrderKind]
    ORDER_ASSIGN: _ClassVar[OrderKind]
    ORDER_APPLY: _ClassVar[OrderKind]
    ORDER_DISCARD: _ClassVar[OrderKind]
    ORDER_DUMP: _ClassVar[OrderKind]
    ORDER_MOVE: _ClassVar[OrderKind]

class PushOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PUSH_UNSPECIFIED: _ClassVar[PushOutcome]
    PUSH_ACCEPTED: _ClassVar[PushOutcome]
    PUSH_REPEATED: _ClassVar[PushOutcome]
    PUSH_OVER: _ClassVar[PushOutcome]
    PUSH_STALE: _ClassVar[PushOutcome]
    PUSH_UNSCHEDULED: _ClassVar[PushOutcome]
    PUSH_MOVED: _ClassVar[PushOutcome]
    PUSH_LOST: _ClassVar[PushOutcome]
    PUSH_GAP: _ClassVar[PushOutcome]
PHASE_UNSPECIFIED: Phase
PHASE_PENDING: Phase
PHASE_INVALID: Phase
PHASE_CREATING: Phase
PHASE_RUNNING: Phase
PHASE_SUSPENDING: Phase
PHASE_SUSPENDED: Phase
PHASE_SUCCEEDED: Phase
PHASE_FAILED: Phase
PHASE_STOPPED: Phase
PHASE_INTERRUPTED: Phase
NODE_STATE_UNSPECIFIED: NodeState
NODE_STATE_PENDING: NodeState
NODE_STATE_CREATING: NodeState
NODE_STATE_RUNNING: NodeState
NODE_STATE_SUCCEEDED: NodeState
NODE_STATE_FAILED: NodeState
NODE_STATE_DELETED: NodeState
EXIT_REASON_UNSPECIFIED: ExitReason
EXIT_REASON_COMPLETED: ExitReason
EXIT_REASON_OOM: ExitReason
EXIT_REASON_PREEMPTED: ExitReason
EXIT_REASON_KILLED: ExitReason
EXIT_REASON_ERROR: ExitReason
EXIT_REASON_HANG: ExitReason
EXIT_REASON_UNKNOWN: ExitReason
PERMANENT_KIND_UNSPECIFIED: PermanentKind
PERMANENT_KIND_MISSING_MODULE: PermanentKind
PERMANENT_KIND_SYNTAX_ERROR: PermanentKind
PERMANENT_KIND_USAGE_ERROR: PermanentKind
PERMANENT_KIND_COMMAND_NOT_FOUND: PermanentKind
PERMANENT_KIND_SCRIPT_NOT_FOUND: PermanentKind
PERMANENT_KIND_INVALID_REQUEST: PermanentKind
PERMANENT_KIND_CHECKPOINT_DESTINATION: PermanentKind
SHARD_TYPE_UNSPECIFIED: ShardType
SHARD_TYPE_TRAIN: ShardType
SHARD_TYPE_EVAL: ShardType
SHARD_TYPE_PREDICT: ShardType
SHARD_TYPE_TRAIN_END: ShardType
AVAILABILITY_UNSPECIFIED: Availability
AVAILABILITY_MORE: Availability
AVAILABILITY_WAIT: Availability
AVAILABILITY_END: Availability
WORLD_STATE_UNSPECIFIED: WorldState
WORLD_STATE_WAITING: WorldState
WORLD_STATE_FORMED: WorldState
WORLD_STATE_REJOIN: WorldState
WORLD_STATE_EXPELLED: WorldState
WORLD_STATE_CLOSED: WorldState
EXCHANGE_STATE_UNSPECIFIED: ExchangeState
EXCHANGE_STATE_WAITING: ExchangeState
EXCHANGE_STATE_COMPLETE: ExchangeState
EXCHANGE_STATE_BROKEN: ExchangeState
PLANNER_STATE_UNSPECIFIED: PlannerState
PLANNER_STATE_OBSERVING: PlannerState
PLANNER_STATE_PLANNED: PlannerState
PLANNER_STATE_PROBING: PlannerState
PLANNER_STATE_SETTLING: PlannerState
PLANNER_STATE_JUDGING: PlannerState
PLANNER_STATE_ROLLED_BACK: PlannerState
PLANNER_STATE_PAUSED: PlannerState
PLAN_OUTCOME_UNSPECIFIED: PlanOutcome
PLAN_OUTCOME_ADVISED: PlanOutcome
PLAN_OUTCOME_PLANNED: PlanOutcome
PLAN_OUTCOME_CARRIED_OUT: PlanOutcome
PLAN_OUTCOME_KEPT: PlanOutcome
PLAN_OUTCOME_ROLLED_BACK: PlanOutcome
PLAN_OUTCOME_REFUSED: PlanOutcome
PLAN_OUTCOME_EXPIRED: PlanOutcome
PLAN_OUTCOME_SUPERSEDED: PlanOutcome
PLAN_OBJECTIVE_UNSPECIFIED: PlanObjective
PLAN_OBJECTIVE_FASTEST: PlanObjective
PLAN_OBJECTIVE_BALANCED: PlanObjective
PLAN_OBJECTIVE_CHEAPEST: PlanObjective
ORDER_NOTHING: OrderKind
ORDER_DEFINE: OrderKind
ORDER_ASSIGN: OrderKind
ORDER_APPLY: OrderKind
ORDER_DISCARD: OrderKind
ORDER_DUMP: OrderKind
ORDER_MOVE: OrderKind
PUSH_UNSPECIFIED: PushOutcome
PUSH_ACCEPTED: PushOutcome
PUSH_REPEATED: PushOutcome
PUSH_OVER: PushOutcome
PUSH_STALE: PushOutcome
PUSH_UNSCHEDULED: PushOutcome
PUSH_MOVED: PushOutcome
PUSH_LOST: PushOutcome
PUSH_GAP: PushOutcome

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CallFrames(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[CallFrame]
    def __init__(self, calls: _Optional[_Iterable[_Union[CallFrame, _Mapping]]] = ...) -> None: ...

class CallFrame(_message.Message):
    __slots__ = ("number", "method", "request", "timeout")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    number: int
    method: str
    request: bytes
    timeout: float
    def __init__(self, number: _Optional[int] = ..., method: _Optional[str] = ..., request: _Optional[bytes] = ..., timeout: _Optional[float] = ...) -> None: ...

class AnswerFrames(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[AnswerFrame]
    def __init__(self, answers: _Optional[_Iterable[_Union[AnswerFrame, _Mapping]]] = ...) -> None: ...

class AnswerFrame(_message.Message):
    __slots__ = ("number", "reply", "code", "details")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    number: int
    reply: bytes
    code: int
    details: str
    def __init__(self, number: _Optional[int] = ..., reply: _Optional[bytes] = ..., code: _Optional[int] = ..., details: _Optional[str] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("name", "phase", "reason", "message", "started_at", "suspended_at", "ended_at", "time", "master_starts", "components", "conditions", "roles", "nodes", "datasets", "progress", "records_per_second", "stalled_seconds", "eta", "goodput", "last_plan", "evaluations", "best", "first_failure", "world", "parameters", "steps_per_second", "checkpoints", "planner")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    MASTER_STARTS_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STALLED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    GOODPUT_FIELD_NUMBER: _ClassVar[int]
    LAST_PLAN_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    FIRST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    phase: Phase
    reason: str
    message: str
    started_at: float
    suspended_at: float
    ended_at: float
    time: float
    master_starts: int
    components: _containers.RepeatedScalarFieldContainer[str]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    roles: _containers.RepeatedCompositeFieldContainer[RoleStatus]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetStatus]
    progress: Progress
    records_per_second: float
    stalled_seconds: float
    eta: float
    goodput: float
    last_plan: PlanStatus
    evaluations: _containers.RepeatedCompositeFieldContainer[EvaluationResult]
    best: EvaluationResult
    first_failure: Failure
    world: World
    parameters: ParametersStatus
    steps_per_second: float
    checkpoints: _containers.RepeatedCompositeFieldContainer[CheckpointStatus]
    planner: PlannerStatus
    def __init__(self, name: _Optional[str] = ..., phase: _Optional[_Union[Phase, str]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., started_at: _Optional[float] = ..., suspended_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., time: _Optional[float] = ..., master_starts: _Optional[int] = ..., components: _Optional[_Iterable[str]] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., roles: _Optional[_Iterable[_Union[RoleStatus, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ..., datasets: _Optional[_Iterable[_Union[DatasetStatus, _Mapping]]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., records_per_second: _Optional[float] = ..., stalled_seconds: _Optional[float] = ..., eta: _Optional[float] = ..., goodput: _Optional[float] = ..., last_plan: _Optional[_Union[PlanStatus, _Mapping]] = ..., evaluations: _Optional[_Iterable[_Union[EvaluationResult, _Mapping]]] = ..., best: _Optional[_Union[EvaluationResult, _Mapping]] = ..., first_failure: _Optional[_Union[Failure, _Mapping]] = ..., world: _Optional[_Union[World, _Mapping]] = ..., parameters: _Optional[_Union[ParametersStatus, _Mapping]] = ..., steps_per_second: _Optional[float] = ..., checkpoints: _Optional[_Iterable[_Union[CheckpointStatus, _Mapping]]] = ..., planner: _Optional[_Union[PlannerStatus, _Mapping]] = ...) -> None: ...

class SeriesRequest(_message.Message):
    __slots__ = ("since", "max_points")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    MAX_POINTS_FIELD_NUMBER: _ClassVar[int]
    since: float
    max_points: int
    def __init__(self, since: _Optional[float] = ..., max_points: _Optional[int] = ...) -> None: ...

class Curve(_message.Message):
    __slots__ = ("time", "step", "mean", "min", "max", "count")
    TIME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    time: _containers.RepeatedScalarFieldContainer[float]
    step: _containers.RepeatedScalarFieldContainer[int]
    mean: _containers.RepeatedScalarFieldContainer[float]
    min: _containers.RepeatedScalarFieldContainer[float]
    max: _containers.RepeatedScalarFieldContainer[float]
    count: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, time: _Optional[_Iterable[float]] = ..., step: _Optional[_Iterable[int]] = ..., mean: _Optional[_Iterable[float]] = ..., min: _Optional[_Iterable[float]] = ..., max: _Optional[_Iterable[float]] = ..., count: _Optional[_Iterable[int]] = ...) -> None: ...

class MetricSeries(_message.Message):
    __slots__ = ("name", "curve")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CURVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    curve: Curve
    def __init__(self, name: _Optional[str] = ..., curve: _Optional[_Union[Curve, _Mapping]] = ...) -> None: ...

class NodeSeries(_message.Message):
    __slots__ = ("name", "cpu", "memory_mb", "cpu_limit", "memory_limit_mb")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_MB_FIELD_NUMBER: _ClassVar[int]
    name: str
    cpu: Curve
    memory_mb: Curve
    cpu_limit: float
    memory_limit_mb: float
    def __init__(self, name: _Optional[str] = ..., cpu: _Optional[_Union[Curve, _Mapping]] = ..., memory_mb: _Optional[_Union[Curve, _Mapping]] = ..., cpu_limit: _Optional[float] = ..., memory_limit_mb: _Optional[float] = ...) -> None: ...

class SeriesReply(_message.Message):
    __slots__ = ("name", "time", "records_per_second", "steps_per_second", "workers", "metrics", "nodes", "left_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    time: float
    records_per_second: Curve
    steps_per_second: Curve
    workers: Curve
    metrics: _containers.RepeatedCompositeFieldContainer[MetricSeries]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeSeries]
    left_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., time: _Optional[float] = ..., records_per_second: _Optional[_Union[Curve, _Mapping]] = ..., steps_per_second: _Optional[_Union[Curve, _Mapping]] = ..., workers: _Optional[_Union[Curve, _Mapping]] = ..., metrics: _Optional[_Iterable[_Union[MetricSeries, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[NodeSeries, _Mapping]]] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("type", "status", "reason", "message", "since")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    reason: str
    message: str
    since: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., since: _Optional[str] = ...) -> None: ...

class CheckpointStatus(_message.Message):
    __slots__ = ("directory", "written", "last_step", "last_time", "failures", "failures_in_a_row", "failing_since", "reason", "hint", "node")
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_IN_A_ROW_FIELD_NUMBER: _ClassVar[int]
    FAILING_SINCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    directory: str
    written: int
    last_step: int
    last_time: float
    failures: int
    failures_in_a_row: int
    failing_since: float
    reason: str
    hint: str
    node: str
    def __init__(self, directory: _Optional[str] = ..., written: _Optional[int] = ..., last_step: _Optional[int] = ..., last_time: _Optional[float] = ..., failures: _Optional[int] = ..., failures_in_a_row: _Optional[int] = ..., failing_since: _Optional[float] = ..., reason: _Optional[str] = ..., hint: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class RoleStatus(_message.Message):
    __slots__ = ("name", "min", "max", "wanted", "ready", "pending", "succeeded", "failed", "cpu", "memory_mb", "gpu", "rollout", "rollout_done", "rollout_total")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_DONE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_TOTAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    min: int
    max: int
    wanted: int
    ready: int
    pending: int
    succeeded: int
    failed: int
    cpu: float
    memory_mb: float
    gpu: int
    rollout: str
    rollout_done: int
    rollout_total: int
    def __init__(self, name: _Optional[str] = ..., min: _Optional[int] = ..., max: _Optional[int] = ..., wanted: _Optional[int] = ..., ready: _Optional[int] = ..., pending: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., gpu: _Optional[int] = ..., rollout: _Optional[str] = ..., rollout_done: _Optional[int] = ..., rollout_total: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("records_done", "records_total", "step", "epoch", "total_steps", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RECORDS_DONE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    records_done: int
    records_total: int
    step: int
    epoch: int
    total_steps: int
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, records_done: _Optional[int] = ..., records_total: _Optional[int] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ..., total_steps: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class PlanStatus(_message.Message):
    __slots__ = ("name", "reason", "time", "algorithm", "outcome", "judgement")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    JUDGEMENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    time: str
    algorithm: str
    outcome: str
    judgement: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., time: _Optional[str] = ..., algorithm: _Optional[str] = ..., outcome: _Optional[str] = ..., judgement: _Optional[str] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("name", "role", "state", "exit_reason", "message", "pid", "agent_pid", "host", "restarts", "replaces", "cpu", "memory_mb", "memory_limit_mb", "records_per_second", "created_at", "ended_at", "records", "cpu_limit", "gpu", "peak_memory_mb", "virtual_workers", "unit_seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    AGENT_PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_MB_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_WORKERS_FIELD_NUMBER: _ClassVar[int]
    UNIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    state: NodeState
    exit_reason: ExitReason
    message: str
    pid: int
    agent_pid: int
    host: str
    restarts: int
    replaces: str
    cpu: float
    memory_mb: float
    memory_limit_mb: float
    records_per_second: float
    created_at: float
    ended_at: float
    records: int
    cpu_limit: float
    gpu: int
    peak_memory_mb: float
    virtual_workers: int
    unit_seconds: float
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., state: _Optional[_Union[NodeState, str]] = ..., exit_reason: _Optional[_Union[ExitReason, str]] = ..., message: _Optional[str] = ..., pid: _Optional[int] = ..., agent_pid: _Optional[int] = ..., host: _Optional[str] = ..., restarts: _Optional[int] = ..., replaces: _Optional[str] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., memory_limit_mb: _Optional[float] = ..., records_per_second: _Optional[float] = ..., created_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., records: _Optional[int] = ..., cpu_limit: _Optional[float] = ..., gpu: _Optional[int] = ..., peak_memory_mb: _Optional[float] = ..., virtual_workers: _Optional[int] = ..., unit_seconds: _Optional[float] = ...) -> None: ...

class DatasetStatus(_message.Message):
    __slots__ = ("name", "type", "records_per_epoch", "records_done", "records_total", "epochs", "epochs_done", "shards_done", "shards_total", "shards_in_work", "shards_waiting", "parked", "complete", "lease_timeout", "exact", "records_restored", "partitions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_DONE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_DONE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_DONE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    SHARDS_IN_WORK_FIELD_NUMBER: _ClassVar[int]
    SHARDS_WAITING_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_RESTORED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: ShardType
    records_per_epoch: int
    records_done: int
    records_total: int
    epochs: int
    epochs_done: int
    shards_done: int
    shards_total: int
    shards_in_work: int
    shards_waiting: int
    parked: _containers.RepeatedCompositeFieldContainer[ParkedShard]
    complete: bool
    lease_timeout: float
    exact: bool
    records_restored: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStatus]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[ShardType, str]] = ..., records_per_epoch: _Optional[int] = ..., records_done: _Optional[int] = ..., records_total: _Optional[int] = ..., epochs: _Optional[int] = ..., epochs_done: _Optional[int] = ..., shards_done: _Optional[int] = ..., shards_total: _Optional[int] = ..., shards_in_work: _Optional[int] = ..., shards_waiting: _Optional[int] = ..., parked: _Optional[_Iterable[_Union[ParkedShard, _Mapping]]] = ..., complete: _Optional[bool] = ..., lease_timeout: _Optional[float] = ..., exact: _Optional[bool] = ..., records_restored: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionStatus, _Mapping]]] = ...) -> None: ...

class PartitionStatus(_message.Message):
    __slots__ = ("name", "start", "position", "end", "closed", "records_done")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_DONE_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: int
    position: int
    end: int
    closed: bool
    records_done: int
    def __init__(self, name: _Optional[str] = ..., start: _Optional[int] = ..., position: _Optional[int] = ..., end: _Optional[int] = ..., closed: _Optional[bool] = ..., records_done: _Optional[int] = ...) -> None: ...

class ParkedShard(_message.Message):
    __slots__ = ("name", "start", "end", "epoch", "failures", "message")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: int
    end: int
    epoch: int
    failures: int
    message: str
    def __init__(self, name: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., epoch: _Optional[int] = ..., failures: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("node", "kind", "message", "traceback", "time", "log", "hint")
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    node: str
    kind: str
    message: str
    traceback: str
    time: float
    log: str
    hint: str
    def __init__(self, node: _Optional[str] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., time: _Optional[float] = ..., log: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("after", "limit")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    after: int
    limit: int
    def __init__(self, after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class EventsReply(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "time", "kind", "node", "facts", "message")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    number: int
    time: float
    kind: str
    node: str
    facts: _struct_pb2.Struct
    message: str
    def __init__(self, number: _Optional[int] = ..., time: _Optional[float] = ..., kind: _Optional[str] = ..., node: _Optional[str] = ..., facts: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...

class ShardMapsRequest(_message.Message):
    __slots__ = ("max_cells",)
    MAX_CELLS_FIELD_NUMBER: _ClassVar[int]
    max_cells: int
    def __init__(self, max_cells: _Optional[int] = ...) -> None: ...

class ShardMapsReply(_message.Message):
    __slots__ = ("maps",)
    MAPS_FIELD_NUMBER: _ClassVar[int]
    maps: _containers.RepeatedCompositeFieldContainer[ShardMap]
    def __init__(self, maps: _Optional[_Iterable[_Union[ShardMap, _Mapping]]] = ...) -> None: ...

class ShardMap(_message.Message):
    __slots__ = ("dataset", "epochs", "holders", "leases", "leases_total", "left_out_epochs", "ended_early")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEASES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    ENDED_EARLY_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    epochs: _containers.RepeatedCompositeFieldContainer[EpochMap]
    holders: _containers.RepeatedScalarFieldContainer[str]
    leases: _containers.RepeatedCompositeFieldContainer[LeasedShard]
    leases_total: int
    left_out_epochs: int
    ended_early: bool
    def __init__(self, dataset: _Optional[str] = ..., epochs: _Optional[_Iterable[_Union[EpochMap, _Mapping]]] = ..., holders: _Optional[_Iterable[str]] = ..., leases: _Optional[_Iterable[_Union[LeasedShard, _Mapping]]] = ..., leases_total: _Optional[int] = ..., left_out_epochs: _Optional[int] = ..., ended_early: _Optional[bool] = ...) -> None: ...

class EpochMap(_message.Message):
    __slots__ = ("epoch", "shards", "per_cell", "cells", "done", "held_cells", "held_by", "complete")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    PER_CELL_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    HELD_CELLS_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    shards: int
    per_cell: int
    cells: str
    done: _containers.RepeatedScalarFieldContainer[int]
    held_cells: _containers.RepeatedScalarFieldContainer[int]
    held_by: _containers.RepeatedScalarFieldContainer[int]
    complete: bool
    def __init__(self, epoch: _Optional[int] = ..., shards: _Optional[int] = ..., per_cell: _Optional[int] = ..., cells: _Optional[str] = ..., done: _Optional[_Iterable[int]] = ..., held_cells: _Optional[_Iterable[int]] = ..., held_by: _Optional[_Iterable[int]] = ..., complete: _Optional[bool] = ...) -> None: ...

class LeasedShard(_message.Message):
    __slots__ = ("node", "epoch", "ordinal", "start", "end", "done")
    NODE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    node: str
    epoch: int
    ordinal: int
    start: int
    end: int
    done: int
    def __init__(self, node: _Optional[str] = ..., epoch: _Optional[int] = ..., ordinal: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., done: _Optional[int] = ...) -> None: ...

class AuditFinding(_message.Message):
    __slots__ = ("epoch", "name", "start", "shard_end", "begin", "end", "why")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SHARD_END_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    name: str
    start: int
    shard_end: int
    begin: int
    end: int
    why: str
    def __init__(self, epoch: _Optional[int] = ..., name: _Optional[str] = ..., start: _Optional[int] = ..., shard_end: _Optional[int] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class DatasetAudit(_message.Message):
    __slots__ = ("dataset", "epochs", "records_expected", "records_accepted", "missing", "doubled", "strange", "gaps", "doubles", "strangers", "restored", "partitions")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_EXPECTED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    DOUBLED_FIELD_NUMBER: _ClassVar[int]
    STRANGE_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    DOUBLES_FIELD_NUMBER: _ClassVar[int]
    STRANGERS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    epochs: int
    records_expected: int
    records_accepted: int
    missing: int
    doubled: int
    strange: int
    gaps: _containers.RepeatedCompositeFieldContainer[AuditFinding]
    doubles: _containers.RepeatedCompositeFieldContainer[AuditFinding]
    strangers: _containers.RepeatedCompositeFieldContainer[AuditFinding]
    restored: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionAudit]
    def __init__(self, dataset: _Optional[str] = ..., epochs: _Optional[int] = ..., records_expected: _Optional[int] = ..., records_accepted: _Optional[int] = ..., missing: _Optional[int] = ..., doubled: _Optional[int] = ..., strange: _Optional[int] = ..., gaps: _Optional[_Iterable[_Union[AuditFinding, _Mapping]]] = ..., doubles: _Optional[_Iterable[_Union[AuditFinding, _Mapping]]] = ..., strangers: _Optional[_Iterable[_Union[AuditFinding, _Mapping]]] = ..., restored: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionAudit, _Mapping]]] = ...) -> None: ...

class PartitionAudit(_message.Message):
    __slots__ = ("name", "records_expected", "records_covered", "records_accepted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RECORDS_EXPECTED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_COVERED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    records_expected: int
    records_covered: int
    records_accepted: int
    def __init__(self, name: _Optional[str] = ..., records_expected: _Optional[int] = ..., records_covered: _Optional[int] = ..., records_accepted: _Optional[int] = ...) -> None: ...

class AuditReply(_message.Message):
    __slots__ = ("name", "over", "datasets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    over: bool
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetAudit]
    def __init__(self, name: _Optional[str] = ..., over: _Optional[bool] = ..., datasets: _Optional[_Iterable[_Union[DatasetAudit, _Mapping]]] = ...) -> None: ...

class ScaleRequest(_message.Message):
    __slots__ = ("role", "replicas", "reason", "id", "base_version", "cpu", "memory_mb", "gpu", "rollout", "others")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    role: str
    replicas: int
    reason: str
    id: str
    base_version: int
    cpu: float
    memory_mb: int
    gpu: int
    rollout: str
    others: _containers.RepeatedCompositeFieldContainer[ScaleRequest]
    def __init__(self, role: _Optional[str] = ..., replicas: _Optional[int] = ..., reason: _Optional[str] = ..., id: _Optional[str] = ..., base_version: _Optional[int] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[int] = ..., gpu: _Optional[int] = ..., rollout: _Optional[str] = ..., others: _Optional[_Iterable[_Union[ScaleRequest, _Mapping]]] = ...) -> None: ...

class ScaleReply(_message.Message):
    __slots__ = ("before", "now", "version", "outdated", "in_place", "others")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OUTDATED_FIELD_NUMBER: _ClassVar[int]
    IN_PLACE_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    before: int
    now: int
    version: int
    outdated: int
    in_place: bool
    others: _containers.RepeatedCompositeFieldContainer[ScaleReply]
    def __init__(self, before: _Optional[int] = ..., now: _Optional[int] = ..., version: _Optional[int] = ..., outdated: _Optional[int] = ..., in_place: _Optional[bool] = ..., others: _Optional[_Iterable[_Union[ScaleReply, _Mapping]]] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ("reason", "at_once", "failed", "id")
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    reason: str
    at_once: bool
    failed: bool
    id: str
    def __init__(self, reason: _Optional[str] = ..., at_once: _Optional[bool] = ..., failed: _Optional[bool] = ..., id: _Optional[str] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("node", "agent_pid", "host", "incarnation", "pid", "address", "group", "grouped")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AGENT_PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GROUPED_FIELD_NUMBER: _ClassVar[int]
    node: str
    agent_pid: int
    host: str
    incarnation: int
    pid: int
    address: str
    group: Group
    grouped: bool
    def __init__(self, node: _Optional[str] = ..., agent_pid: _Optional[int] = ..., host: _Optional[str] = ..., incarnation: _Optional[int] = ..., pid: _Optional[int] = ..., address: _Optional[str] = ..., group: _Optional[_Union[Group, _Mapping]] = ..., grouped: _Optional[bool] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("generation", "rank", "world_size", "local_rank", "local_world_size", "group_rank", "addr", "port", "restart_count", "max_restarts")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    GROUP_RANK_FIELD_NUMBER: _ClassVar[int]
    ADDR_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    group_rank: int
    addr: str
    port: int
    restart_count: int
    max_restarts: int
    def __init__(self, generation: _Optional[int] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., local_rank: _Optional[int] = ..., local_world_size: _Optional[int] = ..., group_rank: _Optional[int] = ..., addr: _Optional[str] = ..., port: _Optional[int] = ..., restart_count: _Optional[int] = ..., max_restarts: _Optional[int] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("welcome", "reason", "incarnation", "heartbeat_seconds", "group")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    welcome: bool
    reason: str
    incarnation: int
    heartbeat_seconds: float
    group: Group
    def __init__(self, welcome: _Optional[bool] = ..., reason: _Optional[str] = ..., incarnation: _Optional[int] = ..., heartbeat_seconds: _Optional[float] = ..., group: _Optional[_Union[Group, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("cpu", "memory_mb", "memory_limit_mb", "stopped", "cpu_limit", "throttled", "time")
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_MB_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    CPU_LIMIT_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    cpu: float
    memory_mb: float
    memory_limit_mb: float
    stopped: bool
    cpu_limit: float
    throttled: float
    time: TimeSpent
    def __init__(self, cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., memory_limit_mb: _Optional[float] = ..., stopped: _Optional[bool] = ..., cpu_limit: _Optional[float] = ..., throttled: _Optional[float] = ..., time: _Optional[_Union[TimeSpent, _Mapping]] = ...) -> None: ...

class TimeSpent(_message.Message):
    __slots__ = ("data", "peers", "unit", "units", "began", "read_at")
    DATA_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    READ_AT_FIELD_NUMBER: _ClassVar[int]
    data: float
    peers: float
    unit: float
    units: float
    began: float
    read_at: float
    def __init__(self, data: _Optional[float] = ..., peers: _Optional[float] = ..., unit: _Optional[float] = ..., units: _Optional[float] = ..., began: _Optional[float] = ..., read_at: _Optional[float] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("node", "incarnation", "pid", "usage", "generation", "grouped")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GROUPED_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    pid: int
    usage: Usage
    generation: int
    grouped: bool
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ..., pid: _Optional[int] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., generation: _Optional[int] = ..., grouped: _Optional[bool] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("stop", "grace", "reason", "register", "group", "recall", "heartbeat_seconds", "kill")
    STOP_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    grace: float
    reason: str
    register: bool
    group: Group
    recall: str
    heartbeat_seconds: float
    kill: str
    def __init__(self, stop: _Optional[bool] = ..., grace: _Optional[float] = ..., reason: _Optional[str] = ..., register: _Optional[bool] = ..., group: _Optional[_Union[Group, _Mapping]] = ..., recall: _Optional[str] = ..., heartbeat_seconds: _Optional[float] = ..., kill: _Optional[str] = ...) -> None: ...

class ProgramStartedRequest(_message.Message):
    __slots__ = ("node", "incarnation", "pid")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    pid: int
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class ProgramExitedRequest(_message.Message):
    __slots__ = ("node", "incarnation", "exit_reason", "message", "traceback", "log", "generation", "grouped", "recalled", "permanent", "hint", "peak_memory_mb")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EXIT_REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GROUPED_FIELD_NUMBER: _ClassVar[int]
    RECALLED_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    exit_reason: ExitReason
    message: str
    traceback: str
    log: str
    generation: int
    grouped: bool
    recalled: bool
    permanent: PermanentKind
    hint: str
    peak_memory_mb: int
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ..., exit_reason: _Optional[_Union[ExitReason, str]] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., log: _Optional[str] = ..., generation: _Optional[int] = ..., grouped: _Optional[bool] = ..., recalled: _Optional[bool] = ..., permanent: _Optional[_Union[PermanentKind, str]] = ..., hint: _Optional[str] = ..., peak_memory_mb: _Optional[int] = ...) -> None: ...

class ProgramExitedReply(_message.Message):
    __slots__ = ("restart", "delay", "incarnation", "reason", "group")
    RESTART_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    restart: bool
    delay: float
    incarnation: int
    reason: str
    group: Group
    def __init__(self, restart: _Optional[bool] = ..., delay: _Optional[float] = ..., incarnation: _Optional[int] = ..., reason: _Optional[str] = ..., group: _Optional[_Union[Group, _Mapping]] = ...) -> None: ...

class NotesRequest(_message.Message):
    __slots__ = ("dataset", "skip")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    skip: int
    def __init__(self, dataset: _Optional[str] = ..., skip: _Optional[int] = ...) -> None: ...

class ShardNote(_message.Message):
    __slots__ = ("epoch", "ordinal", "name", "start", "end", "data")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ordinal: int
    name: str
    start: int
    end: int
    data: bytes
    def __init__(self, epoch: _Optional[int] = ..., ordinal: _Optional[int] = ..., name: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class NotesReply(_message.Message):
    __slots__ = ("notes", "more", "complete")
    NOTES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    notes: _containers.RepeatedCompositeFieldContainer[ShardNote]
    more: bool
    complete: bool
    def __init__(self, notes: _Optional[_Iterable[_Union[ShardNote, _Mapping]]] = ..., more: _Optional[bool] = ..., complete: _Optional[bool] = ...) -> None: ...

class CommitPlanRequest(_message.Message):
    __slots__ = ("dataset", "shards", "node", "end")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    shards: int
    node: str
    end: bool
    def __init__(self, dataset: _Optional[str] = ..., shards: _Optional[int] = ..., node: _Optional[str] = ..., end: _Optional[bool] = ...) -> None: ...

class FilePart(_message.Message):
    __slots__ = ("name", "start", "end")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: int
    end: int
    def __init__(self, name: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("name", "type", "shard_size", "size", "files", "indices", "stream", "epochs", "shuffle", "shuffle_records", "seed", "epoch_barrier", "max_failures", "max_timeouts", "skip_parked", "lease_floor", "partitions", "defined_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SHARD_SIZE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_RECORDS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_BARRIER_FIELD_NUMBER: _ClassVar[int]
    MAX_FAILURES_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    SKIP_PARKED_FIELD_NUMBER: _ClassVar[int]
    LEASE_FLOOR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DEFINED_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: ShardType
    shard_size: int
    size: int
    files: _containers.RepeatedCompositeFieldContainer[FilePart]
    indices: _containers.RepeatedScalarFieldContainer[int]
    stream: bool
    epochs: int
    shuffle: bool
    shuffle_records: bool
    seed: int
    epoch_barrier: bool
    max_failures: int
    max_timeouts: int
    skip_parked: bool
    lease_floor: float
    partitions: _containers.RepeatedCompositeFieldContainer[StreamPartition]
    defined_by: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[ShardType, str]] = ..., shard_size: _Optional[int] = ..., size: _Optional[int] = ..., files: _Optional[_Iterable[_Union[FilePart, _Mapping]]] = ..., indices: _Optional[_Iterable[int]] = ..., stream: _Optional[bool] = ..., epochs: _Optional[int] = ..., shuffle: _Optional[bool] = ..., shuffle_records: _Optional[bool] = ..., seed: _Optional[int] = ..., epoch_barrier: _Optional[bool] = ..., max_failures: _Optional[int] = ..., max_timeouts: _Optional[int] = ..., skip_parked: _Optional[bool] = ..., lease_floor: _Optional[float] = ..., partitions: _Optional[_Iterable[_Union[StreamPartition, _Mapping]]] = ..., defined_by: _Optional[str] = ...) -> None: ...

class StreamPartition(_message.Message):
    __slots__ = ("name", "start")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: int
    def __init__(self, name: _Optional[str] = ..., start: _Optional[int] = ...) -> None: ...

class DatasetName(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateDatasetReply(_message.Message):
    __slots__ = ("created",)
    CREATED_FIELD_NUMBER: _ClassVar[int]
    created: bool
    def __init__(self, created: _Optional[bool] = ...) -> None: ...

class GrowRequest(_message.Message):
    __slots__ = ("dataset", "records", "close", "producer", "number", "partition", "end")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    records: int
    close: bool
    producer: str
    number: int
    partition: str
    end: int
    def __init__(self, dataset: _Optional[str] = ..., records: _Optional[int] = ..., close: _Optional[bool] = ..., producer: _Optional[str] = ..., number: _Optional[int] = ..., partition: _Optional[str] = ..., end: _Optional[int] = ...) -> None: ...

class GrowReply(_message.Message):
    __slots__ = ("length",)
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    length: int
    def __init__(self, length: _Optional[int] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("session", "node", "incarnation")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    session: str
    node: str
    incarnation: int
    def __init__(self, session: _Optional[str] = ..., node: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class OpenSessionReply(_message.Message):
    __slots__ = ("beat_seconds",)
    BEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    beat_seconds: float
    def __init__(self, beat_seconds: _Optional[float] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class BeatRequest(_message.Message):
    __slots__ = ("session", "step")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    session: str
    step: int
    def __init__(self, session: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class LeaseProgress(_message.Message):
    __slots__ = ("lease", "records", "after")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    lease: int
    records: int
    after: int
    def __init__(self, lease: _Optional[int] = ..., records: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class LeaseFailure(_message.Message):
    __slots__ = ("lease", "message")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    lease: int
    message: str
    def __init__(self, lease: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("session", "request", "dataset", "want", "done", "progress", "failed", "released", "notes", "waiting", "trains_alone")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    TRAINS_ALONE_FIELD_NUMBER: _ClassVar[int]
    session: str
    request: int
    dataset: str
    want: int
    done: _containers.RepeatedScalarFieldContainer[int]
    progress: _containers.RepeatedCompositeFieldContainer[LeaseProgress]
    failed: _containers.RepeatedCompositeFieldContainer[LeaseFailure]
    released: _containers.RepeatedScalarFieldContainer[int]
    notes: _containers.RepeatedCompositeFieldContainer[LeaseNote]
    waiting: bool
    trains_alone: bool
    def __init__(self, session: _Optional[str] = ..., request: _Optional[int] = ..., dataset: _Optional[str] = ..., want: _Optional[int] = ..., done: _Optional[_Iterable[int]] = ..., progress: _Optional[_Iterable[_Union[LeaseProgress, _Mapping]]] = ..., failed: _Optional[_Iterable[_Union[LeaseFailure, _Mapping]]] = ..., released: _Optional[_Iterable[int]] = ..., notes: _Optional[_Iterable[_Union[LeaseNote, _Mapping]]] = ..., waiting: _Optional[bool] = ..., trains_alone: _Optional[bool] = ...) -> None: ...

class LeaseNote(_message.Message):
    __slots__ = ("lease", "data")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    lease: int
    data: bytes
    def __init__(self, lease: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("lease", "name", "start", "end", "offset", "epoch", "ordinal", "indices")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    lease: int
    name: str
    start: int
    end: int
    offset: int
    epoch: int
    ordinal: int
    indices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, lease: _Optional[int] = ..., name: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., offset: _Optional[int] = ..., epoch: _Optional[int] = ..., ordinal: _Optional[int] = ..., indices: _Optional[_Iterable[int]] = ...) -> None: ...

class ExchangeReply(_message.Message):
    __slots__ = ("shards", "refused", "availability")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    refused: _containers.RepeatedScalarFieldContainer[int]
    availability: Availability
    def __init__(self, shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., refused: _Optional[_Iterable[int]] = ..., availability: _Optional[_Union[Availability, str]] = ...) -> None: ...

class WaitForShardsRequest(_message.Message):
    __slots__ = ("dataset", "session")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    session: str
    def __init__(self, dataset: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class WaitForShardsReply(_message.Message):
    __slots__ = ("availability",)
    AVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    availability: Availability
    def __init__(self, availability: _Optional[_Union[Availability, str]] = ...) -> None: ...

class ShardCheckpoint(_message.Message):
    __slots__ = ("version", "datasets")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    version: int
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetCheckpoint]
    def __init__(self, version: _Optional[int] = ..., datasets: _Optional[_Iterable[_Union[DatasetCheckpoint, _Mapping]]] = ...) -> None: ...

class DatasetCheckpoint(_message.Message):
    __slots__ = ("name", "layout", "epoch", "cursor", "length", "closed", "growths", "returned", "parked", "finished_shards", "finished_records", "open_epochs", "epochs_done", "slowest_s", "ended", "notes", "origin", "partitions", "turn")
    class LayoutEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    GROWTHS_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_SHARDS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    OPEN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_DONE_FIELD_NUMBER: _ClassVar[int]
    SLOWEST_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    name: str
    layout: _containers.ScalarMap[str, str]
    epoch: int
    cursor: int
    length: int
    closed: bool
    growths: _containers.RepeatedCompositeFieldContainer[StreamGrowth]
    returned: _containers.RepeatedCompositeFieldContainer[EpochShard]
    parked: _containers.RepeatedCompositeFieldContainer[ParkedEpochShard]
    finished_shards: int
    finished_records: int
    open_epochs: _containers.RepeatedCompositeFieldContainer[OpenEpoch]
    epochs_done: int
    slowest_s: float
    ended: bool
    notes: _containers.RepeatedCompositeFieldContainer[NoteName]
    origin: str
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionPosition]
    turn: int
    def __init__(self, name: _Optional[str] = ..., layout: _Optional[_Mapping[str, str]] = ..., epoch: _Optional[int] = ..., cursor: _Optional[int] = ..., length: _Optional[int] = ..., closed: _Optional[bool] = ..., growths: _Optional[_Iterable[_Union[StreamGrowth, _Mapping]]] = ..., returned: _Optional[_Iterable[_Union[EpochShard, _Mapping]]] = ..., parked: _Optional[_Iterable[_Union[ParkedEpochShard, _Mapping]]] = ..., finished_shards: _Optional[int] = ..., finished_records: _Optional[int] = ..., open_epochs: _Optional[_Iterable[_Union[OpenEpoch, _Mapping]]] = ..., epochs_done: _Optional[int] = ..., slowest_s: _Optional[float] = ..., ended: _Optional[bool] = ..., notes: _Optional[_Iterable[_Union[NoteName, _Mapping]]] = ..., origin: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionPosition, _Mapping]]] = ..., turn: _Optional[int] = ...) -> None: ...

class PartitionPosition(_message.Message):
    __slots__ = ("name", "position", "end", "closed", "finished_records")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    position: int
    end: int
    closed: bool
    finished_records: int
    def __init__(self, name: _Optional[str] = ..., position: _Optional[int] = ..., end: _Optional[int] = ..., closed: _Optional[bool] = ..., finished_records: _Optional[int] = ...) -> None: ...

class RestoreCheckpointReply(_message.Message):
    __slots__ = ("restored",)
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    restored: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, restored: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamGrowth(_message.Message):
    __slots__ = ("producer", "number", "length")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    producer: str
    number: int
    length: int
    def __init__(self, producer: _Optional[str] = ..., number: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class EpochShard(_message.Message):
    __slots__ = ("epoch", "ordinal", "offset", "failures", "timeouts", "count")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ordinal: int
    offset: int
    failures: int
    timeouts: int
    count: int
    def __init__(self, epoch: _Optional[int] = ..., ordinal: _Optional[int] = ..., offset: _Optional[int] = ..., failures: _Optional[int] = ..., timeouts: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ParkedEpochShard(_message.Message):
    __slots__ = ("shard", "message")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    shard: EpochShard
    message: str
    def __init__(self, shard: _Optional[_Union[EpochShard, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...

class OpenEpoch(_message.Message):
    __slots__ = ("epoch", "records")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    records: int
    def __init__(self, epoch: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...

class NoteName(_message.Message):
    __slots__ = ("epoch", "ordinal", "name")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ordinal: int
    name: str
    def __init__(self, epoch: _Optional[int] = ..., ordinal: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("member", "incarnation", "attrs", "step", "after")
    class AttrsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    member: str
    incarnation: str
    attrs: _containers.ScalarMap[str, str]
    step: int
    after: int
    def __init__(self, member: _Optional[str] = ..., incarnation: _Optional[str] = ..., attrs: _Optional[_Mapping[str, str]] = ..., step: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class AnnounceRequest(_message.Message):
    __slots__ = ("member", "incarnation", "world", "after")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    member: str
    incarnation: str
    world: World
    after: int
    def __init__(self, member: _Optional[str] = ..., incarnation: _Optional[str] = ..., world: _Optional[_Union[World, _Mapping]] = ..., after: _Optional[int] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("member", "incarnation")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    member: str
    incarnation: str
    def __init__(self, member: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class GetWorldRequest(_message.Message):
    __slots__ = ("member", "incarnation")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    member: str
    incarnation: str
    def __init__(self, member: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "incarnation", "attrs", "step", "seniority")
    class AttrsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SENIORITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    attrs: _containers.ScalarMap[str, str]
    step: int
    seniority: int
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., attrs: _Optional[_Mapping[str, str]] = ..., step: _Optional[int] = ..., seniority: _Optional[int] = ...) -> None: ...

class World(_message.Message):
    __slots__ = ("round", "members", "formed_at", "seats")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    FORMED_AT_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    round: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    formed_at: float
    seats: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, round: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., formed_at: _Optional[float] = ..., seats: _Optional[_Iterable[int]] = ...) -> None: ...

class GetWorldReply(_message.Message):
    __slots__ = ("state", "reason", "world", "round")
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    state: WorldState
    reason: str
    world: World
    round: int
    def __init__(self, state: _Optional[_Union[WorldState, str]] = ..., reason: _Optional[str] = ..., world: _Optional[_Union[World, _Mapping]] = ..., round: _Optional[int] = ...) -> None: ...

class WatchRoundRequest(_message.Message):
    __slots__ = ("round", "known_waiting", "member", "incarnation", "known_outdated", "known_probe")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KNOWN_WAITING_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KNOWN_OUTDATED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_PROBE_FIELD_NUMBER: _ClassVar[int]
    round: int
    known_waiting: int
    member: str
    incarnation: str
    known_outdated: bool
    known_probe: int
    def __init__(self, round: _Optional[int] = ..., known_waiting: _Optional[int] = ..., member: _Optional[str] = ..., incarnation: _Optional[str] = ..., known_outdated: _Optional[bool] = ..., known_probe: _Optional[int] = ...) -> None: ...

class SuspectRequest(_message.Message):
    __slots__ = ("round", "member", "incarnation")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    round: int
    member: str
    incarnation: str
    def __init__(self, round: _Optional[int] = ..., member: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class RoundStatus(_message.Message):
    __slots__ = ("intact", "superseded", "missing", "waiting", "closed", "outdated", "probe")
    INTACT_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    OUTDATED_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    intact: bool
    superseded: bool
    missing: _containers.RepeatedScalarFieldContainer[str]
    waiting: int
    closed: bool
    outdated: bool
    probe: int
    def __init__(self, intact: _Optional[bool] = ..., superseded: _Optional[bool] = ..., missing: _Optional[_Iterable[str]] = ..., waiting: _Optional[int] = ..., closed: _Optional[bool] = ..., outdated: _Optional[bool] = ..., probe: _Optional[int] = ...) -> None: ...

class ExchangeAddressesRequest(_message.Message):
    __slots__ = ("round", "member", "incarnation", "group", "ranks", "keys")
    class KeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    round: int
    member: str
    incarnation: str
    group: str
    ranks: _containers.RepeatedScalarFieldContainer[int]
    keys: _containers.ScalarMap[str, bytes]
    def __init__(self, round: _Optional[int] = ..., member: _Optional[str] = ..., incarnation: _Optional[str] = ..., group: _Optional[str] = ..., ranks: _Optional[_Iterable[int]] = ..., keys: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class PublishedKeys(_message.Message):
    __slots__ = ("keys",)
    class KeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.ScalarMap[str, bytes]
    def __init__(self, keys: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class ExchangeAddressesReply(_message.Message):
    __slots__ = ("state", "published")
    STATE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    state: ExchangeState
    published: _containers.RepeatedCompositeFieldContainer[PublishedKeys]
    def __init__(self, state: _Optional[_Union[ExchangeState, str]] = ..., published: _Optional[_Iterable[_Union[PublishedKeys, _Mapping]]] = ...) -> None: ...

class SetLimitsRequest(_message.Message):
    __slots__ = ("min_nodes", "max_nodes", "wait_seconds")
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    min_nodes: int
    max_nodes: int
    wait_seconds: float
    def __init__(self, min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class ReportVersionRequest(_message.Message):
    __slots__ = ("version", "node", "evaluate")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    version: int
    node: str
    evaluate: bool
    def __init__(self, version: _Optional[int] = ..., node: _Optional[str] = ..., evaluate: _Optional[bool] = ...) -> None: ...

class ReportVersionReply(_message.Message):
    __slots__ = ("queued",)
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    queued: bool
    def __init__(self, queued: _Optional[bool] = ...) -> None: ...

class EvaluationReply(_message.Message):
    __slots__ = ("version", "dataset")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    version: int
    dataset: str
    def __init__(self, version: _Optional[int] = ..., dataset: _Optional[str] = ...) -> None: ...

class ReportEvaluationRequest(_message.Message):
    __slots__ = ("version", "metrics", "records", "session")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    metrics: _containers.ScalarMap[str, float]
    records: int
    session: str
    def __init__(self, version: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., records: _Optional[int] = ..., session: _Optional[str] = ...) -> None: ...

class TrainingDefinition(_message.Message):
    __slots__ = ("evaluation", "monitor", "mode")
    EVALUATION_FIELD_NUMBER: _ClassVar[int]
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    evaluation: Dataset
    monitor: str
    mode: str
    def __init__(self, evaluation: _Optional[_Union[Dataset, _Mapping]] = ..., monitor: _Optional[str] = ..., mode: _Optional[str] = ...) -> None: ...

class WatchTrainingRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: str
    def __init__(self, known: _Optional[str] = ...) -> None: ...

class EvaluationResult(_message.Message):
    __slots__ = ("version", "metrics", "records")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    version: int
    metrics: _containers.ScalarMap[str, float]
    records: int
    def __init__(self, version: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., records: _Optional[int] = ...) -> None: ...

class TrainingState(_message.Message):
    __slots__ = ("tag", "open_version", "open_dataset", "shards_done", "claimed", "waiting", "needed", "results", "best", "stop_reason", "trained", "ended", "due", "version")
    TAG_FIELD_NUMBER: _ClassVar[int]
    OPEN_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPEN_DATASET_FIELD_NUMBER: _ClassVar[int]
    SHARDS_DONE_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    TRAINED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tag: str
    open_version: int
    open_dataset: str
    shards_done: bool
    claimed: bool
    waiting: _containers.RepeatedScalarFieldContainer[int]
    needed: _containers.RepeatedScalarFieldContainer[int]
    results: _containers.RepeatedCompositeFieldContainer[EvaluationResult]
    best: int
    stop_reason: str
    trained: bool
    ended: bool
    due: int
    version: int
    def __init__(self, tag: _Optional[str] = ..., open_version: _Optional[int] = ..., open_dataset: _Optional[str] = ..., shards_done: _Optional[bool] = ..., claimed: _Optional[bool] = ..., waiting: _Optional[_Iterable[int]] = ..., needed: _Optional[_Iterable[int]] = ..., results: _Optional[_Iterable[_Union[EvaluationResult, _Mapping]]] = ..., best: _Optional[int] = ..., stop_reason: _Optional[str] = ..., trained: _Optional[bool] = ..., ended: _Optional[bool] = ..., due: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class ClaimRoundRequest(_message.Message):
    __slots__ = ("version", "session")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    session: str
    def __init__(self, version: _Optional[int] = ..., session: _Optional[str] = ...) -> None: ...

class ClaimRoundReply(_message.Message):
    __slots__ = ("claimed",)
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    claimed: bool
    def __init__(self, claimed: _Optional[bool] = ...) -> None: ...

class GiveUpRoundRequest(_message.Message):
    __slots__ = ("version", "reason")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    version: int
    reason: str
    def __init__(self, version: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class CheckpointReport(_message.Message):
    __slots__ = ("node", "directory", "step", "problem", "hint")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    node: str
    directory: str
    step: int
    problem: str
    hint: str
    def __init__(self, node: _Optional[str] = ..., directory: _Optional[str] = ..., step: _Optional[int] = ..., problem: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class UnusableDestination(_message.Message):
    __slots__ = ("node", "directory", "problem", "hint")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    node: str
    directory: str
    problem: str
    hint: str
    def __init__(self, node: _Optional[str] = ..., directory: _Optional[str] = ..., problem: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class UnusableDestinationReply(_message.Message):
    __slots__ = ("proceed",)
    PROCEED_FIELD_NUMBER: _ClassVar[int]
    proceed: bool
    def __init__(self, proceed: _Optional[bool] = ...) -> None: ...

class ReportStepRequest(_message.Message):
    __slots__ = ("node", "step", "records", "metrics", "total_steps", "epoch", "records_done", "records_total", "run", "acknowledged")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_DONE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    node: str
    step: int
    records: int
    metrics: _containers.ScalarMap[str, float]
    total_steps: int
    epoch: int
    records_done: int
    records_total: int
    run: str
    acknowledged: int
    def __init__(self, node: _Optional[str] = ..., step: _Optional[int] = ..., records: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., total_steps: _Optional[int] = ..., epoch: _Optional[int] = ..., records_done: _Optional[int] = ..., records_total: _Optional[int] = ..., run: _Optional[str] = ..., acknowledged: _Optional[int] = ...) -> None: ...

class PlannerStatus(_message.Message):
    __slots__ = ("state", "until", "reason", "plan", "dry_run", "brain", "grant")
    STATE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BRAIN_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    state: PlannerState
    until: float
    reason: str
    plan: str
    dry_run: bool
    brain: str
    grant: QuotaGrant
    def __init__(self, state: _Optional[_Union[PlannerState, str]] = ..., until: _Optional[float] = ..., reason: _Optional[str] = ..., plan: _Optional[str] = ..., dry_run: _Optional[bool] = ..., brain: _Optional[str] = ..., grant: _Optional[_Union[QuotaGrant, _Mapping]] = ...) -> None: ...

class QuotaGrant(_message.Message):
    __slots__ = ("nodes", "cpu", "memory_mb", "reason")
    NODES_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    cpu: float
    memory_mb: float
    reason: str
    def __init__(self, nodes: _Optional[int] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class PlansReply(_message.Message):
    __slots__ = ("name", "planner", "plans")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    name: str
    planner: PlannerStatus
    plans: _containers.RepeatedCompositeFieldContainer[PlanRecord]
    def __init__(self, name: _Optional[str] = ..., planner: _Optional[_Union[PlannerStatus, _Mapping]] = ..., plans: _Optional[_Iterable[_Union[PlanRecord, _Mapping]]] = ...) -> None: ...

class NodeShape(_message.Message):
    __slots__ = ("replicas", "cpu", "memory_mb", "gpu")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    cpu: float
    memory_mb: int
    gpu: int
    def __init__(self, replicas: _Optional[int] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[int] = ..., gpu: _Optional[int] = ...) -> None: ...

class JobConfiguration(_message.Message):
    __slots__ = ("worker", "server", "micro_batch")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    MICRO_BATCH_FIELD_NUMBER: _ClassVar[int]
    worker: NodeShape
    server: NodeShape
    micro_batch: int
    def __init__(self, worker: _Optional[_Union[NodeShape, _Mapping]] = ..., server: _Optional[_Union[NodeShape, _Mapping]] = ..., micro_batch: _Optional[int] = ...) -> None: ...

class PlanPrediction(_message.Message):
    __slots__ = ("rate", "low", "high", "memory_mb", "node_seconds", "change_s")
    RATE_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    NODE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_S_FIELD_NUMBER: _ClassVar[int]
    rate: float
    low: float
    high: float
    memory_mb: float
    node_seconds: float
    change_s: float
    def __init__(self, rate: _Optional[float] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., memory_mb: _Optional[float] = ..., node_seconds: _Optional[float] = ..., change_s: _Optional[float] = ...) -> None: ...

class PlanProposal(_message.Message):
    __slots__ = ("algorithm", "reason", "configuration", "prediction", "replace", "seats", "moves", "urgent", "at_next_restart", "advice")
    class SeatsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class MovesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    AT_NEXT_RESTART_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    algorithm: str
    reason: str
    configuration: JobConfiguration
    prediction: PlanPrediction
    replace: _containers.RepeatedScalarFieldContainer[str]
    seats: _containers.ScalarMap[str, int]
    moves: _containers.ScalarMap[str, float]
    urgent: bool
    at_next_restart: bool
    advice: bool
    def __init__(self, algorithm: _Optional[str] = ..., reason: _Optional[str] = ..., configuration: _Optional[_Union[JobConfiguration, _Mapping]] = ..., prediction: _Optional[_Union[PlanPrediction, _Mapping]] = ..., replace: _Optional[_Iterable[str]] = ..., seats: _Optional[_Mapping[str, int]] = ..., moves: _Optional[_Mapping[str, float]] = ..., urgent: _Optional[bool] = ..., at_next_restart: _Optional[bool] = ..., advice: _Optional[bool] = ...) -> None: ...

class PlanRecord(_message.Message):
    __slots__ = ("id", "time", "proposal", "before", "before_rate", "before_error", "objective", "base_version", "expires", "outcome", "accepted_at", "ended_at", "achieved_rate", "achieved_error", "judgement", "rolls_back", "origin")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_RATE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    ACHIEVED_RATE_FIELD_NUMBER: _ClassVar[int]
    ACHIEVED_ERROR_FIELD_NUMBER: _ClassVar[int]
    JUDGEMENT_FIELD_NUMBER: _ClassVar[int]
    ROLLS_BACK_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    id: str
    time: float
    proposal: PlanProposal
    before: JobConfiguration
    before_rate: float
    before_error: float
    objective: PlanObjective
    base_version: int
    expires: float
    outcome: PlanOutcome
    accepted_at: float
    ended_at: float
    achieved_rate: float
    achieved_error: float
    judgement: str
    rolls_back: str
    origin: str
    def __init__(self, id: _Optional[str] = ..., time: _Optional[float] = ..., proposal: _Optional[_Union[PlanProposal, _Mapping]] = ..., before: _Optional[_Union[JobConfiguration, _Mapping]] = ..., before_rate: _Optional[float] = ..., before_error: _Optional[float] = ..., objective: _Optional[_Union[PlanObjective, str]] = ..., base_version: _Optional[int] = ..., expires: _Optional[float] = ..., outcome: _Optional[_Union[PlanOutcome, str]] = ..., accepted_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., achieved_rate: _Optional[float] = ..., achieved_error: _Optional[float] = ..., judgement: _Optional[str] = ..., rolls_back: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class StepParts(_message.Message):
    __slots__ = ("data", "compute", "peers")
    DATA_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    data: float
    compute: float
    peers: float
    def __init__(self, data: _Optional[float] = ..., compute: _Optional[float] = ..., peers: _Optional[float] = ...) -> None: ...

class CurvePoint(_message.Message):
    __slots__ = ("workers", "rate", "low", "high", "measured")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    workers: int
    rate: float
    low: float
    high: float
    measured: float
    def __init__(self, workers: _Optional[int] = ..., rate: _Optional[float] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., measured: _Optional[float] = ...) -> None: ...

class SpeedExplanation(_message.Message):
    __slots__ = ("state", "rate", "parts", "terms", "bottleneck", "curve", "identified", "next_plan", "not_yet", "configuration")
    class PartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class TermsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class IdentifiedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STATE_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    CURVE_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PLAN_FIELD_NUMBER: _ClassVar[int]
    NOT_YET_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    state: PlannerState
    rate: float
    parts: _containers.ScalarMap[str, float]
    terms: _containers.ScalarMap[str, float]
    bottleneck: str
    curve: _containers.RepeatedCompositeFieldContainer[CurvePoint]
    identified: _containers.ScalarMap[str, float]
    next_plan: PlanProposal
    not_yet: str
    configuration: JobConfiguration
    def __init__(self, state: _Optional[_Union[PlannerState, str]] = ..., rate: _Optional[float] = ..., parts: _Optional[_Mapping[str, float]] = ..., terms: _Optional[_Mapping[str, float]] = ..., bottleneck: _Optional[str] = ..., curve: _Optional[_Iterable[_Union[CurvePoint, _Mapping]]] = ..., identified: _Optional[_Mapping[str, float]] = ..., next_plan: _Optional[_Union[PlanProposal, _Mapping]] = ..., not_yet: _Optional[str] = ..., configuration: _Optional[_Union[JobConfiguration, _Mapping]] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ("name", "planner", "time", "explanation", "plans")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    name: str
    planner: PlannerStatus
    time: StepParts
    explanation: SpeedExplanation
    plans: _containers.RepeatedCompositeFieldContainer[PlanRecord]
    def __init__(self, name: _Optional[str] = ..., planner: _Optional[_Union[PlannerStatus, _Mapping]] = ..., time: _Optional[_Union[StepParts, _Mapping]] = ..., explanation: _Optional[_Union[SpeedExplanation, _Mapping]] = ..., plans: _Optional[_Iterable[_Union[PlanRecord, _Mapping]]] = ...) -> None: ...

class OptimizerSpec(_message.Message):
    __slots__ = ("kind", "learning_rate", "weight_decay", "decoupled", "momentum", "beta1", "beta2", "epsilon", "learning_rate_decay", "initial_accumulator", "l1", "l2", "beta", "learning_rate_power")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    DECOUPLED_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    BETA1_FIELD_NUMBER: _ClassVar[int]
    BETA2_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_DECAY_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_FIELD_NUMBER: _ClassVar[int]
    L1_FIELD_NUMBER: _ClassVar[int]
    L2_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_POWER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    learning_rate: float
    weight_decay: float
    decoupled: bool
    momentum: float
    beta1: float
    beta2: float
    epsilon: float
    learning_rate_decay: float
    initial_accumulator: float
    l1: float
    l2: float
    beta: float
    learning_rate_power: float
    def __init__(self, kind: _Optional[str] = ..., learning_rate: _Optional[float] = ..., weight_decay: _Optional[float] = ..., decoupled: _Optional[bool] = ..., momentum: _Optional[float] = ..., beta1: _Optional[float] = ..., beta2: _Optional[float] = ..., epsilon: _Optional[float] = ..., learning_rate_decay: _Optional[float] = ..., initial_accumulator: _Optional[float] = ..., l1: _Optional[float] = ..., l2: _Optional[float] = ..., beta: _Optional[float] = ..., learning_rate_power: _Optional[float] = ...) -> None: ...

class InitializerSpec(_message.Message):
    __slots__ = ("kind", "low", "high", "mean", "std", "value", "scale")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    STD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    low: float
    high: float
    mean: float
    std: float
    value: float
    scale: float
    def __init__(self, kind: _Optional[str] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., mean: _Optional[float] = ..., std: _Optional[float] = ..., value: _Optional[float] = ..., scale: _Optional[float] = ...) -> None: ...

class EvictionSpec(_message.Message):
    __slots__ = ("every", "unused_for", "less_than")
    EVERY_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FOR_FIELD_NUMBER: _ClassVar[int]
    LESS_THAN_FIELD_NUMBER: _ClassVar[int]
    every: int
    unused_for: int
    less_than: int
    def __init__(self, every: _Optional[int] = ..., unused_for: _Optional[int] = ..., less_than: _Optional[int] = ...) -> None: ...

class TableSpec(_message.Message):
    __slots__ = ("name", "dim", "optimizer", "initializer", "eviction", "seed", "rate_group")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    EVICTION_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    RATE_GROUP_FIELD_NUMBER: _ClassVar[int]
    name: str
    dim: int
    optimizer: OptimizerSpec
    initializer: InitializerSpec
    eviction: EvictionSpec
    seed: int
    rate_group: int
    def __init__(self, name: _Optional[str] = ..., dim: _Optional[int] = ..., optimizer: _Optional[_Union[OptimizerSpec, _Mapping]] = ..., initializer: _Optional[_Union[InitializerSpec, _Mapping]] = ..., eviction: _Optional[_Union[EvictionSpec, _Mapping]] = ..., seed: _Optional[int] = ..., rate_group: _Optional[int] = ...) -> None: ...

class VariableSpec(_message.Message):
    __slots__ = ("name", "shape", "optimizer", "initializer", "seed", "rate_group")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    RATE_GROUP_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    optimizer: OptimizerSpec
    initializer: InitializerSpec
    seed: int
    rate_group: int
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., optimizer: _Optional[_Union[OptimizerSpec, _Mapping]] = ..., initializer: _Optional[_Union[InitializerSpec, _Mapping]] = ..., seed: _Optional[int] = ..., rate_group: _Optional[int] = ...) -> None: ...

class BlockName(_message.Message):
    __slots__ = ("variable", "block")
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    variable: str
    block: int
    def __init__(self, variable: _Optional[str] = ..., block: _Optional[int] = ...) -> None: ...

class BlockSeats(_message.Message):
    __slots__ = ("seats",)
    SEATS_FIELD_NUMBER: _ClassVar[int]
    seats: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, seats: _Optional[_Iterable[int]] = ...) -> None: ...

class PartitionMap(_message.Message):
    __slots__ = ("version", "partitions", "blocks")
    class BlocksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: BlockSeats
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[BlockSeats, _Mapping]] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    version: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    blocks: _containers.MessageMap[str, BlockSeats]
    def __init__(self, version: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., blocks: _Optional[_Mapping[str, BlockSeats]] = ...) -> None: ...

class SeatHolder(_message.Message):
    __slots__ = ("seat", "fencing_token")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    seat: int
    fencing_token: int
    def __init__(self, seat: _Optional[int] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class JoinSeatRequest(_message.Message):
    __slots__ = ("node", "incarnation")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class JoinSeatReply(_message.Message):
    __slots__ = ("holder", "base", "restore_from", "map", "tables", "variables", "iteration", "last", "durable_log")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FROM_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DURABLE_LOG_FIELD_NUMBER: _ClassVar[int]
    holder: SeatHolder
    base: int
    restore_from: str
    map: PartitionMap
    tables: _containers.RepeatedCompositeFieldContainer[TableSpec]
    variables: _containers.RepeatedCompositeFieldContainer[VariableSpec]
    iteration: int
    last: int
    durable_log: bool
    def __init__(self, holder: _Optional[_Union[SeatHolder, _Mapping]] = ..., base: _Optional[int] = ..., restore_from: _Optional[str] = ..., map: _Optional[_Union[PartitionMap, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[TableSpec, _Mapping]]] = ..., variables: _Optional[_Iterable[_Union[VariableSpec, _Mapping]]] = ..., iteration: _Optional[int] = ..., last: _Optional[int] = ..., durable_log: _Optional[bool] = ...) -> None: ...

class SeatReadyRequest(_message.Message):
    __slots__ = ("holder", "address")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    holder: SeatHolder
    address: str
    def __init__(self, holder: _Optional[_Union[SeatHolder, _Mapping]] = ..., address: _Optional[str] = ...) -> None: ...

class Contribution(_message.Message):
    __slots__ = ("session", "sequence", "weight", "seats")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    session: str
    sequence: int
    weight: float
    seats: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session: _Optional[str] = ..., sequence: _Optional[int] = ..., weight: _Optional[float] = ..., seats: _Optional[_Iterable[int]] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("number", "kind", "map_version", "iteration", "contributions", "scale", "factors", "tables", "variables", "placement", "names", "session", "full", "since", "seats", "source", "target", "partitions", "blocks")
    class PlacementEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: BlockSeats
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[BlockSeats, _Mapping]] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    FACTORS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: OrderKind
    map_version: int
    iteration: int
    contributions: _containers.RepeatedCompositeFieldContainer[Contribution]
    scale: float
    factors: _containers.RepeatedScalarFieldContainer[float]
    tables: _containers.RepeatedCompositeFieldContainer[TableSpec]
    variables: _containers.RepeatedCompositeFieldContainer[VariableSpec]
    placement: _containers.MessageMap[str, BlockSeats]
    names: _containers.RepeatedScalarFieldContainer[str]
    session: str
    full: bool
    since: int
    seats: _containers.RepeatedScalarFieldContainer[int]
    source: int
    target: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    blocks: _containers.RepeatedCompositeFieldContainer[BlockName]
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[_Union[OrderKind, str]] = ..., map_version: _Optional[int] = ..., iteration: _Optional[int] = ..., contributions: _Optional[_Iterable[_Union[Contribution, _Mapping]]] = ..., scale: _Optional[float] = ..., factors: _Optional[_Iterable[float]] = ..., tables: _Optional[_Iterable[_Union[TableSpec, _Mapping]]] = ..., variables: _Optional[_Iterable[_Union[VariableSpec, _Mapping]]] = ..., placement: _Optional[_Mapping[str, BlockSeats]] = ..., names: _Optional[_Iterable[str]] = ..., session: _Optional[str] = ..., full: _Optional[bool] = ..., since: _Optional[int] = ..., seats: _Optional[_Iterable[int]] = ..., source: _Optional[int] = ..., target: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., blocks: _Optional[_Iterable[_Union[BlockName, _Mapping]]] = ...) -> None: ...

class SeatStats(_message.Message):
    __slots__ = ("rows", "bytes", "bytes_in", "bytes_out", "requests", "queue", "apply_seconds", "cpu_seconds", "log_bytes", "iteration")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    APPLY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    rows: int
    bytes: int
    bytes_in: int
    bytes_out: int
    requests: int
    queue: int
    apply_seconds: float
    cpu_seconds: float
    log_bytes: int
    iteration: int
    def __init__(self, rows: _Optional[int] = ..., bytes: _Optional[int] = ..., bytes_in: _Optional[int] = ..., bytes_out: _Optional[int] = ..., requests: _Optional[int] = ..., queue: _Optional[int] = ..., apply_seconds: _Optional[float] = ..., cpu_seconds: _Optional[float] = ..., log_bytes: _Optional[int] = ..., iteration: _Optional[int] = ...) -> None: ...

class NextOrdersRequest(_message.Message):
    __slots__ = ("holder", "after", "stats", "messages", "load")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    holder: SeatHolder
    after: int
    stats: SeatStats
    messages: _containers.RepeatedScalarFieldContainer[str]
    load: _containers.RepeatedCompositeFieldContainer[PartitionLoad]
    def __init__(self, holder: _Optional[_Union[SeatHolder, _Mapping]] = ..., after: _Optional[int] = ..., stats: _Optional[_Union[SeatStats, _Mapping]] = ..., messages: _Optional[_Iterable[str]] = ..., load: _Optional[_Iterable[_Union[PartitionLoad, _Mapping]]] = ...) -> None: ...

class PartitionLoad(_message.Message):
    __slots__ = ("partition", "share")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    partition: int
    share: float
    def __init__(self, partition: _Optional[int] = ..., share: _Optional[float] = ...) -> None: ...

class NextOrdersReply(_message.Message):
    __slots__ = ("orders", "base", "runs")
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[Order]
    base: int
    runs: _containers.RepeatedCompositeFieldContainer[ApplyRun]
    def __init__(self, orders: _Optional[_Iterable[_Union[Order, _Mapping]]] = ..., base: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[ApplyRun, _Mapping]]] = ...) -> None: ...

class ApplyRun(_message.Message):
    __slots__ = ("first", "map_version", "iteration", "seats", "sessions", "session", "sequences", "scales")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    first: int
    map_version: int
    iteration: int
    seats: _containers.RepeatedScalarFieldContainer[int]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    session: _containers.RepeatedScalarFieldContainer[int]
    sequences: _containers.RepeatedScalarFieldContainer[int]
    scales: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, first: _Optional[int] = ..., map_version: _Optional[int] = ..., iteration: _Optional[int] = ..., seats: _Optional[_Iterable[int]] = ..., sessions: _Optional[_Iterable[str]] = ..., session: _Optional[_Iterable[int]] = ..., sequences: _Optional[_Iterable[int]] = ..., scales: _Optional[_Iterable[float]] = ...) -> None: ...

class ReportDumpRequest(_message.Message):
    __slots__ = ("holder", "order", "failure")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    holder: SeatHolder
    order: int
    failure: str
    def __init__(self, holder: _Optional[_Union[SeatHolder, _Mapping]] = ..., order: _Optional[int] = ..., failure: _Optional[str] = ...) -> None: ...

class GetMapRequest(_message.Message):
    __slots__ = ("version", "seats_version")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SEATS_VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    seats_version: int
    def __init__(self, version: _Optional[int] = ..., seats_version: _Optional[int] = ...) -> None: ...

class SeatStatus(_message.Message):
    __slots__ = ("seat", "node", "address", "fencing_token", "partitions", "floats", "weight", "leaving", "stats", "order")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    seat: int
    node: str
    address: str
    fencing_token: int
    partitions: int
    floats: int
    weight: float
    leaving: bool
    stats: SeatStats
    order: int
    def __init__(self, seat: _Optional[int] = ..., node: _Optional[str] = ..., address: _Optional[str] = ..., fencing_token: _Optional[int] = ..., partitions: _Optional[int] = ..., floats: _Optional[int] = ..., weight: _Optional[float] = ..., leaving: _Optional[bool] = ..., stats: _Optional[_Union[SeatStats, _Mapping]] = ..., order: _Optional[int] = ...) -> None: ...

class ParameterMap(_message.Message):
    __slots__ = ("map", "seats_version", "seats", "tables", "variables", "initialized", "iteration", "sync", "batch", "assign_order", "push_window")
    MAP_FIELD_NUMBER: _ClassVar[int]
    SEATS_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    INITIALIZED_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_ORDER_FIELD_NUMBER: _ClassVar[int]
    PUSH_WINDOW_FIELD_NUMBER: _ClassVar[int]
    map: PartitionMap
    seats_version: int
    seats: _containers.RepeatedCompositeFieldContainer[SeatStatus]
    tables: _containers.RepeatedCompositeFieldContainer[TableSpec]
    variables: _containers.RepeatedCompositeFieldContainer[VariableSpec]
    initialized: _containers.RepeatedScalarFieldContainer[str]
    iteration: int
    sync: bool
    batch: int
    assign_order: int
    push_window: int
    def __init__(self, map: _Optional[_Union[PartitionMap, _Mapping]] = ..., seats_version: _Optional[int] = ..., seats: _Optional[_Iterable[_Union[SeatStatus, _Mapping]]] = ..., tables: _Optional[_Iterable[_Union[TableSpec, _Mapping]]] = ..., variables: _Optional[_Iterable[_Union[VariableSpec, _Mapping]]] = ..., initialized: _Optional[_Iterable[str]] = ..., iteration: _Optional[int] = ..., sync: _Optional[bool] = ..., batch: _Optional[int] = ..., assign_order: _Optional[int] = ..., push_window: _Optional[int] = ...) -> None: ...

class DefineRequest(_message.Message):
    __slots__ = ("tables", "variables")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[TableSpec]
    variables: _containers.RepeatedCompositeFieldContainer[VariableSpec]
    def __init__(self, tables: _Optional[_Iterable[_Union[TableSpec, _Mapping]]] = ..., variables: _Optional[_Iterable[_Union[VariableSpec, _Mapping]]] = ...) -> None: ...

class ContributeRequest(_message.Message):
    __slots__ = ("session", "sequence", "based_on", "examples", "holders", "map_version", "progress")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BASED_ON_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    session: str
    sequence: int
    based_on: int
    examples: int
    holders: _containers.RepeatedCompositeFieldContainer[SeatHolder]
    map_version: int
    progress: _containers.RepeatedCompositeFieldContainer[LeaseProgress]
    def __init__(self, session: _Optional[str] = ..., sequence: _Optional[int] = ..., based_on: _Optional[int] = ..., examples: _Optional[int] = ..., holders: _Optional[_Iterable[_Union[SeatHolder, _Mapping]]] = ..., map_version: _Optional[int] = ..., progress: _Optional[_Iterable[_Union[LeaseProgress, _Mapping]]] = ...) -> None: ...

class AssignRequest(_message.Message):
    __slots__ = ("session", "sequence", "names", "holders", "map_version")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    sequence: int
    names: _containers.RepeatedScalarFieldContainer[str]
    holders: _containers.RepeatedCompositeFieldContainer[SeatHolder]
    map_version: int
    def __init__(self, session: _Optional[str] = ..., sequence: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ..., holders: _Optional[_Iterable[_Union[SeatHolder, _Mapping]]] = ..., map_version: _Optional[int] = ...) -> None: ...

class ContributeReply(_message.Message):
    __slots__ = ("outcome", "iteration", "staleness", "reason", "lost_leases", "scheduled")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOST_LEASES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    outcome: PushOutcome
    iteration: int
    staleness: int
    reason: str
    lost_leases: _containers.RepeatedScalarFieldContainer[int]
    scheduled: int
    def __init__(self, outcome: _Optional[_Union[PushOutcome, str]] = ..., iteration: _Optional[int] = ..., staleness: _Optional[int] = ..., reason: _Optional[str] = ..., lost_leases: _Optional[_Iterable[int]] = ..., scheduled: _Optional[int] = ...) -> None: ...

class ContributeBatchRequest(_message.Message):
    __slots__ = ("session", "places", "sequences", "based_on", "examples", "place", "reports", "leases", "records", "after")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    BASED_ON_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    session: str
    places: _containers.RepeatedCompositeFieldContainer[StagingPlace]
    sequences: _containers.RepeatedScalarFieldContainer[int]
    based_on: _containers.RepeatedScalarFieldContainer[int]
    examples: _containers.RepeatedScalarFieldContainer[int]
    place: _containers.RepeatedScalarFieldContainer[int]
    reports: _containers.RepeatedScalarFieldContainer[int]
    leases: _containers.RepeatedScalarFieldContainer[int]
    records: _containers.RepeatedScalarFieldContainer[int]
    after: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session: _Optional[str] = ..., places: _Optional[_Iterable[_Union[StagingPlace, _Mapping]]] = ..., sequences: _Optional[_Iterable[int]] = ..., based_on: _Optional[_Iterable[int]] = ..., examples: _Optional[_Iterable[int]] = ..., place: _Optional[_Iterable[int]] = ..., reports: _Optional[_Iterable[int]] = ..., leases: _Optional[_Iterable[int]] = ..., records: _Optional[_Iterable[int]] = ..., after: _Optional[_Iterable[int]] = ...) -> None: ...

class StagingPlace(_message.Message):
    __slots__ = ("holders", "map_version")
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    holders: _containers.RepeatedCompositeFieldContainer[SeatHolder]
    map_version: int
    def __init__(self, holders: _Optional[_Iterable[_Union[SeatHolder, _Mapping]]] = ..., map_version: _Optional[int] = ...) -> None: ...

class ContributeBatchReply(_message.Message):
    __slots__ = ("outcomes", "iterations", "staleness", "refusals", "scheduled")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedScalarFieldContainer[PushOutcome]
    iterations: _containers.RepeatedScalarFieldContainer[int]
    staleness: _containers.RepeatedScalarFieldContainer[int]
    refusals: _containers.RepeatedCompositeFieldContainer[PushRefusal]
    scheduled: int
    def __init__(self, outcomes: _Optional[_Iterable[_Union[PushOutcome, str]]] = ..., iterations: _Optional[_Iterable[int]] = ..., staleness: _Optional[_Iterable[int]] = ..., refusals: _Optional[_Iterable[_Union[PushRefusal, _Mapping]]] = ..., scheduled: _Optional[int] = ...) -> None: ...

class PushRefusal(_message.Message):
    __slots__ = ("contribution", "reason", "lost_leases")
    CONTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOST_LEASES_FIELD_NUMBER: _ClassVar[int]
    contribution: int
    reason: str
    lost_leases: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, contribution: _Optional[int] = ..., reason: _Optional[str] = ..., lost_leases: _Optional[_Iterable[int]] = ...) -> None: ...

class ScheduleRequest(_message.Message):
    __slots__ = ("first", "groups", "factors")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    FACTORS_FIELD_NUMBER: _ClassVar[int]
    first: int
    groups: int
    factors: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, first: _Optional[int] = ..., groups: _Optional[int] = ..., factors: _Optional[_Iterable[float]] = ...) -> None: ...

class ScheduleReply(_message.Message):
    __slots__ = ("iteration", "scheduled")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    scheduled: int
    def __init__(self, iteration: _Optional[int] = ..., scheduled: _Optional[int] = ...) -> None: ...

class DumpRequest(_message.Message):
    __slots__ = ("full",)
    FULL_FIELD_NUMBER: _ClassVar[int]
    full: bool
    def __init__(self, full: _Optional[bool] = ...) -> None: ...

class DumpReply(_message.Message):
    __slots__ = ("order", "iteration", "path", "complete")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    order: int
    iteration: int
    path: str
    complete: bool
    def __init__(self, order: _Optional[int] = ..., iteration: _Optional[int] = ..., path: _Optional[str] = ..., complete: _Optional[bool] = ...) -> None: ...

class MoveOffRequest(_message.Message):
    __slots__ = ("node", "share", "reason", "id")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    node: str
    share: float
    reason: str
    id: str
    def __init__(self, node: _Optional[str] = ..., share: _Optional[float] = ..., reason: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class MoveOffReply(_message.Message):
    __slots__ = ("seat", "partitions", "weight")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    seat: int
    partitions: int
    weight: float
    def __init__(self, seat: _Optional[int] = ..., partitions: _Optional[int] = ..., weight: _Optional[float] = ...) -> None: ...

class AssignSeatsRequest(_message.Message):
    __slots__ = ("seats", "reason", "id", "base_version")
    class SeatsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SEATS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    seats: _containers.ScalarMap[str, int]
    reason: str
    id: str
    base_version: int
    def __init__(self, seats: _Optional[_Mapping[str, int]] = ..., reason: _Optional[str] = ..., id: _Optional[str] = ..., base_version: _Optional[int] = ...) -> None: ...

class AssignSeatsReply(_message.Message):
    __slots__ = ("virtual_workers", "seats", "version")
    class SeatsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VIRTUAL_WORKERS_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    virtual_workers: int
    seats: _containers.ScalarMap[str, int]
    version: int
    def __init__(self, virtual_workers: _Optional[int] = ..., seats: _Optional[_Mapping[str, int]] = ..., version: _Optional[int] = ...) -> None: ...

class ParametersStatus(_message.Message):
    __slots__ = ("sync", "iteration", "batch", "contributions", "examples", "stale", "moved", "last_order", "dump_order", "dump_iteration", "map_version", "seats", "staleness", "moves")
    SYNC_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    LAST_ORDER_FIELD_NUMBER: _ClassVar[int]
    DUMP_ORDER_FIELD_NUMBER: _ClassVar[int]
    DUMP_ITERATION_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    sync: bool
    iteration: int
    batch: int
    contributions: int
    examples: int
    stale: int
    moved: int
    last_order: int
    dump_order: int
    dump_iteration: int
    map_version: int
    seats: _containers.RepeatedCompositeFieldContainer[SeatStatus]
    staleness: _containers.RepeatedScalarFieldContainer[int]
    moves: int
    def __init__(self, sync: _Optional[bool] = ..., iteration: _Optional[int] = ..., batch: _Optional[int] = ..., contributions: _Optional[int] = ..., examples: _Optional[int] = ..., stale: _Optional[int] = ..., moved: _Optional[int] = ..., last_order: _Optional[int] = ..., dump_order: _Optional[int] = ..., dump_iteration: _Optional[int] = ..., map_version: _Optional[int] = ..., seats: _Optional[_Iterable[_Union[SeatStatus, _Mapping]]] = ..., staleness: _Optional[_Iterable[int]] = ..., moves: _Optional[int] = ...) -> None: ...
