"""The server's side of streams of calls: each frame is served by the handler of its method, as a gRPC call would be.

``Handlers`` is what services are added to instead of to the server itself: it passes them on and knows them afterwards. The stream
itself has been admitted by the server's border, by its token.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc.aio import EOF  # type: ignore[attr-defined]

from pliant.core.errors import PliantError
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import pliant_pb2_grpc as services
from pliant.rpc.failures import to_status

log = logging.getLogger(__name__)

MAX_CALLS_OF_A_STREAM = 1024  # in progress
DEFAULT_TIMEOUT_S = 10.0
MAX_TIMEOUT_S = 3600.0
MAX_METHOD_CHARS = 100  # in a message to the caller
GRACE_S = 0.4  # for calls in progress when the master ends
MAX_ANSWERS_BYTES = 1 << 20  # in one message, if there are several


class Handlers:
    """Looks like a server to generated code."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.by_path: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._server.add_registered_method_handlers(service, dict(handlers))
        self.by_path |= {f"/{service}/{name}": one for name, one in handlers.items() if one.unary_unary is not None}


class FrameContext:
    """What handlers ask of gRPC's context."""

    __slots__ = ("_until",)

    def __init__(self, timeout: float) -> None:
        self._until = time.monotonic() + timeout

    def time_remaining(self) -> float:
        return max(0.0, self._until - time.monotonic())


class CallStreams(services.CallsServicer):
    def __init__(self, handlers: Mapping[str, Any]) -> None:
        """``handlers``: of unary methods, by path."""
        self._handlers = handlers
        self._streams: set[_Stream] = set()
        self._is_closed = False

    async def Open(self, _requests: Any, context: Any) -> None:
        if self._is_closed:
            return
        stream = _Stream(self._handlers, context)
        self._streams.add(stream)
        try:
            await stream.serve()
        finally:
            self._streams.discard(stream)

    def close(self) -> None:
        """The master ends: streams end in order, so that nobody waits for them."""
        self._is_closed = True
        for stream in self._streams:
            stream.end()


class _Stream:
    def __init__(self, handlers: Mapping[str, Any], context: Any) -> None:
        self._handlers = handlers
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._calls: dict[asyncio.Task[None], asyncio.TimerHandle] = {}  # in progress, each with its deadline
        self._is_ending = False
        self._answers: list[pb.AnswerFrame] = []
        self._writer: asyncio.Task[None] | None = None
        self._reader = self._loop.create_task(self._read())

    async def serve(self) -> None:
        try:
            await asyncio.wait([self._reader])
            if self._is_ending and self._calls:
                await asyncio.wait(self._calls, timeout=GRACE_S)
        finally:
            self._reader.cancel()
            for call in list(self._calls):
                call.cancel()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        if not self._reader.cancelled() and (error := self._reader.exception()) is not None:
            log.debug("a stream of calls has ended: %s", error)
            await self._context.abort(grpc.StatusCode.INTERNAL, "a message on the stream of calls cannot be parsed")

    def end(self) -> None:
        self._is_ending = True
        self._reader.cancel()

    async def _read(self) -> None:
        read = self._context.read
        while (message := await read()) is not EOF:
            for frame in message.calls:
                self._begin(frame)

    def _begin(self, frame: pb.CallFrame) -> None:
        handler = self._handlers.get(frame.method)
        if handler is None:
            self._refuse(
                frame.number, grpc.StatusCode.UNIMPLEMENTED, f"unknown method {frame.method[:MAX_METHOD_CHARS]!r}"
            )
        elif len(self._calls) >= MAX_CALLS_OF_A_STREAM:
            self._refuse(frame.number, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls at once on one stream")
        else:
            timeout = min(frame.timeout, MAX_TIMEOUT_S) if frame.timeout > 0 else DEFAULT_TIMEOUT_S
            call = self._loop.create_task(self._serve(handler, frame, FrameContext(timeout)))
            self._calls[call] = self._loop.call_later(timeout, call.cancel)
            call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.pop(call).cancel()

    async def _serve(self, handler: Any, frame: pb.CallFrame, context: FrameContext) -> None:
        try:
            reply = await handler.unary_unary(handler.request_deserializer(frame.request), context)
            self._answer(pb.AnswerFrame(number=frame.number, reply=handler.response_serializer(reply)))
        except PliantError as error:
            self._refuse(frame.number, *to_status(error))
        except DecodeError as error:
            self._refuse(frame.number, grpc.StatusCode.INTERNAL, f"the request cannot be parsed: {error}")
        except Exception:  # a server's border, as in ``rpc.server``
            log.exception("internal error in the handler of %s", frame.method)
            text = f"internal error in the master's {frame.method}; check its log"
            self._refuse(frame.number, grpc.StatusCode.INTERNAL, text)

    def _refuse(self, number: int, code: grpc.StatusCode, details: str) -> None:
        self._answer(pb.AnswerFrame(number=number, code=code.value[0], details=details))

    def _answer(self, answer: pb.AnswerFrame) -> None:
        self._answers.append(answer)
        if self._writer is None:
            self._writer = self._loop.create_task(self._write())

    async def _write(self) -> None:
        """Until nothing is left. Answers of one moment travel together."""
        try:
            while self._answers:
                answers = self._take()
                await self._context.write(pb.AnswerFrames(answers=answers))
        except (grpc.RpcError, asyncio.InvalidStateError, RuntimeError) as error:
            log.debug("a stream of calls has ended: %s", error)  # its client repeats what was not answered
            self._reader.cancel()
        finally:
            self._writer = None

    def _take(self) -> list[pb.AnswerFrame]:
        size, count = 0, 0
        for answer in self._answers:
            size += len(answer.reply)
            if count and size > MAX_ANSWERS_BYTES:
                break
            count += 1
        taken, self._answers = self._answers[:count], self._answers[count:]
        return taken
