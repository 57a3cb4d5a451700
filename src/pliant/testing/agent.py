"""The calls of an agent to its master, without an agent, for tests."""

from __future__ import annotations

from pliant.core.nodes.fault_policy import ExitReason
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient
from pliant.rpc.enums import EXIT_REASON


class FakeAgent:
    """The agent of one node, and its program: ``FakeAgent(master.client, "worker-0").starts()``."""

    def __init__(self, client: MasterClient, node: str, pid: int = 4242) -> None:
        self.node = node
        self.pid = pid  # of the program; its agent has the next one
        self.incarnation = 0
        self._client = client
        self._nodes = client.stubs.nodes

    def registers(self) -> pb.RegisterReply:
        """The agent registers."""
        request = pb.RegisterRequest(
            node=self.node, agent_pid=self.pid + 1, host="testing", incarnation=self.incarnation
        )
        reply: pb.RegisterReply = self._client.call(self._nodes.Register, request)
        self.incarnation = max(self.incarnation, reply.incarnation)
        return reply

    def announces(self, *, rank: int = 0, world_size: int = 1, generation: int = 1) -> pb.RegisterReply:
        """The agent registers while its program runs, with a master that took its node over."""
        group = pb.Group(generation=generation, rank=rank, world_size=world_size, addr="127.0.0.1", port=15_000)
        request = pb.RegisterRequest(
            node=self.node,
            agent_pid=self.pid + 1,
            host="testing",
            incarnation=self.incarnation,
            pid=self.pid,
            group=group,
        )
        reply: pb.RegisterReply = self._client.call(self._nodes.Register, request)
        return reply

    def starts(self) -> FakeAgent:
        """The agent registers and its program runs."""
        self.registers()
        self.program_starts()
        return self

    def program_starts(self) -> None:
        request = pb.ProgramStartedRequest(node=self.node, incarnation=self.incarnation, pid=self.pid)
        self._client.call(self._nodes.ProgramStarted, request)

    def beats(self, *, cpu: float = 0.0, memory_mb: float = 0.0, stopped: bool = False) -> pb.HeartbeatReply:
        """One heartbeat."""
        usage = pb.Usage(cpu=cpu, memory_mb=memory_mb, stopped=stopped)
        request = pb.HeartbeatRequest(node=self.node, incarnation=self.incarnation, pid=self.pid, usage=usage)
        reply: pb.HeartbeatReply = self._client.call(self._nodes.Heartbeat, request)
        return reply

    def program_exits(
        self, reason: ExitReason = ExitReason.COMPLETED, message: str = "", traceback: str = ""
    ) -> pb.ProgramExitedReply:
        """The program ended; the answer says whether to restart it."""
        request = pb.ProgramExitedRequest(
            node=self.node,
            incarnation=self.incarnation,
            exit_reason=EXIT_REASON.to_wire[reason],
            message=message or reason.value,
            traceback=traceback,
        )
        reply: pb.ProgramExitedReply = self._client.call(self._nodes.ProgramExited, request)
        if reply.restart:
            self.incarnation = reply.incarnation
        return reply
