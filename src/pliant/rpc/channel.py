"""Calling a master: channels that carry the job's token, survive its restarts, and raise our errors.

``Address`` says where a master is and how to prove that one belongs; programs get theirs from the environment that
their agent set (``Address.from_env``). The token is sent only to a peer that has proved itself: by its certificate, or by the
folder that its Unix socket is in. Without either it is sent only if the address says so.

Where a master may be started again on another machine, clients look up where it listens now (``moving_channel``). Calls that are
made often travel over one stream per client (``call_stream``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from pliant.core.errors import MasterUnavailable, PermanentError, PliantError, Unauthenticated
from pliant.core.nodes.environment import NodeEnvironment
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.call_stream.asynchronous import AsyncCallStream
from pliant.rpc.call_stream.blocking import BlockingCallStream
from pliant.rpc.call_stream.methods import StreamingChannel
from pliant.rpc.failures import from_status
from pliant.rpc.identity import TOKEN_HEADER, read_token_file
from pliant.rpc.moving_channel import MovingChannel, published_address
from pliant.rpc.retry import DEFAULT_MAX_PAUSE_S, call_with_retry
from pliant.rpc.server import MAX_MESSAGE
from pliant.rpc.tls import SERVER_NAME, Authority, TlsFiles, TlsMaterial
from pliant.rpc.unix_socket import ShortPath, dialled, is_unix

DEADLINE_S = 10.0  # for a call that does not wait for anything


@dataclass(frozen=True)
class Address:
    target: str  # unix:PATH, or host:port
    token: str = field(repr=False)
    tls: TlsFiles | TlsMaterial | Authority | None = None  # of TCP; a Unix socket needs none
    allows_plaintext: bool = False  # the token may be sent over TCP without TLS
    record: Path | None = None  # where the master publishes its address, if it may move to another machine

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Address:
        return cls.of_node(NodeEnvironment.from_env(env))

    @classmethod
    def of_node(cls, environment: NodeEnvironment) -> Address:
        if not environment.master_addr:
            raise PermanentError(
                "PLIANT_MASTER_ADDR is not set",
                hint="start the program with `pliant run`, or set the variable to what `pliant master` prints",
            )
        if environment.token_file is None:
            raise PermanentError("PLIANT_TOKEN_FILE is not set", hint="set it to the path of the job's token file")
        tls = TlsFiles(environment.tls_dir) if environment.tls_dir is not None else None
        token = read_token_file(environment.token_file)
        record = environment.master_file
        target = (published_address(record) if record is not None else "") or environment.master_addr
        return cls(target, token, tls, environment.allows_plaintext, record)


_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.initial_reconnect_backoff_ms", 50),  # a master is back in under a second; do not wait longer than it
    ("grpc.min_reconnect_backoff_ms", 5_000),  # in truth: how long one attempt may take; TLS on a busy machine is slow
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # Pings find a peer that is frozen or cut off, also on this machine: its connection stays open, and calls on it only run out
    # of their time, even when another one has long taken its place at the same address.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # else a minute, whatever the line above says
    ("grpc.keepalive_permit_without_calls", 1),
]


class Dialling:
    """How one channel reaches its address. Raises ``Unauthenticated`` if nobody there could prove to be the job's master."""

    def __init__(self, address: Address) -> None:
        self.credentials: grpc.ChannelCredentials | None = None
        self.options = _OPTIONS
        self._socket: ShortPath | None = None
        if is_unix(address.target):
            self._socket = dialled(address.target)
            self.target = self._socket.target
            return
        self.target = address.target
        if address.tls is not None:
            self.credentials = address.tls.channel_credentials()
            self.options = [*_OPTIONS, ("grpc.ssl_target_name_override", SERVER_NAME)]
        elif not address.allows_plaintext:
            raise Unauthenticated(
                f"the job's token is not sent to {address.target} without TLS: anyone could be listening there",
                hint="set PLIANT_TLS_DIR to the job's certificates; PLIANT_ALLOW_PLAINTEXT=1 sends it all the same, "
                "to a master that was started with --no-tls",
            )

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


