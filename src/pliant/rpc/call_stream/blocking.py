"""The stream of calls of one client with threads; opened with its first call, and anew after it broke.

gRPC's own thread takes the messages that are sent from an iterator, with all frames that gathered; a thread of ours reads the
answers and wakes who waits for each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any

import grpc

from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.call_stream.methods import CODES, OPEN, Method, StreamedCallError, ended_with, timed_out

JOIN_TIMEOUT_S = 2.0


class BlockingCallStream:
    def __init__(self, present: Callable[[], Any], metadata: Any) -> None:
        """``present``: the channel to the master; another one once it has moved."""
        self._present = present
        self._metadata = metadata
        self._lock = threading.Lock()
        self._open: _OpenStream | None = None

    def call(self, method: Method, request: Any, timeout: float) -> Any:
        answer = self._stream().call(method, request, timeout)
        if answer.code:
            raise StreamedCallError(CODES.get(answer.code, grpc.StatusCode.UNKNOWN), answer.details)
        return method.deserialize(answer.reply)

    def close(self) -> None:
        with self._lock:
            stream, self._open = self._open, None
        if stream is not None:
            stream.close()

    def _stream(self) -> _OpenStream:
        with self._lock:
            stream, channel = self._open, self._present()
            if stream is None or stream.has_ended or stream.channel is not channel:
                if stream is not None:
                    stream.retire()
                stream = self._open = _OpenStream(channel, self._metadata)
            return stream


class _Waiting:
    """One call, until it is answered. Its lock is held until then: the cheapest way to wake one thread."""

    __slots__ = ("answer", "error", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()
        self.answer: pb.AnswerFrame | None = None
        self.error: StreamedCallError | None = None


class _OpenStream:
    def __init__(self, channel: Any, metadata: Any) -> None:
        self.channel = channel
        self.has_ended = False
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, _Waiting] = {}
        self._is_retired = False
        self._error: StreamedCallError | None = None
        self._outgoing: SimpleQueue[pb.CallFrame | None] = SimpleQueue()
        self._call = channel.stream_stream(
            OPEN,
            request_serializer=pb.CallFrames.SerializeToString,
            response_deserializer=pb.AnswerFrames.FromString,
        )(self._messages(), metadata=metadata)
        self._reader = threading.Thread(target=self._read, name="pliant-calls", daemon=True)
        self._reader.start()

    def call(self, method: Method, request: Any, timeout: float) -> pb.AnswerFrame:
        waiting, data = _Waiting(), method.serialize(request)
        with self._lock:
            if self._error is not None:
                raise self._error
            self._number += 1
            number = self._number
            self._waiting[number] = waiting
        self._outgoing.put(pb.CallFrame(number=number, method=method.path, request=data, timeout=timeout))
        try:
            is_over = waiting.lock.acquire(timeout=timeout)
        finally:
            with self._lock:
                self._waiting.pop(number, None)
                is_unused = self._is_retired and not self._waiting
            if is_unused:
                self._end()
        if not is_over:
            raise timed_out(timeout)
        if waiting.answer is None:
            assert waiting.error is not None
            raise waiting.error
        return waiting.answer

    def retire(self) -> None:
        """Nothing more is sent here; what is on its way may be answered."""
        with self._lock:
            self._is_retired = True
            is_unused = not self._waiting
        if is_unused:
            self._end()

    def close(self) -> None:
        self._end()
        if threading.current_thread() is not self._reader:
            self._reader.join(JOIN_TIMEOUT_S)

    def _end(self) -> None:
        self._outgoing.put(None)
        self._call.cancel()

    def _messages(self) -> Iterator[pb.CallFrames]:
        while (frame := self._outgoing.get()) is not None:
            frames = [frame]
            try:
                while (frame := self._outgoing.get_nowait()) is not None:
                    frames.append(frame)
            except Empty:
                yield pb.CallFrames(calls=frames)
                continue
            return

    def _read(self) -> None:
        error: grpc.RpcError | None = None
        try:
            for message in self._call:
                for answer in message.answers:
                    with self._lock:
                        waiting = self._waiting.get(answer.number)
                    if waiting is not None and waiting.answer is None:
                        waiting.answer = answer
                        waiting.lock.release()
        except grpc.RpcError as found:
            error = found
        with self._lock:
            self.has_ended = True
            self._error = ended_with(error)
            left = [one for one in self._waiting.values() if one.answer is None]
        self._outgoing.put(None)
        for one in left:
            one.error = self._error
            one.lock.release()
