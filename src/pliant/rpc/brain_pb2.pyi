from pliant.rpc import pliant_pb2 as _pliant_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobIdentity(_message.Message):
    __slots__ = ("namespace", "name", "uid")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class Fingerprint(_message.Message):
    __slots__ = ("strategy", "command", "program", "stem", "records")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    STEM_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    strategy: str
    command: str
    program: str
    stem: str
    records: int
    def __init__(self, strategy: _Optional[str] = ..., command: _Optional[str] = ..., program: _Optional[str] = ..., stem: _Optional[str] = ..., records: _Optional[int] = ...) -> None: ...

class JobDescription(_message.Message):
    __slots__ = ("owner", "quota", "priority", "is_preemptible", "mode", "platform", "algorithms", "fingerprint")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    IS_PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    ALGORITHMS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    owner: str
    quota: str
    priority: int
    is_preemptible: bool
    mode: str
    platform: str
    algorithms: _containers.RepeatedScalarFieldContainer[str]
    fingerprint: Fingerprint
    def __init__(self, owner: _Optional[str] = ..., quota: _Optional[str] = ..., priority: _Optional[int] = ..., is_preemptible: _Optional[bool] = ..., mode: _Optional[str] = ..., platform: _Optional[str] = ..., algorithms: _Optional[_Iterable[str]] = ..., fingerprint: _Optional[_Union[Fingerprint, _Mapping]] = ...) -> None: ...

class NodeFacts(_message.Message):
    __slots__ = ("name", "role", "state", "cpu", "memory_mb", "gpu", "host", "created_at", "started_at", "ended_at", "exit_reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXIT_REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    state: str
    cpu: float
    memory_mb: int
    gpu: int
    host: str
    created_at: float
    started_at: float
    ended_at: float
    exit_reason: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., state: _Optional[str] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[int] = ..., gpu: _Optional[int] = ..., host: _Optional[str] = ..., created_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., exit_reason: _Optional[str] = ...) -> None: ...

class NodeSample(_message.Message):
    __slots__ = ("node", "time", "cpu", "throttled", "memory_mb", "records")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    node: str
    time: float
    cpu: float
    throttled: float
    memory_mb: float
    records: int
    def __init__(self, node: _Optional[str] = ..., time: _Optional[float] = ..., cpu: _Optional[float] = ..., throttled: _Optional[float] = ..., memory_mb: _Optional[float] = ..., records: _Optional[int] = ...) -> None: ...

