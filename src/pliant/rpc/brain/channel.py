"""Calling the Brain: as ``rpc/channel.py`` calls a master, with the job's name beside the token.

``BrainUnavailable`` is whatever passes by itself: no Brain, one that is not the active one, a network that is cut.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import grpc
import grpc.aio

from pliant.core.errors import BrainUnavailable, MasterUnavailable, PliantError
from pliant.rpc import brain_pb2_grpc as services
from pliant.rpc.brain.access import BrainAccess
from pliant.rpc.brain.identity import credentials
from pliant.rpc.channel import DEADLINE_S, Dialling
from pliant.rpc.failures import from_status


class BrainStubs:
    def __init__(self, channel: Any) -> None:
        self.planning = services.PlanningStub(channel)
        self.journals = services.JournalsStub(channel)
        self.clusters = services.ClustersStub(channel)


class AsyncBrainClient:
    def __init__(self, access: BrainAccess) -> None:
        self.access = access
        self._dialling = way = Dialling(access.dialled())
        if way.credentials is None:
            self._channel = grpc.aio.insecure_channel(way.target, way.options)
        else:
            self._channel = grpc.aio.secure_channel(way.target, way.credentials, way.options)
        self._metadata = credentials(access.token, access.caller)
        self.stubs = BrainStubs(self._channel)

    async def call(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE_S) -> Any:
        try:
            return await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise brain_error(error, type(request).__name__) from None

    async def stream(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        """Until the Brain ends it."""
        try:
            async for message in method(request, metadata=self._metadata):
                yield message
        except grpc.RpcError as error:
            raise brain_error(error, type(request).__name__) from None

    async def close(self) -> None:
        await self._channel.close(None)
        self._dialling.close()


class BrainClient:
    """Blocking calls, for threads and the command line."""

    def __init__(self, access: BrainAccess) -> None:
        self.access = access
        self._dialling = way = Dialling(access.dialled())
        if way.credentials is None:
            self._channel = grpc.insecure_channel(way.target, way.options)
        else:
            self._channel = grpc.secure_channel(way.target, way.credentials, way.options)
        self._metadata = credentials(access.token, access.caller)
        self.stubs = BrainStubs(self._channel)

    def call(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE_S) -> Any:
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise brain_error(error, type(request).__name__) from None

    def stream(self, method: Callable[..., Any], request: Any, *, timeout: float) -> Iterator[Any]:
        """What a stream has to say, as it comes; whoever stops reading it ends it. ``timeout`` is of the whole."""
        call = method(request, timeout=timeout, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise brain_error(error, type(request).__name__) from None
        finally:
            call.cancel()

    def send_all(self, method: Callable[..., Any], requests: Iterable[Any], *, timeout: float) -> Any:
        """The answer to a stream of requests."""
        try:
            return method(iter(requests), timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise brain_error(error, getattr(method, "__name__", "a stream")) from None

    def read_all(self, method: Callable[..., Any], request: Any, *, timeout: float = DEADLINE_S) -> list[Any]:
        """What a stream that ends has to say."""
        try:
            return list(method(request, timeout=timeout, metadata=self._metadata))
        except grpc.RpcError as error:
            raise brain_error(error, type(request).__name__) from None

    def close(self) -> None:
        self._channel.close()
        self._dialling.close()


def brain_error(error: grpc.RpcError, called: str) -> PliantError:
    found = from_status(error, called)
    if isinstance(found, MasterUnavailable):
        return BrainUnavailable(found.message.replace("the master", "the Brain"), hint=found.hint)
    return found
