from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("name", "phase", "reason", "started_at", "ended_at", "global_step", "records_per_second", "stalled_seconds", "master_starts", "nodes", "datasets", "first_failure", "world", "components", "roles", "time", "parameters", "evaluations", "best")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_STEP_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STALLED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MASTER_STARTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    phase: str
    reason: str
    started_at: float
    ended_at: float
    global_step: int
    records_per_second: float
    stalled_seconds: float
    master_starts: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetStatus]
    first_failure: Failure
    world: World
    components: _containers.RepeatedScalarFieldContainer[str]
    roles: _containers.RepeatedCompositeFieldContainer[RoleStatus]
    time: float
    parameters: ParametersStatus
    evaluations: _containers.RepeatedCompositeFieldContainer[EvaluationResult]
    best: EvaluationResult
    def __init__(self, name: _Optional[str] = ..., phase: _Optional[str] = ..., reason: _Optional[str] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., global_step: _Optional[int] = ..., records_per_second: _Optional[float] = ..., stalled_seconds: _Optional[float] = ..., master_starts: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ..., datasets: _Optional[_Iterable[_Union[DatasetStatus, _Mapping]]] = ..., first_failure: _Optional[_Union[Failure, _Mapping]] = ..., world: _Optional[_Union[World, _Mapping]] = ..., components: _Optional[_Iterable[str]] = ..., roles: _Optional[_Iterable[_Union[RoleStatus, _Mapping]]] = ..., time: _Optional[float] = ..., parameters: _Optional[_Union[ParametersStatus, _Mapping]] = ..., evaluations: _Optional[_Iterable[_Union[EvaluationResult, _Mapping]]] = ..., best: _Optional[_Union[EvaluationResult, _Mapping]] = ...) -> None: ...

class RoleStatus(_message.Message):
    __slots__ = ("name", "min", "max", "target", "running")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    name: str
    min: int
    max: int
    target: int
    running: int
    def __init__(self, name: _Optional[str] = ..., min: _Optional[int] = ..., max: _Optional[int] = ..., target: _Optional[int] = ..., running: _Optional[int] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("name", "role", "state", "exit_reason", "message", "pid", "agent_pid", "host", "restarts", "replaces", "cpu", "memory_mb", "memory_limit_mb", "records_per_second", "created_at", "ended_at", "records")
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
    name: str
    role: str
    state: str
    exit_reason: str
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
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., state: _Optional[str] = ..., exit_reason: _Optional[str] = ..., message: _Optional[str] = ..., pid: _Optional[int] = ..., agent_pid: _Optional[int] = ..., host: _Optional[str] = ..., restarts: _Optional[int] = ..., replaces: _Optional[str] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., memory_limit_mb: _Optional[float] = ..., records_per_second: _Optional[float] = ..., created_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., records: _Optional[int] = ...) -> None: ...

