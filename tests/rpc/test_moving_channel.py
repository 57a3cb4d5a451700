"""Clients of a master that is started again at another address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pliant.core.errors import MasterUnavailable
from pliant.core.nodes.environment import NodeEnvironment
from pliant.files.atomic import write_json
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, AsyncMasterClient, MasterClient
from pliant.rpc.identity import create_token_file
from pliant.testing import RunningMaster, wait_until

HERE = "127.0.0.1"
SPEC = {"components": {"need_pod_manager": False, "keep_serving": True}}


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens."""
    with closing(socket.socket()) as taken:
        taken.bind((HERE, 0))
        yield f"{HERE}:{taken.getsockname()[1]}"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path / "job", SPEC, host=HERE) as running:
        yield running


def publish(record: Path, target: str) -> None:
    write_json(record, {"tcp": target})


def test_a_client_finds_the_master_at_its_new_address(master: RunningMaster, nobody: str, tmp_path: Path) -> None:
    record = tmp_path / "master.json"
    publish(record, nobody)
    client = MasterClient(replace(master.tcp_address, target=nobody, record=record))
    status = client.stubs.job.GetStatus  # as a loop has it that retries
    try:
        with pytest.raises(MasterUnavailable, match="no response"):
            client.call(status, pb.Empty())
        publish(record, master.tcp_address.target)
        with pytest.raises(MasterUnavailable, match="has moved"):
            client.call(status, pb.Empty())
        assert client.call(status, pb.Empty()).name == "tested"
        record.unlink()  # whoever cannot read it stays where it is
        assert client.call(status, pb.Empty()).name == "tested"
    finally:
        client.close()


def test_a_call_that_nobody_waits_for_finds_it_too(master: RunningMaster, nobody: str, tmp_path: Path) -> None:
    record = tmp_path / "master.json"
    publish(record, master.tcp_address.target)
    client = MasterClient(replace(master.tcp_address, target=nobody, record=record))
    try:

        def answer() -> str:
            call = client.start(client.stubs.job.GetStatus, pb.Empty(), timeout=10)
            return call.result().name if call.exception() is None else ""

        assert wait_until(answer) == "tested"
    finally:
        client.close()


def test_an_agent_finds_it(master: RunningMaster, nobody: str, tmp_path: Path) -> None:
    record = tmp_path / "master.json"
    publish(record, master.tcp_address.target)

    async def ask() -> str:
        client = AsyncMasterClient(replace(master.tcp_address, target=nobody, record=record))
        try:
            with pytest.raises(MasterUnavailable, match="has moved"):
                await client.call(client.stubs.job.GetStatus, pb.Empty())
            reply: pb.JobStatus = await client.call(client.stubs.job.GetStatus, pb.Empty())
            return reply.name
        finally:
            await client.close()

    assert asyncio.run(ask()) == "tested"


def test_a_program_that_starts_late_begins_at_the_present_address(tmp_path: Path) -> None:
    record, token = tmp_path / "master.json", tmp_path / "token"
    create_token_file(token)
    environment = NodeEnvironment(master_addr="10.0.0.1:1", master_file=record, token_file=token)
    assert Address.of_node(environment).target == "10.0.0.1:1"
    publish(record, "10.0.0.2:2")
    assert Address.of_node(NodeEnvironment.from_env(environment.to_env())).target == "10.0.0.2:2"
