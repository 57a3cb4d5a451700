from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rpc.raw import send_raw

from pliant.core.errors import Conflict, InvalidRequest, NotFound, PliantError, SessionExpired
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.checkpoints import checkpoint_from, checkpoint_message
from pliant.testing import RunningMaster

HUGE = (1 << 63) - 1
METHODS: dict[str, type[Message]] = {
    f"/{service.full_name}/{method.name}": GetMessageClass(method.input_type)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
ENDS_THE_JOB = "/pliant.v1.Job/Stop"


def send(master: RunningMaster, method: str, request: bytes, timeout: float = 10.0) -> grpc.StatusCode:
    return send_raw(master.address.target, method, request, token=master.address.token, timeout=timeout)


def state_of(master: RunningMaster) -> dict[str, Any]:
    """Without the progress: what an earlier test reported is noted by a later tick."""
    return {name: state for name, state in master.state().items() if name != "progress"}


def parses(method: str, request: bytes) -> bool:
    try:
        METHODS[method].FromString(request)
    except DecodeError:
        return False
    return True


def is_well(master: RunningMaster) -> bool:
    status = master.status()
    return status.phase == "Running" and len(status.nodes) >= 2


@st.composite
def protobuf_like(draw: st.DrawFn) -> bytes:
    """Fields of any number and type, with lengths that lie."""
    out = b""
    for _ in range(draw(st.integers(1, 6))):
        tag = draw(st.integers(1, 20)) << 3 | draw(st.integers(0, 7))
        content = draw(st.binary(max_size=30))
        length = draw(st.sampled_from([len(content), len(content) + 1, 127, 0]))
        out += bytes([tag & 0x7F]) + draw(st.sampled_from([bytes([length & 0x7F]) + content, content, b"\xff" * 10]))
    return out


@settings(max_examples=60, deadline=None)
@given(method=st.sampled_from(sorted(METHODS)), request_=st.binary(min_size=1, max_size=200) | protobuf_like())
def test_bytes_that_are_no_request_are_refused_and_change_nothing(
    master: RunningMaster, method: str, request_: bytes
) -> None:
    if parses(method, request_):
        return
    before = state_of(master)
    assert send(master, method, request_) is not grpc.StatusCode.OK
    assert state_of(master) == before
    assert is_well(master)


TEXT = st.text(max_size=20) | st.sampled_from(["worker-0", "train", "log", "worker--1", "worker-99999999999999999999"])
NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 1 << 31, HUGE, -HUGE - 1])


def filled(draw: st.DrawFn, kind: type[Message], depth: int = 0) -> Message:
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if depth > 2 or draw(st.integers(0, 3)) == 0:
            continue
        values = [_value(draw, field, depth) for _ in range(draw(st.integers(0, 3)) if field.is_repeated else 1)]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is not None:
            for value in values:
                target = getattr(message, field.name)
                (target.add() if field.is_repeated else target).CopyFrom(value)
        elif field.is_repeated:
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, values[0])
    return message


def _value(draw: st.DrawFn, field: Any, depth: int) -> Any:
    if field.type == field.TYPE_BYTES:
        return draw(st.binary(max_size=30))
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            return None
        return filled(draw, GetMessageClass(field.message_type), depth + 1)
    if field.cpp_type == field.CPPTYPE_STRING:
        return draw(TEXT)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return draw(st.booleans())
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return draw(st.floats() | st.just(-1.0))
    number = draw(NUMBERS)
    return number if field.cpp_type == field.CPPTYPE_INT64 else max(-(1 << 31), min((1 << 31) - 1, number))


@st.composite
def well_formed(draw: st.DrawFn) -> tuple[str, bytes]:
    method = draw(st.sampled_from(sorted(set(METHODS) - {ENDS_THE_JOB, "/pliant.v1.Nodes/ProgramExited"})))
    return method, filled(draw, METHODS[method]).SerializeToString()


def decided(master: RunningMaster) -> dict[str, Any]:
    """All but the answers to requests for changes: a refusal is remembered, too, so that the same request gets it again."""
    state = state_of(master)
    return {**state, "changes": {key: value for key, value in state["changes"].items() if key != "answers"}}


