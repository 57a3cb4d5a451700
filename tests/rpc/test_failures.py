from __future__ import annotations

from typing import Any

import grpc
import pytest
from tests.rpc.raw import send_raw

from pliant.core import errors
from pliant.core.errors import InvalidRequest, MasterUnavailable, NotFound, PliantError
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.failures import from_status, to_status
from pliant.testing import RunningMaster

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PliantError)]


class Status(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__()
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("hint", ["", "do this: ünd that\nthen go"])
def test_an_error_comes_out_as_the_type_it_was_with_its_hint(kind: type[PliantError], hint: str) -> None:
    got = from_status(Status(*to_status(kind("what happened", hint=hint))), "Call")
    assert type(got) is kind
    assert (got.message, got.hint) == ("what happened", hint)


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED]
)
def test_what_happens_on_the_way_is_worth_another_try(code: grpc.StatusCode) -> None:
    assert isinstance(from_status(Status(code, "tcp handshaker shutdown"), "Call"), MasterUnavailable)


def test_a_status_of_nobody_names_the_call_and_the_code() -> None:
    got = from_status(Status(grpc.StatusCode.INTERNAL, "a bug"), "Exchange")
    assert type(got) is PliantError
    assert "Exchange" in got.message
    assert "INTERNAL" in got.message


def test_details_that_look_like_ours_do_not_choose_any_type() -> None:
    got = from_status(Status(grpc.StatusCode.UNKNOWN, "SystemExit\x1fnow\x1f"), "Call")
    assert type(got) is PliantError


def call(master: RunningMaster, method: Any, request: Any) -> Any:
    return master.client.call(method, request)


def test_an_error_of_the_master_crosses_the_wire_whole(master: RunningMaster) -> None:
    with pytest.raises(NotFound) as refused:
        call(master, master.client.stubs.shards.GetDataset, pb.DatasetName(name="none"))
    assert refused.value.message == "dataset 'none' not found"
    assert "log, train" in refused.value.hint


def test_a_name_of_a_megabyte_does_not_keep_the_error_from_arriving(master: RunningMaster) -> None:
    with pytest.raises(NotFound, match="dataset 'ééé"):
        call(master, master.client.stubs.shards.GetDataset, pb.DatasetName(name="é" * 1_000_000))


def test_a_message_over_the_limit_is_refused_as_too_large_and_the_master_lives(master: RunningMaster) -> None:
    before = master.state()
    with pytest.raises(InvalidRequest, match="too large"):
        call(master, master.client.stubs.shards.GetDataset, pb.DatasetName(name="x" * (17 << 20)))
    target, token = master.address.target, master.address.token
    options = [("grpc.max_send_message_length", -1)]
    code = send_raw(target, "/pliant.v1.Shards/GetDataset", b"\x0a" * (17 << 20), token=token, options=options)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert master.state() == before


def test_a_large_message_below_the_limit_is_served(master: RunningMaster) -> None:
    with pytest.raises(NotFound):
        call(master, master.client.stubs.shards.GetDataset, pb.DatasetName(name="x" * (15 << 20)))
