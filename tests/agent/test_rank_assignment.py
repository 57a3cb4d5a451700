from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from pliant.agent.rank_assignment import CONNECT_S, LOOK_AGAIN_S, GroupSlot, RankAssignment, SocketWatch
from pliant.rpc import pliant_pb2 as pb

GROUP = pb.Group(
    generation=3,
    rank=1,
    world_size=2,
    local_rank=1,
    local_world_size=2,
    addr="127.0.0.1",
    port=29_123,
    restart_count=2,
    max_restarts=5,
)


def assignment(port: int = 29_123) -> RankAssignment:
    group = pb.Group()
    group.CopyFrom(GROUP)
    group.port = port
    made = RankAssignment.from_message(group)
    assert made is not None
    return made


def test_no_generation_is_no_assignment() -> None:
    assert RankAssignment.from_message(pb.Group()) is None


def test_the_environment_is_that_of_torchrun_on_one_machine() -> None:
    assert assignment().environment("mnist", "worker") == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_RANK": "1",
        "ROLE_WORLD_SIZE": "2",
        "ROLE_NAME": "worker",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29123",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "5",
        "TORCHELASTIC_RUN_ID": "mnist",
    }


def test_a_program_that_listens_on_the_port_or_is_connected_to_it_uses_its_assignment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert assignment(port).is_used_by(os.getpid())
        assert not assignment(port - 1).is_used_by(os.getpid())
        with subprocess.Popen(["sleep", "60"]) as other:
            assert not assignment(port).is_used_by(other.pid)
            other.kill()
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
    with client, accepted:
        assert assignment(port).is_used_by(os.getpid()), "the server is closed, the connection is not"


def test_a_connection_that_was_closed_before_anybody_looked_is_evidence_too() -> None:
    slot = GroupSlot()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        slot.assign(pb.Group(generation=1, port=port))
        assert not slot.was_used("")
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        client.close()
        accepted.close()
    assert slot.was_used("")


def test_the_table_of_connections_is_read_only_while_a_program_has_new_sockets() -> None:
    now = 0.0
    watch = SocketWatch(lambda: now)
    code = "import socket; input(); s = socket.socket(); print(1, flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as program:  # type: ignore[call-overload]
        assert not watch.is_due(program.pid), "it has none"
        program.stdin.write("\n")
        program.stdin.flush()
        program.stdout.readline()
        assert watch.is_due(program.pid)
        now += CONNECT_S
        assert watch.is_due(program.pid), "it may have connected it meanwhile"
        now += 1.0
        assert not watch.is_due(program.pid)
        now += LOOK_AGAIN_S
        assert watch.is_due(program.pid)
        program.kill()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("failed to listen on any local network address. port: 29123, code: -98, name: EADDRINUSE", True),
        ("timed out while trying to connect to (127.0.0.1, 29123).", True),
        ("loss 0.291234 at step 129123", False),
        ("", False),
    ],
)
def test_last_words_that_name_the_port_are_evidence_too(words: str, named: bool) -> None:
    assert assignment().is_named_in(words) is named


def test_an_assignment_that_is_recalled_before_the_start_is_given_up() -> None:
    slot = GroupSlot()
    slot.assign(GROUP)
    assert slot.is_ready
    slot.update(3, pb.HeartbeatReply(recall="a peer failed"))
    assert slot.recall == "a peer failed"
    assert not slot.is_ready
    assert (slot.generation, slot.recall) == (0, "")


def test_an_answer_to_a_heartbeat_of_another_generation_is_ignored() -> None:
    slot = GroupSlot()
    slot.assign(GROUP)
    slot.update(2, pb.HeartbeatReply(recall="generation 2 has ended"))
    slot.update(0, pb.HeartbeatReply(group=pb.Group(generation=1)))
    assert (slot.generation, slot.recall) == (3, "")
