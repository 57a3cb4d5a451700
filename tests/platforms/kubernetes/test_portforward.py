from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platforms.kubernetes.fake_api_server import FakeApi, running_api

from pliant.core.errors import NotFound
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.portforward import Channels, ForwardRefused, PortForward
from pliant.testing.waiting import MAX_WAIT_S

PODS = "/api/v1/namespaces/team/pods"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with running_api() as made:
        made.put(f"{PODS}/digits-master", {"metadata": {}})
        yield made


def test_the_first_message_of_each_channel_is_the_port_and_no_data() -> None:
    channels = Channels()
    assert channels.take(b"\x00\x61\x1e") == b""
    assert channels.take(b"\x01\x61\x1e") == b""
    assert channels.take(b"\x00hello") == b"hello"
    assert channels.take(b"\x00\x61\x1e") == b"\x61\x1e"
    assert channels.take(b"\x07of another protocol") == b""
    assert channels.take(b"") == b""


def test_what_comes_on_the_channel_of_errors_is_raised() -> None:
    channels = Channels()
    channels.take(b"\x01\x61\x1e")
    with pytest.raises(ForwardRefused, match="connection refused"):
        channels.take(b"\x01connection refused\n")


async def exchange(folder: Path, api: FakeApi, pod: str, content: bytes) -> tuple[bytes, PortForward]:
    """What comes back from a connection through a port-forward."""
    async with KubeApi.load(api.kubeconfig(folder)) as client, PortForward(client, "team", pod, 7777) as forward:
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
        writer.write(content)
        got = b""
        async with asyncio.timeout(MAX_WAIT_S):
            while len(got) < max(1, len(content)) and (block := await reader.read(1 << 16)):
                got += block
        writer.close()
        return got, forward


def test_bytes_travel_both_ways_unchanged(tmp_path: Path, api: FakeApi) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def go() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        api.target = server.sockets[0].getsockname()[1]
        content = os.urandom(1_000_000)
        got, forward = await exchange(tmp_path, api, "digits-master", content)
        assert got == content
        assert forward.problem is None
        server.close()

    asyncio.run(go())


def test_a_pod_that_is_not_there_is_told_of_and_the_connection_closed(tmp_path: Path, api: FakeApi) -> None:
    got, forward = asyncio.run(exchange(tmp_path, api, "other-master", b"x"))
    assert got == b""
    assert isinstance(forward.problem, NotFound)


def test_a_missing_right_is_named(tmp_path: Path, api: FakeApi) -> None:
    api.forbidden.add(f"GET {PODS}/digits-master/portforward")
    got, forward = asyncio.run(exchange(tmp_path, api, "digits-master", b"x"))
    assert got == b""
    assert isinstance(forward.problem, Forbidden)
    assert "pods/portforward" in forward.problem.hint


def test_nobody_listening_in_the_pod_is_told_of(tmp_path: Path, api: FakeApi) -> None:
    api.complaint = b"dial tcp 127.0.0.1:7777: connection refused"
    got, forward = asyncio.run(exchange(tmp_path, api, "digits-master", b"x"))
    assert got == b""
    assert "connection refused" in str(forward.problem)