class JobSample(_message.Message):
    __slots__ = ("time", "records", "step", "rate", "running", "waiting")
    TIME_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    time: float
    records: int
    step: int
    rate: float
    running: int
    waiting: int
    def __init__(self, time: _Optional[float] = ..., records: _Optional[int] = ..., step: _Optional[int] = ..., rate: _Optional[float] = ..., running: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class Period(_message.Message):
    __slots__ = ("number", "configuration", "began", "ended", "rate", "error", "samples", "parts")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    configuration: _pliant_pb2.JobConfiguration
    began: float
    ended: float
    rate: float
    error: float
    samples: int
    parts: _pliant_pb2.StepParts
    def __init__(self, number: _Optional[int] = ..., configuration: _Optional[_Union[_pliant_pb2.JobConfiguration, _Mapping]] = ..., began: _Optional[float] = ..., ended: _Optional[float] = ..., rate: _Optional[float] = ..., error: _Optional[float] = ..., samples: _Optional[int] = ..., parts: _Optional[_Union[_pliant_pb2.StepParts, _Mapping]] = ...) -> None: ...

class PastJob(_message.Message):
    __slots__ = ("fingerprint", "ended", "succeeded", "configuration", "rate", "worker_memory_mb", "server_memory_mb")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    WORKER_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    SERVER_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    fingerprint: Fingerprint
    ended: float
    succeeded: bool
    configuration: _pliant_pb2.JobConfiguration
    rate: float
    worker_memory_mb: float
    server_memory_mb: float
    def __init__(self, fingerprint: _Optional[_Union[Fingerprint, _Mapping]] = ..., ended: _Optional[float] = ..., succeeded: _Optional[bool] = ..., configuration: _Optional[_Union[_pliant_pb2.JobConfiguration, _Mapping]] = ..., rate: _Optional[float] = ..., worker_memory_mb: _Optional[float] = ..., server_memory_mb: _Optional[float] = ...) -> None: ...

class PlannerFacts(_message.Message):
    __slots__ = ("state", "rests_s", "is_led")
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESTS_S_FIELD_NUMBER: _ClassVar[int]
    IS_LED_FIELD_NUMBER: _ClassVar[int]
    state: str
    rests_s: float
    is_led: bool
    def __init__(self, state: _Optional[str] = ..., rests_s: _Optional[float] = ..., is_led: _Optional[bool] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("protocol", "job", "session", "sequence", "time", "phase", "sample", "description", "nodes", "samples", "periods", "plans", "history", "taught", "granted", "lost", "planner", "granted_limit", "is_unlimited", "term")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    PERIODS_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    TAUGHT_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    GRANTED_LIMIT_FIELD_NUMBER: _ClassVar[int]
    IS_UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    job: JobIdentity
    session: int
    sequence: int
    time: float
    phase: str
    sample: JobSample
    description: JobDescription
    nodes: _containers.RepeatedCompositeFieldContainer[NodeFacts]
    samples: _containers.RepeatedCompositeFieldContainer[NodeSample]
    periods: _containers.RepeatedCompositeFieldContainer[Period]
    plans: _containers.RepeatedCompositeFieldContainer[_pliant_pb2.PlanRecord]
    history: bytes
    taught: PastJob
    granted: int
    lost: int
    planner: PlannerFacts
    granted_limit: _pliant_pb2.JobConfiguration
    is_unlimited: bool
    term: int
    def __init__(self, protocol: _Optional[int] = ..., job: _Optional[_Union[JobIdentity, _Mapping]] = ..., session: _Optional[int] = ..., sequence: _Optional[int] = ..., time: _Optional[float] = ..., phase: _Optional[str] = ..., sample: _Optional[_Union[JobSample, _Mapping]] = ..., description: _Optional[_Union[JobDescription, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[NodeFacts, _Mapping]]] = ..., samples: _Optional[_Iterable[_Union[NodeSample, _Mapping]]] = ..., periods: _Optional[_Iterable[_Union[Period, _Mapping]]] = ..., plans: _Optional[_Iterable[_Union[_pliant_pb2.PlanRecord, _Mapping]]] = ..., history: _Optional[bytes] = ..., taught: _Optional[_Union[PastJob, _Mapping]] = ..., granted: _Optional[int] = ..., lost: _Optional[int] = ..., planner: _Optional[_Union[PlannerFacts, _Mapping]] = ..., granted_limit: _Optional[_Union[_pliant_pb2.JobConfiguration, _Mapping]] = ..., is_unlimited: _Optional[bool] = ..., term: _Optional[int] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("term", "session", "sequence", "wants_all")
    TERM_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WANTS_ALL_FIELD_NUMBER: _ClassVar[int]
    term: int
    session: int
    sequence: int
    wants_all: bool
    def __init__(self, term: _Optional[int] = ..., session: _Optional[int] = ..., sequence: _Optional[int] = ..., wants_all: _Optional[bool] = ...) -> None: ...

class FollowRequest(_message.Message):
    __slots__ = ("protocol", "job")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    job: JobIdentity
    def __init__(self, protocol: _Optional[int] = ..., job: _Optional[_Union[JobIdentity, _Mapping]] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("id", "proposal", "base_version", "holds_s", "event")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOLDS_S_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    proposal: _pliant_pb2.PlanProposal
    base_version: int
    holds_s: float
    event: str
    def __init__(self, id: _Optional[str] = ..., proposal: _Optional[_Union[_pliant_pb2.PlanProposal, _Mapping]] = ..., base_version: _Optional[int] = ..., holds_s: _Optional[float] = ..., event: _Optional[str] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("job", "number", "limit", "reason", "grace_s", "is_unlimited")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    IS_UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    job: str
    number: int
    limit: _pliant_pb2.JobConfiguration
    reason: str
    grace_s: float
    is_unlimited: bool
    def __init__(self, job: _Optional[str] = ..., number: _Optional[int] = ..., limit: _Optional[_Union[_pliant_pb2.JobConfiguration, _Mapping]] = ..., reason: _Optional[str] = ..., grace_s: _Optional[float] = ..., is_unlimited: _Optional[bool] = ...) -> None: ...

class NothingToDo(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class BrainMessage(_message.Message):
    __slots__ = ("term", "offer", "grant", "nothing")
    TERM_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    NOTHING_FIELD_NUMBER: _ClassVar[int]
    term: int
    offer: Offer
    grant: Grant
    nothing: NothingToDo
    def __init__(self, term: _Optional[int] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ..., nothing: _Optional[_Union[NothingToDo, _Mapping]] = ...) -> None: ...

class OpenJournalRequest(_message.Message):
    __slots__ = ("protocol", "job", "writer", "has")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    HAS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    job: JobIdentity
    writer: str
    has: int
    def __init__(self, protocol: _Optional[int] = ..., job: _Optional[_Union[JobIdentity, _Mapping]] = ..., writer: _Optional[str] = ..., has: _Optional[int] = ...) -> None: ...

class JournalPart(_message.Message):
    __slots__ = ("fence", "number", "operations", "is_snapshot", "last", "lasting", "more")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    IS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LASTING_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    fence: int
    number: int
    operations: bytes
    is_snapshot: bool
    last: int
    lasting: bytes
    more: bool
    def __init__(self, fence: _Optional[int] = ..., number: _Optional[int] = ..., operations: _Optional[bytes] = ..., is_snapshot: _Optional[bool] = ..., last: _Optional[int] = ..., lasting: _Optional[bytes] = ..., more: _Optional[bool] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("job", "fence", "number", "operations", "is_snapshot", "lasting")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    IS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LASTING_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    fence: int
    number: int
    operations: bytes
    is_snapshot: bool
    lasting: bytes
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., fence: _Optional[int] = ..., number: _Optional[int] = ..., operations: _Optional[bytes] = ..., is_snapshot: _Optional[bool] = ..., lasting: _Optional[bytes] = ...) -> None: ...

class CommitReply(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class Machine(_message.Message):
    __slots__ = ("name", "cpu", "memory_mb", "gpu", "free_cpu", "free_memory_mb", "free_gpu", "used_cpu", "used_memory_mb", "is_ready")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    FREE_CPU_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    FREE_GPU_FIELD_NUMBER: _ClassVar[int]
    USED_CPU_FIELD_NUMBER: _ClassVar[int]
    USED_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    IS_READY_FIELD_NUMBER: _ClassVar[int]
    name: str
    cpu: float
    memory_mb: float
    gpu: int
    free_cpu: float
    free_memory_mb: float
    free_gpu: int
    used_cpu: float
    used_memory_mb: float
    is_ready: bool
    def __init__(self, name: _Optional[str] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., gpu: _Optional[int] = ..., free_cpu: _Optional[float] = ..., free_memory_mb: _Optional[float] = ..., free_gpu: _Optional[int] = ..., used_cpu: _Optional[float] = ..., used_memory_mb: _Optional[float] = ..., is_ready: _Optional[bool] = ...) -> None: ...

class ObservedNode(_message.Message):
    __slots__ = ("namespace", "job", "name", "role", "phase", "machine", "cpu", "memory_mb", "gpu", "used_cpu", "used_memory_mb")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    USED_CPU_FIELD_NUMBER: _ClassVar[int]
    USED_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    job: str
    name: str
    role: str
    phase: str
    machine: str
    cpu: float
    memory_mb: float
    gpu: int
    used_cpu: float
    used_memory_mb: float
    def __init__(self, namespace: _Optional[str] = ..., job: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., phase: _Optional[str] = ..., machine: _Optional[str] = ..., cpu: _Optional[float] = ..., memory_mb: _Optional[float] = ..., gpu: _Optional[int] = ..., used_cpu: _Optional[float] = ..., used_memory_mb: _Optional[float] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("protocol", "cluster", "monitor", "time", "machines", "nodes")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    cluster: str
    monitor: str
    time: float
    machines: _containers.RepeatedCompositeFieldContainer[Machine]
    nodes: _containers.RepeatedCompositeFieldContainer[ObservedNode]
    def __init__(self, protocol: _Optional[int] = ..., cluster: _Optional[str] = ..., monitor: _Optional[str] = ..., time: _Optional[float] = ..., machines: _Optional[_Iterable[_Union[Machine, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[ObservedNode, _Mapping]]] = ...) -> None: ...

class ObserveReply(_message.Message):
    __slots__ = ("term",)
    TERM_FIELD_NUMBER: _ClassVar[int]
    term: int
    def __init__(self, term: _Optional[int] = ...) -> None: ...