@settings(max_examples=120, deadline=None)
@given(call=well_formed())
def test_requests_that_make_no_sense_never_take_the_master_down(master: RunningMaster, call: tuple[str, bytes]) -> None:
    method, request = call
    before = decided(master)
    code = send(master, method, request, timeout=0.3)
    assert code not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE), method
    if code not in (grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED):
        assert decided(master) == before, f"{method} was refused with {code}, and yet something changed"
    assert is_well(master)


def test_a_request_that_was_cut_short_changes_nothing(master: RunningMaster) -> None:
    whole = pb.Dataset(
        name="cut", shard_size=3, size=10, files=[pb.FilePart(name="f", start=1, end=2)], indices=[5, 6]
    ).SerializeToString()
    method = "/pliant.v1.Shards/CreateDataset"
    before = state_of(master)
    for end in range(1, len(whole)):
        if not parses(method, whole[:end]):
            assert send(master, method, whole[:end]) is not grpc.StatusCode.OK
    assert state_of(master) == before


def test_an_unknown_method_is_unimplemented(master: RunningMaster) -> None:
    assert send(master, "/pliant.v1.Job/Destroy", b"") is grpc.StatusCode.UNIMPLEMENTED


def checkpoint_of_train(**layout: str) -> pb.ShardCheckpoint:
    return pb.ShardCheckpoint(version=2, datasets=[pb.DatasetCheckpoint(name="train", layout=layout)])


ABSURD: list[tuple[str, Message, type[PliantError]]] = [
    ("shards.CreateDataset", pb.Dataset(name="a", size=1 << 62, shard_size=1, epochs=1000), InvalidRequest),
    ("shards.CreateDataset", pb.Dataset(name="a", size=-1, shard_size=1), InvalidRequest),
    ("shards.CreateDataset", pb.Dataset(name="a", size=1, shard_size=0), InvalidRequest),
    ("shards.CreateDataset", pb.Dataset(name="a", size=1, shard_size=1, epochs=-1), InvalidRequest),
    ("shards.CreateDataset", pb.Dataset(name="a", size=1, shard_size=1, lease_floor=float("nan")), InvalidRequest),
    ("shards.CreateDataset", pb.Dataset(name="a", size=1, shard_size=1, type=99), InvalidRequest),  # type: ignore[arg-type]
    ("shards.CreateDataset", pb.Dataset(name="n" * 1000, size=1, shard_size=1), InvalidRequest),
    ("shards.CreateDataset", pb.Dataset(name="a", shard_size=1), InvalidRequest),
    ("shards.CreateDataset", pb.Dataset(name="a", indices=[-1], shard_size=1), InvalidRequest),
    (
        "shards.CreateDataset",
        pb.Dataset(name="a", shard_size=1, files=[pb.FilePart(name="f", start=0, end=1 << 62)] * 9),
        InvalidRequest,
    ),
    ("shards.CreateDataset", pb.Dataset(name="train", size=7, shard_size=10), Conflict),
    ("shards.GrowStream", pb.GrowRequest(dataset="log", records=-1, producer="p", number=1), InvalidRequest),
    ("shards.GrowStream", pb.GrowRequest(dataset="log", records=HUGE, producer="p", number=1), InvalidRequest),
    ("shards.GrowStream", pb.GrowRequest(dataset="log", records=1, producer="p", number=-1), InvalidRequest),
    ("shards.GrowStream", pb.GrowRequest(dataset="log", records=1, producer="p" * 201, number=1), InvalidRequest),
    ("shards.GrowStream", pb.GrowRequest(dataset="train", records=1, producer="p", number=1), InvalidRequest),
    ("shards.OpenSession", pb.OpenSessionRequest(), InvalidRequest),
    ("shards.OpenSession", pb.OpenSessionRequest(session="s" * 100_000, node="n"), InvalidRequest),
    ("shards.Exchange", pb.ExchangeRequest(session="none", request=1), SessionExpired),
    ("shards.Beat", pb.BeatRequest(session="none"), SessionExpired),
    ("shards.RestoreCheckpoint", pb.ShardCheckpoint(), InvalidRequest),
    ("shards.RestoreCheckpoint", pb.ShardCheckpoint(version=1), InvalidRequest),
    ("shards.RestoreCheckpoint", pb.ShardCheckpoint(version=2, datasets=[pb.DatasetCheckpoint()]), NotFound),
    ("shards.RestoreCheckpoint", pb.ShardCheckpoint(version=-1), InvalidRequest),
    ("shards.RestoreCheckpoint", checkpoint_of_train(), Conflict),
    ("shards.RestoreCheckpoint", checkpoint_of_train(size="?"), Conflict),
    ("job.Scale", pb.ScaleRequest(role="worker", replicas=(1 << 31) - 1), InvalidRequest),
    ("job.Scale", pb.ScaleRequest(role="worker", replicas=-1), InvalidRequest),
    ("job.Scale", pb.ScaleRequest(role="nobody", replicas=1), NotFound),
    ("nodes.Register", pb.RegisterRequest(node="worker-99"), NotFound),
    ("nodes.Heartbeat", pb.HeartbeatRequest(node="../../etc/passwd"), NotFound),
    ("nodes.ProgramExited", pb.ProgramExitedRequest(node="worker-x", exit_reason=pb.EXIT_REASON_ERROR), NotFound),
    ("rendezvous.Join", pb.JoinRequest(member="", incarnation=""), InvalidRequest),
    ("rendezvous.Join", pb.JoinRequest(member="w", incarnation="1", step=-1), InvalidRequest),
    ("rendezvous.Join", pb.JoinRequest(member="w", incarnation="1", after=HUGE), InvalidRequest),
    ("rendezvous.Join", pb.JoinRequest(member="w" * 1000, incarnation="1"), InvalidRequest),
    ("rendezvous.WatchRound", pb.WatchRoundRequest(round=-5), NotFound),
    ("rendezvous.SetLimits", pb.SetLimitsRequest(min_nodes=5, max_nodes=1), InvalidRequest),
    ("stats.ReportStep", pb.ReportStepRequest(node="worker-0", records=-1), InvalidRequest),
    ("stats.ReportStep", pb.ReportStepRequest(node="worker-0", step=-1), InvalidRequest),
    (
        "stats.ReportStep",
        pb.ReportStepRequest(node="worker-0", metrics={str(n): 0.0 for n in range(2000)}),
        InvalidRequest,
    ),
]


