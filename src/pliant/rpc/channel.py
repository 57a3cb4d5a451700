"""Calling a master: channels that carry the job's token, survive its restarts, and raise our errors.

``Address`` says where a master is and how to prove that one belongs; programs get theirs from the environment that
their agent set (``Address.from_env``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from pliant.core.errors import MasterUnavailable, PermanentError
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.failures import from_status
from pliant.rpc.identity import TOKEN_HEADER, read_token_file
from pliant.rpc.server import LARGEST_MESSAGE
from pliant.rpc.tls import SERVER_NAME, TlsFiles, TlsMaterial

DEADLINE = 10.0  # seconds, for a call that does not wait for anything
RETRY_EVERY = 0.02  # seconds between tries while the master is started again


@dataclass(frozen=True)
class Address:
    target: str  # host:port
    token: str
    tls: TlsFiles | TlsMaterial | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Address:
        target = env.get("PLIANT_MASTER_ADDR")
        if not target:
            raise PermanentError(
                "PLIANT_MASTER_ADDR is not set", hint="start the program with `pliant run`, or set it to host:port"
            )
        token_file = env.get("PLIANT_TOKEN_FILE")
        if not token_file:
            raise PermanentError("PLIANT_TOKEN_FILE is not set", hint="set it to the file with the job's token")
        tls_dir = env.get("PLIANT_TLS_DIR")
        return cls(target, read_token_file(Path(token_file)), TlsFiles(Path(tls_dir)) if tls_dir else None)


_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    ("grpc.initial_reconnect_backoff_ms", 50),  # a master is back in under a second; do not wait longer than it
    ("grpc.min_reconnect_backoff_ms", 5_000),  # in truth: how long one attempt may take; TLS on a busy machine is slow
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


def _options(address: Address) -> list[tuple[str, Any]]:
    return _OPTIONS + ([("grpc.ssl_target_name_override", SERVER_NAME)] if address.tls else [])


class Stubs:
    """The services of one master over one channel."""

    def __init__(self, channel: Any) -> None:
        self.job = services.JobStub(channel)
        self.nodes = services.NodesStub(channel)
        self.shards = services.ShardsStub(channel)
        self.rendezvous = services.RendezvousStub(channel)
        self.training = services.TrainingStub(channel)
        self.stats = services.StatsStub(channel)
        self.parameters = services.ParametersStub(channel)


class MasterClient:
    """Blocking calls, for programs and the command line."""

    def __init__(self, address: Address) -> None:
        self.address = address
        if address.tls is None:
            self._channel = grpc.insecure_channel(address.target, _options(address))
        else:
            self._channel = grpc.secure_channel(address.target, address.tls.channel_credentials(), _options(address))
        self._metadata = ((TOKEN_HEADER, address.token),)
        self.stubs = Stubs(self._channel)

    def call(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE) -> Any:
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_status(error, type(request).__name__) from None

    def insist(
        self,
        method: Callable[..., Any],
        request: Any,
        *,
        patience: float,
        timeout: float = DEADLINE,
        pause: Callable[[], object] = lambda: time.sleep(RETRY_EVERY),
    ) -> Any:
        """A call that survives restarts of the master: tried again for ``patience`` seconds. ``pause`` may end it by raising."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self.call(method, request, timeout=timeout)
            except MasterUnavailable:
                if time.monotonic() > deadline:
                    raise
            pause()

    def start(self, method: Any, request: Any, *, timeout: float) -> Any:
        """Begin a call; gives gRPC's future."""
        return method.future(request, timeout=timeout, metadata=self._metadata)

    def close(self) -> None:
        self._channel.close()


class AsyncMasterClient:
    """The same for asyncio, for agents."""

    def __init__(self, address: Address) -> None:
        self.address = address
        if address.tls is None:
            self._channel = grpc.aio.insecure_channel(address.target, _options(address))
        else:
            credentials = address.tls.channel_credentials()
            self._channel = grpc.aio.secure_channel(address.target, credentials, _options(address))
        self._metadata = ((TOKEN_HEADER, address.token),)
        self.stubs = Stubs(self._channel)

    async def call(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE) -> Any:
        try:
            return await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_status(error, type(request).__name__) from None

    async def close(self) -> None:
        await self._channel.close(None)