class Connection:
    """The channel of a client, and all that it was dialled by."""

    def __init__(self, address: Address, *, secure: Callable[..., Any], insecure: Callable[..., Any]) -> None:
        self._address = address
        self._secure, self._insecure = secure, insecure
        self._ways: list[Dialling] = []
        if address.record is None:
            self.channel = self._dial(address.target)
        else:
            self.channel = MovingChannel(address.target, address.record, self._dial)

    def failed(self, error: grpc.RpcError, called: str) -> PliantError:
        """What a call raises. A master that has moved meanwhile is found with the next call."""
        found = from_status(error, called)
        if not isinstance(self.channel, MovingChannel) or not isinstance(found, MasterUnavailable | Unauthenticated):
            return found
        before = self.channel.target
        if self.channel.follow():
            return MasterUnavailable(f"the master has moved from {before} to {self.channel.target}")
        return found

    def ended(self, call: Any) -> None:
        """A call that nobody waited for: if it found no master, the next one may."""
        if isinstance(self.channel, MovingChannel) and call.code() is not grpc.StatusCode.OK and not call.cancelled():
            self.channel.follow()

    @property
    def present(self) -> Any:
        """The channel to where the master is, as far as is known."""
        return self.channel.present if isinstance(self.channel, MovingChannel) else self.channel

    def channels(self) -> list[Any]:
        """To be closed by the client."""
        found = self.channel
        return [found.present, *found.left] if isinstance(found, MovingChannel) else [found]

    def forget(self) -> None:
        for way in self._ways:
            way.close()

    def _dial(self, target: str) -> Any:
        way = Dialling(replace(self._address, target=target))
        self._ways.append(way)
        if way.credentials is None:
            return self._insecure(way.target, way.options)
        return self._secure(way.target, way.credentials, way.options)


class Stubs:
    """The services of one master over one channel."""

    def __init__(self, channel: Any) -> None:
        self.job = services.JobStub(channel)
        self.nodes = services.NodesStub(channel)
        self.shards = services.ShardsStub(channel)
        self.rendezvous = services.RendezvousStub(channel)
        self.training = services.TrainingStub(channel)
        self.checkpoints = services.CheckpointsStub(channel)
        self.stats = services.StatsStub(channel)
        self.planning = services.PlanningStub(channel)
        self.parameters = services.ParametersStub(channel)


class MasterClient:
    """Blocking calls, for programs and the command line."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection = Connection(address, secure=grpc.secure_channel, insecure=grpc.insecure_channel)
        self._metadata = ((TOKEN_HEADER, address.token),)
        self._stream = BlockingCallStream(lambda: self._connection.present, self._metadata)
        self.stubs = Stubs(StreamingChannel(self._connection.channel, self._stream))

    def call(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE_S) -> Any:
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._connection.failed(error, type(request).__name__) from None

    def call_with_retry(
        self,
        method: Callable[..., Any],
        request: Any,
        *,
        retry_timeout: float,
        timeout: float = DEADLINE_S,
        pause: Callable[[float], object] = time.sleep,
        max_pause: float = DEFAULT_MAX_PAUSE_S,
    ) -> Any:
        """A call that survives restarts of the master. ``timeout`` is of one attempt; ``pause`` may end it by raising."""
        return call_with_retry(
            lambda: self.call(method, request, timeout=timeout),
            retry_timeout=retry_timeout,
            pause=pause,
            max_pause=max_pause,
        )

    def start(self, method: Any, request: Any, *, timeout: float) -> Any:
        """Begin a call; returns gRPC's future."""
        call = method.future(request, timeout=timeout, metadata=self._metadata)
        if self.address.record is not None:
            call.add_done_callback(self._connection.ended)
        return call

    def close(self) -> None:
        self._stream.close()
        for channel in self._connection.channels():
            channel.close()
        self._connection.forget()


class AsyncMasterClient:
    """The same for asyncio, for agents."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection = Connection(address, secure=grpc.aio.secure_channel, insecure=grpc.aio.insecure_channel)
        self._metadata = ((TOKEN_HEADER, address.token),)
        self._stream = AsyncCallStream(lambda: self._connection.present, self._metadata)
        self.stubs = Stubs(StreamingChannel(self._connection.channel, self._stream))

    async def call(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE_S) -> Any:
        try:
            return await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._connection.failed(error, type(request).__name__) from None

    async def close(self) -> None:
        await self._stream.close()
        for channel in self._connection.channels():
            await channel.close(None)
        self._connection.forget()
