"""The stream of calls of one asyncio client; opened with its first call, and anew after it broke.

A task sends messages while there are frames, each with all that gathered; another one reads the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from grpc.aio import EOF  # type: ignore[attr-defined]

from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.call_stream.methods import CODES, OPEN, Method, StreamedCallError, ended_with, timed_out


class AsyncCallStream:
    def __init__(self, present: Callable[[], Any], metadata: Any) -> None:
        """``present``: the channel to the master; another one once it has moved."""
        self._present = present
        self._metadata = metadata
        self._open: _OpenStream | None = None

    async def call(self, method: Method, request: Any, timeout: float) -> Any:
        stream, channel = self._open, self._present()
        if stream is None or stream.has_ended or stream.channel is not channel:
            if stream is not None:
                stream.retire()
            stream = self._open = _OpenStream(channel, self._metadata)
        answer = await stream.call(method, request, timeout)
        if answer.code:
            raise StreamedCallError(CODES.get(answer.code, grpc.StatusCode.UNKNOWN), answer.details)
        return method.deserialize(answer.reply)

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()


class _OpenStream:
    def __init__(self, channel: Any, metadata: Any) -> None:
        self.channel = channel
        self.has_ended = False
        self._call = channel.stream_stream(
            OPEN,
            request_serializer=pb.CallFrames.SerializeToString,
            response_deserializer=pb.AnswerFrames.FromString,
        )(metadata=metadata)
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._waiting: dict[int, asyncio.Future[pb.AnswerFrame]] = {}
        self._gathered: list[pb.CallFrame] = []
        self._is_retired = False
        self._writer: asyncio.Task[None] | None = None
        self._reader = self._loop.create_task(self._read())

    async def call(self, method: Method, request: Any, timeout: float) -> pb.AnswerFrame:
        self._number += 1
        number = self._number
        answer: asyncio.Future[pb.AnswerFrame] = self._loop.create_future()
        self._waiting[number] = answer
        timer = self._loop.call_later(timeout, _expire, answer, timeout)
        self._gathered.append(
            pb.CallFrame(number=number, method=method.path, request=method.serialize(request), timeout=timeout)
        )
        try:
            if self._writer is None:
                self._writer = self._loop.create_task(self._write())
            return await answer
        finally:
            timer.cancel()
            self._waiting.pop(number, None)
            if self._is_retired and not self._waiting:
                self._reader.cancel()

    def retire(self) -> None:
        """Nothing more is sent here; what is on its way may be answered."""
        self._is_retired = True
        if not self._waiting:
            self._reader.cancel()

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.wait([self._reader])

    async def _write(self) -> None:
        try:
            while self._gathered:
                frames, self._gathered = self._gathered, []
                await self._call.write(pb.CallFrames(calls=frames))
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # the stream has ended: the reader says so to all
        finally:
            self._writer = None

    async def _read(self) -> None:
        error: grpc.RpcError | None = None
        try:
            while (message := await self._call.read()) is not EOF:
                for answer in message.answers:
                    waiting = self._waiting.get(answer.number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(answer)
        except grpc.RpcError as found:
            error = found
        finally:
            self.has_ended = True
            self._call.cancel()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ended_with(error))


def _expire(answer: asyncio.Future[pb.AnswerFrame], timeout: float) -> None:
    if not answer.done():
        answer.set_exception(timed_out(timeout))
