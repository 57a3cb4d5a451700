"""Where a master listens: its successor serves whoever took the port meanwhile, and that one learns nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pliant.core.errors import MasterUnavailable, PermanentError, RetryableError, Unauthenticated
from pliant.files.atomic import write_json
from pliant.master import listening
from pliant.master.job_dir import JobDir
from pliant.master.process import Master
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.server import make_server
from pliant.rpc.tls import create_certificates
from pliant.testing import RunningMaster, wait_until

ALONE = {"components": {"need_pod_manager": False, "keep_serving": True}}
HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MAX_BIND_ATTEMPTS", 2)


class Squatter:
    """Someone who listens where a master did, and keeps what he is sent. He speaks the first words of HTTP/2."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_server((HERE, port))
        self.heard = b""
        self.calls = 0
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.calls += 1
                with contextlib.suppress(OSError), connection:
                    connection.settimeout(1)
                    connection.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")  # SETTINGS: go on
                    while data := connection.recv(1 << 16):
                        self.heard += data

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@contextlib.contextmanager
def squatter_at(address: Address) -> Iterator[Squatter]:
    found = Squatter(int(address.target.rpartition(":")[2]))
    try:
        yield found
    finally:
        found.close()


def asked(address: Address, timeout: float = 30) -> str:
    client = MasterClient(address)
    try:
        status: pb.JobStatus = client.call(client.stubs.job.GetStatus, pb.Empty(), timeout=timeout)
        return status.name
    finally:
        client.close()


def test_who_takes_the_port_of_a_killed_master_learns_no_token_and_keeps_no_successor_from_serving(
    tmp_path: Path,
) -> None:
    with RunningMaster(tmp_path, ALONE, host=HERE) as master:
        before = master.tcp_address
        assert before.tls is not None, "TLS, without being asked for"
        assert asked(before) == "tested"
        nodes = MasterClient(master.address)  # as agents and programs of this machine have one
        nodes.call(nodes.stubs.job.GetStatus, pb.Empty())
        master.kill()
        with squatter_at(before) as squatter:
            for address in (before, master.address):
                with pytest.raises(MasterUnavailable):
                    asked(address, timeout=2)
            wait_until(lambda: squatter.calls, what="the squatter to be called")
            master.start()
            assert master.tcp_address.target != before.target
            assert asked(master.tcp_address) == "tested"
            again = nodes.call_with_retry(nodes.stubs.job.GetStatus, pb.Empty(), retry_timeout=60)
            assert again.master_starts == 2, "who was connected finds it"
            assert squatter.heard, "he was called"
            assert before.token.encode() not in squatter.heard
            assert b"pliant-token" not in squatter.heard
        nodes.close()


def test_a_token_is_not_sent_in_plain_text_unless_the_address_allows_it(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, {**ALONE, "security": {"tls": False}}, host=HERE) as master:
        plain = replace(master.tcp_address, tls=None)
        with pytest.raises(Unauthenticated, match=r"not sent to 127\.0\.0\.1:[0-9]+ without TLS"):
            asked(plain)
        assert asked(replace(plain, allows_plaintext=True)) == "tested"


def test_a_first_master_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    with RunningMaster(tmp_path / "a", ALONE, host=HERE) as first:
        port = int(first.tcp_address.target.rpartition(":")[2])
        with pytest.raises(PermanentError, match="cannot listen on"):
            RunningMaster(tmp_path / "b", ALONE, port=port).start()


def test_a_successor_listens_on_the_same_port_if_it_is_free(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, ALONE, host=HERE) as master:
        before = master.tcp_address
        assert master.restart().tcp_address == before
        assert asked(before) == "tested"


def test_a_successor_that_was_told_no_port_keeps_that_of_its_predecessor(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, ALONE, host=HERE) as first:
        before = first.tcp_address
        first.kill()
        with RunningMaster(tmp_path, ALONE) as second:
            assert second.tcp_address == before
            assert asked(before) == "tested"


def test_a_port_that_was_asked_for_is_used_again_once_it_is_free(tmp_path: Path) -> None:
    with socket.create_server((HERE, 0)) as free:
        port = free.getsockname()[1]
    with RunningMaster(tmp_path, ALONE, port=port) as master:
        asked_for = master.tcp_address
        master.kill()
        with squatter_at(asked_for):
            elsewhere = master.start().tcp_address
            assert master.restart().tcp_address == elsewhere, "the second choice is where it was"
        assert master.restart().tcp_address == asked_for


def test_where_nodes_reach_a_master_only_at_its_port_it_waits_for_that(tmp_path: Path) -> None:
    job_dir = JobDir(tmp_path / "job")
    job_dir.create()
    job_dir.spec.write_text("name: tested\ncomponents: {need_pod_manager: false}\n")
    with socket.create_server((HERE, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RetryableError, match="nodes reach this master only there"):
            asyncio.run(Master(job_dir, host=HERE, port=port, advertise=f"10.0.0.1:{port}").run())


def test_a_master_that_a_cluster_starts_on_another_machine_listens_there(tmp_path: Path) -> None:
    write_json(tmp_path / "master.json", {"address": "127.0.0.2:4242", "listens": "127.0.0.2:4242"})
    listener = listening.Listener(JobDir(tmp_path), host="127.0.0.3", is_single_machine=False)

    async def bind() -> None:
        server = make_server("token")
        await listener.bind(server, create_certificates(tmp_path / "tls", ("127.0.0.3",)))
        await server.start()
        await server.stop(0)

    asyncio.run(bind())
    assert listener.address.startswith("127.0.0.3:")
