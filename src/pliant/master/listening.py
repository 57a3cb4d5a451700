"""Where a master listens, and where its predecessor did: a Unix socket in the job's folder for this machine, TCP for others.

On one machine there is only the socket. With a host or a port there is TCP as well, with TLS unless the job's spec opts out. Nodes
of this machine use the socket in either case, so a port that somebody else took while the master was away keeps nobody from its
successor: that takes another port, which only programs of other machines need to know.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import grpc.aio

from pliant.core.errors import PermanentError, RetryableError
from pliant.files.atomic import read_json
from pliant.master.job_dir import JobDir
from pliant.rpc.server import bind
from pliant.rpc.tls import TlsFiles
from pliant.rpc.unix_socket import ServedSocket

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
MAX_BIND_ATTEMPTS = 50  # at the predecessor's port
BIND_INTERVAL_S = 0.1


class Listener:
    def __init__(
        self, job_dir: JobDir, *, host: str = "", port: int = 0, advertise: str = "", is_single_machine: bool = True
    ) -> None:
        """``advertise``: where nodes reach this master, if not where it listens. Without host and port there is no TCP, unless the
        predecessor had it."""
        self._job_dir = job_dir
        self.host = host or LOOPBACK
        self._port = port
        self._advertise = advertise
        self._before = str((read_json(job_dir.master_file) or {}).get("listens") or "")
        self._was_elsewhere = bool(host and self._before and self._before.rpartition(":")[0] != host)
        self.uses_tcp = bool(host or port or advertise or self._before)
        self._socket: ServedSocket | None = None
        self._uses_socket = is_single_machine or not self.uses_tcp
        self.tcp = ""  # host:port, once bound

    @property
    def address(self) -> str:
        """For the job's own nodes."""
        if self._socket is not None:
            return self._socket.target
        return self._advertise or self.tcp

    def where(self) -> dict[str, Any]:
        """For ``master.json``. ``tcp``: where programs of other machines reach it, if they do; ``listens``: where it listens."""
        return {"address": self.address, "tcp": self._advertise or self.tcp or None, "listens": self.tcp or None}

    async def bind(self, server: grpc.aio.Server, tls: TlsFiles | None) -> None:
        if self.uses_tcp:
            self.tcp = await self._bind_tcp(server, tls)
        if self._uses_socket:
            self._socket = ServedSocket(self._job_dir.path)
            self._socket.bind(server)

    def publish(self) -> None:
        """Once the server has started: clients find it from now on."""
        if self._socket is not None:
            self._socket.publish()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    async def _bind_tcp(self, server: grpc.aio.Server, tls: TlsFiles | None) -> str:
        """At the port that is asked for, or where the predecessor listened; if somebody took that meanwhile, where we can."""
        wanted = f"{self.host}:{self._port}" if self._port or not self._before else self._before
        if self._was_elsewhere:  # a cluster started this master on another machine
            wanted = f"{self.host}:{self._port}"
        host = wanted.rpartition(":")[0]
        for attempt in range(MAX_BIND_ATTEMPTS):
            try:
                return f"{host}:{bind(server, wanted, tls)}"
            except RuntimeError as error:
                if not self._before and self._port and not self._advertise:
                    raise PermanentError(
                        f"cannot listen on {wanted}: {error}", hint="choose another --port, or 0 for any free one"
                    ) from error
                if attempt == 0:
                    log.warning("cannot listen on %s yet: %s", wanted, error)
                await asyncio.sleep(BIND_INTERVAL_S)
        if self._advertise:
            raise RetryableError(f"{wanted} is in use by another program, but nodes reach this master only there")
        found = self._bind_elsewhere(server, host, tls)
        log.warning("%s is in use by another program; programs of other machines now connect to %s", wanted, found)
        return found

    def _bind_elsewhere(self, server: grpc.aio.Server, host: str, tls: TlsFiles | None) -> str:
        if self._before:
            with contextlib.suppress(RuntimeError):  # that one is taken, too
                return f"{host}:{bind(server, self._before, tls)}"
        return f"{host}:{bind(server, f'{host}:0', tls)}"
