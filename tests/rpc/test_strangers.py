"""Who does not belong to a job cannot use up what its members need: calls, connections, the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import server as server_module
from pliant.rpc.channel import Address
from pliant.rpc.identity import TOKEN_HEADER
from pliant.testing import RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

PLAIN = {"components": {"need_pod_manager": False, "keep_serving": True}, "security": {"tls": False}}
TLS = {"components": {"need_pod_manager": False, "keep_serving": True}}
METHODS = ("/pliant.v1.Job/Stop", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check", "/no.such/Method")
HERE = "127.0.0.1"


def open_calls(target: str, method: str, count: int) -> Counter[grpc.StatusCode]:
    """Calls of which only the headers are sent, and which are kept open: how they ended."""

    async def run() -> Counter[grpc.StatusCode]:
        opened: Any = grpc.aio.insecure_channel(target)  # its types demand serializers
        async with opened as channel:
            calls = [channel.stream_unary(method)() for _ in range(count)]
            return Counter(await asyncio.wait_for(asyncio.gather(*(call.code() for call in calls)), MAX_WAIT_S))

    return asyncio.run(run())


@pytest.mark.parametrize("method", METHODS)
def test_calls_without_the_token_end_at_once_and_keep_no_member_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(server_module, "MAX_CALLS_AT_ONCE", 20)
    with RunningMaster(tmp_path, PLAIN, host=HERE) as master:
        ended = open_calls(master.tcp_address.target, method, 100)
        assert set(ended) <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert ended[grpc.StatusCode.UNAUTHENTICATED]
        assert master.client.call(master.client.stubs.job.GetStatus, pb.Empty()).name == "tested"


def test_the_health_of_a_master_is_for_members(tmp_path: Path) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with RunningMaster(tmp_path, TLS) as master, grpc.insecure_channel(master.address.target) as channel:
        stub, request = health_pb2_grpc.HealthStub(channel), health_pb2.HealthCheckRequest()
        with pytest.raises(grpc.RpcError) as refused:
            stub.Check(request, timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        shown = ((TOKEN_HEADER, master.address.token),)
        assert stub.Check(request, timeout=10, metadata=shown).status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(request, timeout=10, metadata=shown)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()


@pytest.mark.parametrize("spec", [TLS, PLAIN], ids=["tls", "plain"])
def test_connections_that_say_nothing_are_closed_and_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, object]
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(server_module, "HANDSHAKE_TIMEOUT_S", 1.0)
    with RunningMaster(tmp_path, spec, host=HERE) as master, contextlib.ExitStack() as opened:
        host, _, port = master.tcp_address.target.rpartition(":")
        silent = [
            opened.enter_context(socket.create_connection((host, int(port)), timeout=MAX_WAIT_S)) for _ in range(30)
        ]
        for connection in silent:
            with contextlib.suppress(ConnectionError):
                while connection.recv(1 << 16):  # what HTTP/2 begins with; then it ends
                    continue
        address = Address(master.tcp_address.target, master.address.token, master.tcp_address.tls, spec is PLAIN)
        wait_until(lambda: _answers(address), what="a member to be let in")


def _answers(address: Address) -> bool:
    from pliant.core.errors import MasterUnavailable
    from pliant.rpc.channel import MasterClient

    client = MasterClient(address)
    try:
        return bool(client.call(client.stubs.job.GetStatus, pb.Empty(), timeout=10).name)
    except MasterUnavailable:
        return False
    finally:
        client.close()


def test_a_flood_of_refused_calls_writes_little_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = "/pliant.v1.Job/" + "x" * 8000
    with caplog.at_level(logging.INFO), RunningMaster(tmp_path, PLAIN, host=HERE) as master:
        before = len(caplog.text)
        for method in (*METHODS, long):
            open_calls(master.tcp_address.target, method, 200)
        assert len(caplog.text) - before < 4000
