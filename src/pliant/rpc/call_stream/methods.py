"""Which calls travel on a stream, and the channel for stubs that sends them there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import grpc

OPEN = "/pliant.v1.Calls/Open"
STREAMED = frozenset(
    {
        "/pliant.v1.Nodes/Heartbeat",
        "/pliant.v1.Shards/Exchange",
        "/pliant.v1.Shards/Beat",
        "/pliant.v1.Parameters/NextOrders",
        "/pliant.v1.Parameters/Contribute",
        "/pliant.v1.Parameters/ContributeBatch",
    }
)
CODES = {code.value[0]: code for code in grpc.StatusCode}


class StreamedCallError(grpc.RpcError):
    """What became of a call on a stream that was not answered, or by an error."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


def timed_out(seconds: float) -> StreamedCallError:
    return StreamedCallError(grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {seconds:g} s")


def ended_with(error: grpc.RpcError | None) -> StreamedCallError:
    """Of a call whose stream has ended, by this error or in order."""
    if error is None:
        return StreamedCallError(grpc.StatusCode.UNAVAILABLE, "the master ended the connection")
    return StreamedCallError(error.code(), error.details() or "")


class CallStream(Protocol):
    """Makes a call, blocking or as a coroutine; raises ``StreamedCallError``. Not closed: what ``close`` needs differs."""

    def call(self, method: Method, request: Any, timeout: float) -> Any: ...


class Method:
    """One method of a service. Looks like what stubs have of it."""

    def __init__(
        self,
        path: str,
        stream: CallStream,
        single: Any,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
    ) -> None:
        """``single``: the same method as a gRPC call."""
        self.path = path
        self.serialize, self.deserialize = request_serializer, response_deserializer
        self._stream = stream
        self._single = single

    def __call__(self, request: Any, *, timeout: float, metadata: Any = None) -> Any:
        return self._stream.call(self, request, timeout)

    def future(self, *given: Any, **options: Any) -> Any:
        return self._single.future(*given, **options)


class StreamingChannel:
    """Looks like a channel to generated stubs: hot calls go to the stream, others to the channel."""

    def __init__(self, channel: Any, stream: CallStream) -> None:
        self._channel = channel
        self._stream = stream

    def unary_unary(
        self,
        path: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **options: Any,
    ) -> Any:
        single = self._channel.unary_unary(
            path, request_serializer=request_serializer, response_deserializer=response_deserializer, **options
        )
        if path not in STREAMED:
            return single
        return Method(path, self._stream, single, request_serializer, response_deserializer)
