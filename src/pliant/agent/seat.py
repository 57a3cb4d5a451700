"""The place of a program among those of its role: what it is told of it, and whether it makes use of it.

The master gives the seat (``core/groups.py`` says when). Here it becomes the environment that torchrun gives, and here is
looked for the evidence that the program lives by it: a socket on the port of rank 0, or last words that name that port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from pliant.agent.usage import process_tree
from pliant.rpc import pliant_pb2 as pb


@dataclass(frozen=True, slots=True)
class Seat:
    generation: int
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    group_rank: int
    addr: str
    port: int
    restart_count: int
    max_restarts: int

    @classmethod
    def from_message(cls, group: pb.Group) -> Seat | None:
        """None: there is none yet."""
        if not group.generation:
            return None
        return cls(*(getattr(group, name) for name in cls.__slots__))

    def environment(self, job: str, role: str) -> dict[str, str]:
        """As torchrun's agent sets it; rank 0's process opens the store itself."""
        machines = max(1, self.world_size // max(1, self.local_world_size))
        values: dict[str, object] = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.local_rank,
            "LOCAL_WORLD_SIZE": self.local_world_size,
            "GROUP_RANK": self.group_rank,
            "GROUP_WORLD_SIZE": machines,
            "ROLE_RANK": self.rank,
            "ROLE_WORLD_SIZE": self.world_size,
            "ROLE_NAME": role,
            "MASTER_ADDR": self.addr,
            "MASTER_PORT": self.port,
            "TORCHELASTIC_RESTART_COUNT": self.restart_count,
            "TORCHELASTIC_MAX_RESTARTS": self.max_restarts,
            "TORCHELASTIC_RUN_ID": job,
        }
        return {name: str(value) for name, value in values.items()}

    def is_used_by(self, pid: int) -> bool:
        """Whether the program or a child of it listens on the port of rank 0, or is connected to it."""
        if not _in_use(pid, self.port):
            return False
        for process in process_tree(pid):
            try:
                connections = process.net_connections(kind="tcp")
            except psutil.Error:
                continue
            for connection in connections:
                listens = connection.status == psutil.CONN_LISTEN and connection.laddr.port == self.port
                if listens or (connection.raddr and connection.raddr.port == self.port):
                    return True
        return False

    def is_named_in(self, last_words: str) -> bool:
        """Whether a program speaks of the port as it fails, as torch does that cannot listen on it or reach it."""
        return re.search(rf"\b{self.port}\b", last_words) is not None


def _in_use(pid: int, port: int) -> bool:
    """A quick look at all sockets of the machine: most programs never touch the port, and are asked every second."""
    mark = f":{port:04X} ".encode()
    found, readable = False, False
    for table in ("tcp", "tcp6"):
        try:
            found = found or mark in Path(f"/proc/{pid}/net/{table}").read_bytes()
            readable = True
        except OSError:
            continue
    return found or not readable
