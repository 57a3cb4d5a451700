"""The address under which other nodes reach this machine: the source address of packets to the master."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
_ANY_PORT = 9


def own_address(target: str) -> str:
    """``target``: of the master, ``host:port`` or ``unix:path``. The loopback address if it is on this machine, cannot be resolved,
    or there is no route."""
    if target.startswith("unix:"):
        return LOOPBACK
    host = target.rpartition(":")[0].strip("[]")
    try:
        family, *_, address = socket.getaddrinfo(host or LOOPBACK, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # UDP: sends nothing, only selects a route
            return str(probe.getsockname()[0])
    except OSError:
        return LOOPBACK