@pytest.mark.parametrize(("call", "request_", "expected"), ABSURD)
def test_an_absurd_request_is_refused_by_what_is_wrong_with_it(
    master: RunningMaster, call: str, request_: Message, expected: type[PliantError]
) -> None:
    service, _, name = call.partition(".")
    before = state_of(master)
    with pytest.raises(expected) as refused:
        master.client.call(getattr(getattr(master.client.stubs, service), name), request_)
    assert refused.value.message
    assert state_of(master) == before
    assert is_well(master)


def test_a_report_of_absurdly_many_records_does_not_break_the_status(master: RunningMaster) -> None:
    for _ in range(3):
        request = pb.ReportStepRequest(node="worker-0", step=HUGE, records=1 << 62, metrics={"loss": float("nan")})
        master.client.call(master.client.stubs.stats.ReportStep, request)
    assert is_well(master)


@pytest.mark.parametrize(
    "damage",
    [
        {"cursor": 1.5, "finished_shards": 1.5},
        {"slowest_s": "long"},
        {"slowest_s": float("nan")},
        {"closed": "yes"},
        {"returned": [[0, 0, 1 << 60]]},
        {"returned": [[0, 0]]},
        {"returned": [[0, 99, 1]]},
        {"returned": [[0, 0, 0, 0, "x"]]},
        {"parked": [[[0, 0, 0, 0, 0], 7]]},
        {"epoch": -1},
        {"finished_records": 1 << 70},
        {"open_epochs": 3},
        {"open_epochs": [["a", 1]]},
        {"growths": [["p", "1", 2]]},
    ],
    ids=str,
)
def test_a_damaged_checkpoint_is_refused_whole(master: RunningMaster, damage: dict[str, Any]) -> None:
    stubs = master.client.stubs.shards
    saved = checkpoint_from(master.client.call(stubs.Checkpoint, pb.Empty()))
    saved["datasets"]["train"]["state"].update(damage)
    before = state_of(master)
    with pytest.raises(InvalidRequest):
        master.client.call(stubs.RestoreCheckpoint, checkpoint_message(saved))
    assert state_of(master) == before
