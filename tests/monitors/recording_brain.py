"""A Brain that writes down what monitors tell it, behind real gRPC with TLS and the cluster's token."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from pliant.rpc import brain_pb2 as bp
from pliant.rpc import brain_pb2_grpc as services
from pliant.rpc.brain.access import BrainAccess, BrainFolder
from pliant.rpc.brain.identity import Caller, caller_of
from pliant.rpc.tls import TlsFiles, create_certificates


class RecordingBrain(services.ClustersServicer):
    """``with RecordingBrain(tmp_path) as brain: brain.access``. ``folder`` has what a monitor is given."""

    def __init__(self, path: Path, *, token: str = "", tls: TlsFiles | None = None) -> None:
        """``token``, ``tls``: made in the folder ``path`` unless they are given."""
        self.token = token or secrets.token_hex(32)
        self.observed: list[bp.ObserveRequest] = []
        self.refused = 0
        self._tls = tls or create_certificates(path / "tls")
        self._port = 0
        self._server: grpc.Server | None = None
        self._lock = threading.Lock()
        self.folder = BrainFolder(path / "access")
        self.folder.write(self.token, self._tls.read("ca.crt"))

    def Observe(self, request: bp.ObserveRequest, context: Any) -> bp.ObserveReply:
        headers = dict(context.invocation_metadata())
        caller = caller_of(headers, self.token)
        with self._lock:
            if caller is None or not caller.is_cluster:
                self.refused += 1
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "not the cluster's token")
            self.observed.append(request)
        return bp.ObserveReply(term=1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def access(self) -> BrainAccess:
        return self.folder.access(self.address, Caller())

    def start(self) -> None:
        """Where it was before, if it was."""
        server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        services.add_ClustersServicer_to_server(self, server)
        self._port = server.add_secure_port(self.address, self._tls.server_credentials(mutual=False))
        server.start()
        self._server = server

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def __enter__(self) -> RecordingBrain:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