class DatasetStatus(_message.Message):
    __slots__ = ("name", "type", "records_per_epoch", "records_done", "records_total", "epochs", "epochs_done", "shards_done", "shards_total", "shards_in_work", "shards_waiting", "parked", "complete", "lease_timeout")
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
    name: str
    type: str
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
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., records_per_epoch: _Optional[int] = ..., records_done: _Optional[int] = ..., records_total: _Optional[int] = ..., epochs: _Optional[int] = ..., epochs_done: _Optional[int] = ..., shards_done: _Optional[int] = ..., shards_total: _Optional[int] = ..., shards_in_work: _Optional[int] = ..., shards_waiting: _Optional[int] = ..., parked: _Optional[_Iterable[_Union[ParkedShard, _Mapping]]] = ..., complete: _Optional[bool] = ..., lease_timeout: _Optional[float] = ...) -> None: ...

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
    __slots__ = ("node", "kind", "message", "traceback", "time", "log")
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    node: str
    kind: str
    message: str
    traceback: str
    time: float
    log: str
    def __init__(self, node: _Optional[str] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., time: _Optional[float] = ..., log: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("number", "time", "kind", "node", "message")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    number: int
    time: float
    kind: str
    node: str
    message: str
    def __init__(self, number: _Optional[int] = ..., time: _Optional[float] = ..., kind: _Optional[str] = ..., node: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class AuditReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class ScaleRequest(_message.Message):
    __slots__ = ("role", "replicas", "reason")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    role: str
    replicas: int
    reason: str
    def __init__(self, role: _Optional[str] = ..., replicas: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ScaleReply(_message.Message):
    __slots__ = ("before", "now")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    before: int
    now: int
    def __init__(self, before: _Optional[int] = ..., now: _Optional[int] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ("reason", "at_once", "failed")
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    reason: str
    at_once: bool
    failed: bool
    def __init__(self, reason: _Optional[str] = ..., at_once: _Optional[bool] = ..., failed: _Optional[bool] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("node", "agent_pid", "host", "incarnation", "pid", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AGENT_PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: str
    agent_pid: int
    host: str
    incarnation: int
    pid: int
    address: str
    def __init__(self, node: _Optional[str] = ..., agent_pid: _Optional[int] = ..., host: _Optional[str] = ..., incarnation: _Optional[int] = ..., pid: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("cpu", "memory_mb", "memory_limit_mb", "stopped")
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_MB_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    cpu: float
    memory_mb: float
    memory_limit_mb: float
    stopped: bool
    def __init__(self, cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., memory_limit_mb: _Optional[float] = ..., stopped: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("stop", "grace", "reason", "register", "group", "recall", "kill")
    STOP_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    grace: float
    reason: str
    register: bool
    group: Group
    recall: str
    kill: str
    def __init__(self, stop: _Optional[bool] = ..., grace: _Optional[float] = ..., reason: _Optional[str] = ..., register: _Optional[bool] = ..., group: _Optional[_Union[Group, _Mapping]] = ..., recall: _Optional[str] = ..., kill: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("node", "incarnation", "exit_reason", "message", "traceback", "log", "generation", "grouped", "recalled")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EXIT_REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GROUPED_FIELD_NUMBER: _ClassVar[int]
    RECALLED_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    exit_reason: str
    message: str
    traceback: str
    log: str
    generation: int
    grouped: bool
    recalled: bool
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ..., exit_reason: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., log: _Optional[str] = ..., generation: _Optional[int] = ..., grouped: _Optional[bool] = ..., recalled: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("name", "type", "shard_size", "size", "files", "indices", "stream", "epochs", "shuffle", "shuffle_records", "seed", "epoch_barrier", "max_failures", "max_timeouts", "skip_parked", "lease_floor")
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
    name: str
    type: str
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
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., shard_size: _Optional[int] = ..., size: _Optional[int] = ..., files: _Optional[_Iterable[_Union[FilePart, _Mapping]]] = ..., indices: _Optional[_Iterable[int]] = ..., stream: _Optional[bool] = ..., epochs: _Optional[int] = ..., shuffle: _Optional[bool] = ..., shuffle_records: _Optional[bool] = ..., seed: _Optional[int] = ..., epoch_barrier: _Optional[bool] = ..., max_failures: _Optional[int] = ..., max_timeouts: _Optional[int] = ..., skip_parked: _Optional[bool] = ..., lease_floor: _Optional[float] = ...) -> None: ...

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
    __slots__ = ("dataset", "records", "close", "producer", "number")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    records: int
    close: bool
    producer: str
    number: int
    def __init__(self, dataset: _Optional[str] = ..., records: _Optional[int] = ..., close: _Optional[bool] = ..., producer: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("lease", "records")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    lease: int
    records: int
    def __init__(self, lease: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...

class LeaseFailure(_message.Message):
    __slots__ = ("lease", "message")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    lease: int
    message: str
    def __init__(self, lease: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("session", "request", "dataset", "want", "done", "progress", "failed", "released", "notes")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    session: str
    request: int
    dataset: str
    want: int
    done: _containers.RepeatedScalarFieldContainer[int]
    progress: _containers.RepeatedCompositeFieldContainer[LeaseProgress]
    failed: _containers.RepeatedCompositeFieldContainer[LeaseFailure]
    released: _containers.RepeatedScalarFieldContainer[int]
    notes: _containers.RepeatedCompositeFieldContainer[LeaseNote]
    def __init__(self, session: _Optional[str] = ..., request: _Optional[int] = ..., dataset: _Optional[str] = ..., want: _Optional[int] = ..., done: _Optional[_Iterable[int]] = ..., progress: _Optional[_Iterable[_Union[LeaseProgress, _Mapping]]] = ..., failed: _Optional[_Iterable[_Union[LeaseFailure, _Mapping]]] = ..., released: _Optional[_Iterable[int]] = ..., notes: _Optional[_Iterable[_Union[LeaseNote, _Mapping]]] = ...) -> None: ...

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
    __slots__ = ("shards", "refused", "supply")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SUPPLY_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    refused: _containers.RepeatedScalarFieldContainer[int]
    supply: str
    def __init__(self, shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., refused: _Optional[_Iterable[int]] = ..., supply: _Optional[str] = ...) -> None: ...

class WaitForShardsRequest(_message.Message):
    __slots__ = ("dataset", "session")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    session: str
    def __init__(self, dataset: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class WaitForShardsReply(_message.Message):
    __slots__ = ("supply",)
    SUPPLY_FIELD_NUMBER: _ClassVar[int]
    supply: str
    def __init__(self, supply: _Optional[str] = ...) -> None: ...

class ShardCheckpoint(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("name", "incarnation", "attrs", "step")
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
    name: str
    incarnation: str
    attrs: _containers.ScalarMap[str, str]
    step: int
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., attrs: _Optional[_Mapping[str, str]] = ..., step: _Optional[int] = ...) -> None: ...

class World(_message.Message):
    __slots__ = ("round", "members")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    round: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, round: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class GetWorldReply(_message.Message):
    __slots__ = ("state", "reason", "world", "round")
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    state: str
    reason: str
    world: World
    round: int
    def __init__(self, state: _Optional[str] = ..., reason: _Optional[str] = ..., world: _Optional[_Union[World, _Mapping]] = ..., round: _Optional[int] = ...) -> None: ...

class WatchRoundRequest(_message.Message):
    __slots__ = ("round", "known_waiting", "member", "incarnation")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KNOWN_WAITING_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    round: int
    known_waiting: int
    member: str
    incarnation: str
    def __init__(self, round: _Optional[int] = ..., known_waiting: _Optional[int] = ..., member: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class RoundStatus(_message.Message):
    __slots__ = ("intact", "superseded", "missing", "waiting", "closed")
    INTACT_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    intact: bool
    superseded: bool
    missing: _containers.RepeatedScalarFieldContainer[str]
    waiting: int
    closed: bool
    def __init__(self, intact: _Optional[bool] = ..., superseded: _Optional[bool] = ..., missing: _Optional[_Iterable[str]] = ..., waiting: _Optional[int] = ..., closed: _Optional[bool] = ...) -> None: ...

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

class ReportStepRequest(_message.Message):
    __slots__ = ("node", "step", "records", "metrics")
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
    node: str
    step: int
    records: int
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, node: _Optional[str] = ..., step: _Optional[int] = ..., records: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class JoinSeatRequest(_message.Message):
    __slots__ = ("node", "incarnation")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class JoinSeatReply(_message.Message):
    __slots__ = ("seat", "tenure", "base", "chain", "restore_from", "state", "last", "partitions")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    TENURE_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FROM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    seat: int
    tenure: int
    base: int
    chain: _containers.RepeatedScalarFieldContainer[int]
    restore_from: str
    state: str
    last: int
    partitions: int
    def __init__(self, seat: _Optional[int] = ..., tenure: _Optional[int] = ..., base: _Optional[int] = ..., chain: _Optional[_Iterable[int]] = ..., restore_from: _Optional[str] = ..., state: _Optional[str] = ..., last: _Optional[int] = ..., partitions: _Optional[int] = ...) -> None: ...

class SeatReadyRequest(_message.Message):
    __slots__ = ("seat", "tenure", "address")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    TENURE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    seat: int
    tenure: int
    address: str
    def __init__(self, seat: _Optional[int] = ..., tenure: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class OrderPart(_message.Message):
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

class Order(_message.Message):
    __slots__ = ("number", "kind", "map_version", "iteration", "parts", "scale", "tables", "variables", "placed", "names", "session", "full", "seats", "giver", "taker", "partitions", "blocks", "since", "factors")
    class PlacedEntry(_message.Message):
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
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    GIVER_FIELD_NUMBER: _ClassVar[int]
    TAKER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    FACTORS_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: str
    map_version: int
    iteration: int
    parts: _containers.RepeatedCompositeFieldContainer[OrderPart]
    scale: float
    tables: _containers.RepeatedScalarFieldContainer[str]
    variables: _containers.RepeatedScalarFieldContainer[str]
    placed: _containers.MessageMap[str, BlockSeats]
    names: _containers.RepeatedScalarFieldContainer[str]
    session: str
    full: bool
    seats: _containers.RepeatedScalarFieldContainer[int]
    giver: int
    taker: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    blocks: _containers.RepeatedCompositeFieldContainer[BlockName]
    since: int
    factors: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[str] = ..., map_version: _Optional[int] = ..., iteration: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[OrderPart, _Mapping]]] = ..., scale: _Optional[float] = ..., tables: _Optional[_Iterable[str]] = ..., variables: _Optional[_Iterable[str]] = ..., placed: _Optional[_Mapping[str, BlockSeats]] = ..., names: _Optional[_Iterable[str]] = ..., session: _Optional[str] = ..., full: _Optional[bool] = ..., seats: _Optional[_Iterable[int]] = ..., giver: _Optional[int] = ..., taker: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., blocks: _Optional[_Iterable[_Union[BlockName, _Mapping]]] = ..., since: _Optional[int] = ..., factors: _Optional[_Iterable[float]] = ...) -> None: ...

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
    __slots__ = ("seat", "tenure", "after", "stats", "said")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    TENURE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    seat: int
    tenure: int
    after: int
    stats: SeatStats
    said: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, seat: _Optional[int] = ..., tenure: _Optional[int] = ..., after: _Optional[int] = ..., stats: _Optional[_Union[SeatStats, _Mapping]] = ..., said: _Optional[_Iterable[str]] = ...) -> None: ...

class NextOrdersReply(_message.Message):
    __slots__ = ("orders", "base", "kept")
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[Order]
    base: int
    kept: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, orders: _Optional[_Iterable[_Union[Order, _Mapping]]] = ..., base: _Optional[int] = ..., kept: _Optional[_Iterable[int]] = ...) -> None: ...

class ReportDumpRequest(_message.Message):
    __slots__ = ("seat", "tenure", "order", "failure")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    TENURE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    seat: int
    tenure: int
    order: int
    failure: str
    def __init__(self, seat: _Optional[int] = ..., tenure: _Optional[int] = ..., order: _Optional[int] = ..., failure: _Optional[str] = ...) -> None: ...

class GetMapRequest(_message.Message):
    __slots__ = ("version", "roster")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    version: int
    roster: int
    def __init__(self, version: _Optional[int] = ..., roster: _Optional[int] = ...) -> None: ...

class SeatStatus(_message.Message):
    __slots__ = ("seat", "node", "address", "tenure", "partitions", "floats", "weight", "leaving", "stats", "order")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TENURE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    seat: int
    node: str
    address: str
    tenure: int
    partitions: int
    floats: int
    weight: float
    leaving: bool
    stats: SeatStats
    order: int
    def __init__(self, seat: _Optional[int] = ..., node: _Optional[str] = ..., address: _Optional[str] = ..., tenure: _Optional[int] = ..., partitions: _Optional[int] = ..., floats: _Optional[int] = ..., weight: _Optional[float] = ..., leaving: _Optional[bool] = ..., stats: _Optional[_Union[SeatStats, _Mapping]] = ..., order: _Optional[int] = ...) -> None: ...

class ParameterMap(_message.Message):
    __slots__ = ("version", "roster", "partitions", "blocks", "seats", "tables", "variables", "initialized", "iteration", "sync", "batch", "assigned")
    class BlocksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: BlockSeats
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[BlockSeats, _Mapping]] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    INITIALIZED_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    version: int
    roster: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    blocks: _containers.MessageMap[str, BlockSeats]
    seats: _containers.RepeatedCompositeFieldContainer[SeatStatus]
    tables: _containers.RepeatedScalarFieldContainer[str]
    variables: _containers.RepeatedScalarFieldContainer[str]
    initialized: _containers.RepeatedScalarFieldContainer[str]
    iteration: int
    sync: bool
    batch: int
    assigned: int
    def __init__(self, version: _Optional[int] = ..., roster: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., blocks: _Optional[_Mapping[str, BlockSeats]] = ..., seats: _Optional[_Iterable[_Union[SeatStatus, _Mapping]]] = ..., tables: _Optional[_Iterable[str]] = ..., variables: _Optional[_Iterable[str]] = ..., initialized: _Optional[_Iterable[str]] = ..., iteration: _Optional[int] = ..., sync: _Optional[bool] = ..., batch: _Optional[int] = ..., assigned: _Optional[int] = ...) -> None: ...

class DefineRequest(_message.Message):
    __slots__ = ("tables", "variables")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedScalarFieldContainer[str]
    variables: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tables: _Optional[_Iterable[str]] = ..., variables: _Optional[_Iterable[str]] = ...) -> None: ...

class SeatTenure(_message.Message):
    __slots__ = ("seat", "tenure")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    TENURE_FIELD_NUMBER: _ClassVar[int]
    seat: int
    tenure: int
    def __init__(self, seat: _Optional[int] = ..., tenure: _Optional[int] = ...) -> None: ...

class ContributeRequest(_message.Message):
    __slots__ = ("session", "sequence", "based_on", "examples", "seats", "map_version", "progress", "names")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BASED_ON_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    session: str
    sequence: int
    based_on: int
    examples: int
    seats: _containers.RepeatedCompositeFieldContainer[SeatTenure]
    map_version: int
    progress: _containers.RepeatedCompositeFieldContainer[LeaseProgress]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session: _Optional[str] = ..., sequence: _Optional[int] = ..., based_on: _Optional[int] = ..., examples: _Optional[int] = ..., seats: _Optional[_Iterable[_Union[SeatTenure, _Mapping]]] = ..., map_version: _Optional[int] = ..., progress: _Optional[_Iterable[_Union[LeaseProgress, _Mapping]]] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ContributeReply(_message.Message):
    __slots__ = ("fate", "iteration", "staleness", "reason", "lost", "scheduled")
    FATE_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    fate: str
    iteration: int
    staleness: int
    reason: str
    lost: _containers.RepeatedScalarFieldContainer[int]
    scheduled: int
    def __init__(self, fate: _Optional[str] = ..., iteration: _Optional[int] = ..., staleness: _Optional[int] = ..., reason: _Optional[str] = ..., lost: _Optional[_Iterable[int]] = ..., scheduled: _Optional[int] = ...) -> None: ...

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

class MoveOffRequest(_message.Message):
    __slots__ = ("node", "share", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    share: float
    reason: str
    def __init__(self, node: _Optional[str] = ..., share: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class MoveOffReply(_message.Message):
    __slots__ = ("seat", "partitions", "weight")
    SEAT_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    seat: int
    partitions: int
    weight: float
    def __init__(self, seat: _Optional[int] = ..., partitions: _Optional[int] = ..., weight: _Optional[float] = ...) -> None: ...

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
