from __future__ import annotations

from pathlib import Path

import pytest

from pliant.core.nodes.fault_policy import ExitReason
from pliant.master.components.groups import free_port
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.enums import EXIT_REASON
from pliant.testing import FakeAgent, RunningMaster, wait_until


class Member(FakeAgent):
    """An agent whose program takes part in a group."""

    seat = pb.Group()

    def registers(self) -> pb.RegisterReply:
        reply = super().registers()
        self.seat = reply.group
        return reply

    def meets_its_peers(self) -> None:
        self.asks(grouped=True)

    def asks(self, *, grouped: bool = False) -> pb.HeartbeatReply:
        request = pb.HeartbeatRequest(node=self.node, generation=self.seat.generation, grouped=grouped)
        reply: pb.HeartbeatReply = self._client.call(self._nodes.Heartbeat, request)
        if not self.seat.generation:
            self.seat = reply.group
        return reply

    def ends(
        self, reason: ExitReason, message: str, *, recalled: bool = False, grouped: bool = False
    ) -> pb.ProgramExitedReply:
        request = pb.ProgramExitedRequest(
            node=self.node,
            incarnation=self.incarnation,
            exit_reason=EXIT_REASON.to_wire[reason],
            message=message,
            generation=self.seat.generation,
            recalled=recalled,
            grouped=grouped,
        )
        reply: pb.ProgramExitedReply = self._client.call(self._nodes.ProgramExited, request)
        self.incarnation, self.seat = reply.incarnation, reply.group
        return reply


def members(master: RunningMaster, count: int) -> list[Member]:
    wait_until(lambda: len(master.platform.running()) == count, what="the nodes")
    found = [Member(master.client, f"worker-{number}") for number in range(count)]
    for member in found:
        member.starts()
    return found


def spec(count: int) -> dict[str, object]:
    return {"roles": {"worker": {"command": ["true"], "replicas": count}}}


def failures(master: RunningMaster, node: str) -> dict[str, int]:
    return master.run_inside(lambda parts: dict(parts.state.nodes.get(node).failures) if parts.state.nodes else {})


def test_the_first_to_register_is_told_the_whole_world_without_waiting_for_the_others(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, spec(3)) as master:
        wait_until(lambda: "worker-2" in master.platform.running(), what="the nodes")
        last = Member(master.client, "worker-2")
        last.registers()
        assert (last.seat.rank, last.seat.world_size, last.seat.generation) == (2, 3, 1)


def test_a_program_with_gpus_of_its_own_is_alone_on_its_machine_to_a_script_that_chooses_by_local_rank(
    tmp_path: Path,
) -> None:
    role = {"command": ["true"], "replicas": 2, "resources": {"gpu": 1}}
    with RunningMaster(tmp_path, {"roles": {"worker": role}}) as master:
        seats = [member.seat for member in members(master, 2)]
    assert [(seat.rank, seat.local_rank, seat.local_world_size, seat.group_rank) for seat in seats] == [
        (0, 0, 1, 0),
        (1, 0, 1, 1),
    ]


def test_only_the_failure_counts_and_not_what_follows_from_it(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, spec(3)) as master:
        one, two, three = members(master, 3)
        port = one.seat.port
        one.meets_its_peers()
        assert not two.ends(ExitReason.ERROR, "ValueError: a bug").group.generation
        assert "a bug" in one.asks().recall
        assert not one.ends(ExitReason.KILLED, "recalled", recalled=True).group.generation
        assert three.ends(ExitReason.ERROR, "Connection reset by peer").group.generation == 2
        one.asks()
        two.asks()
        assert [m.seat.rank for m in (one, two, three)] == [0, 1, 2]
        assert {m.seat.port for m in (one, two, three)}.isdisjoint({port})
        assert [failures(master, m.node) for m in (one, two, three)] == [{}, {"Error": 1}, {}]


def test_a_master_that_is_killed_meanwhile_forgets_neither_the_group_nor_its_end(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, spec(2)) as master:
        one, two = members(master, 2)
        one.meets_its_peers()
        two.ends(ExitReason.KILLED, "killed by SIGKILL")
        before = master.state()["groups"]
        master.restart()
        assert master.state()["groups"] == before
        assert "SIGKILL" in one.asks().recall
        assert one.ends(ExitReason.COMPLETED, "finished", recalled=True).restart, "it was ended, it is not finished"


def test_a_port_that_was_taken_makes_a_new_generation_with_another(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, spec(1)) as master:
        [one] = members(master, 1)
        port = one.seat.port
        reply = one.ends(ExitReason.ERROR, f"failed to listen on port {port}: EADDRINUSE", grouped=True)
        assert (reply.restart, reply.group.generation, reply.group.restart_count) == (True, 2, 1)
        assert reply.group.port != port


def test_programs_that_are_no_group_keep_their_seat_and_do_not_disturb_each_other(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, spec(2)) as master:
        one, two = members(master, 2)
        port = one.seat.port
        reply = two.ends(ExitReason.KILLED, "killed by SIGKILL")
        assert (reply.group.generation, reply.group.rank, reply.group.port) == (1, 1, port)
        assert one.asks().recall == ""


@pytest.mark.parametrize("attempt", range(3))
def test_a_port_is_free_and_not_one_that_the_system_gives_out_by_itself(attempt: int) -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert 15_000 <= free_port() < first
