"""Frames on a socket: mutual authentication, and whole arrays in and out with as few calls and copies as possible.

Who connects sends 32 random bytes. The server answers with 32 of its own and proves itself first: by the HMAC-SHA256, under the
job's secret, of both and of the address that the connection goes to. Then the client proves itself in the same way. The lengths are
fixed, so nothing is allocated for a stranger. Nobody sends the secret; no proof works twice, and none works at another address, so
an impostor that forwards what a server says is found out. Who can read or change the traffic on its way is kept out by TLS.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from pliant.core.errors import ServerUnavailable, Unauthenticated
from pliant.ps.wire.frames import HEADER, BadFrame, Header, Limits, unpack_header
from pliant.rpc.tls import TlsFiles

HELLO = b"PLIANT-PS/5\n"
SERVER_NAME = "pliant-node"  # what clients check in a certificate
_NONCE = 32
_PROOF = 32
LOST = {
    "TCP_KEEPIDLE": 4,  # seconds of silence, then a question every
    "TCP_KEEPINTVL": 2,  # seconds, of which
    "TCP_KEEPCNT": 3,  # may be without an answer
    "TCP_USER_TIMEOUT": 15_000,  # milliseconds that what was sent may wait to be received
}
_AHEAD = 4096  # bytes that are received with a header
_MAX_BUFFERS = 512  # buffers in one sendmsg; the system's limit is 1024


class Closed(ServerUnavailable):
    """The other side closed the connection, or was silent for too long."""


class FrameSocket:
    """A connected socket. ``timeout``: seconds that any single wait may take; None: no limit."""

    def __init__(self, sock: socket.socket, limits: Limits, timeout: float | None) -> None:
        self._socket = sock
        self._limits = limits
        self._ahead = memoryview(bytearray(_AHEAD))  # what came with a header
        self._begin = self._end = 0  # of what is in it
        self._tls = isinstance(sock, ssl.SSLSocket)
        self.bytes_in = 0
        self.bytes_out = 0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _notice_lost_peers(sock)
        self.local = _same_machine(sock)
        if self.local:
            _unpaced(sock)
        self.set_timeout(timeout)

    def set_timeout(self, timeout: float | None) -> None:
        """By the kernel's own time-outs: the socket stays blocking, and one call receives a whole array."""
        self._timeout = timeout
        if self._tls:
            self._socket.settimeout(timeout)
            return
        self._socket.settimeout(None)
        seconds = timeout or 0.0
        value = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    def close(self) -> None:
        """Wakes up whoever is waiting on it in another thread, too."""
        with contextlib.suppress(OSError):  # not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def wait_readable(self) -> None:
        """Until there is something to receive, or the other side has closed."""
        poll = select.poll()  # select() knows no file descriptors above 1023
        if self.register(poll) and not poll.poll(None if self._timeout is None else self._timeout * 1000):
            raise Closed(f"no data for {self._timeout} s")

    def register(self, poll: select.poll) -> bool:
        """Have it wait for what comes. False: something has come already, or the socket is closed."""
        try:
            if self._begin < self._end or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                return False
            poll.register(self._socket, select.POLLIN)
        except (OSError, ValueError):  # closed by another thread
            return False
        return True

    def gone(self) -> bool:
        """Whether the other side, or another thread of this one, has closed the connection."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLRDHUP)
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True

    def receive_into(self, buffer: memoryview | bytearray) -> None:
        """Fill a buffer."""
        view = memoryview(buffer)
        got = min(len(view), self._end - self._begin)
        if got:
            view[:got] = self._ahead[self._begin : self._begin + got]
            self._begin += got
        flags = 0 if self._tls else socket.MSG_WAITALL
        while got < len(view):
            got += self._receive(view[got:] if got else view, flags)

    def _receive(self, view: memoryview, flags: int) -> int:
        try:
            count = self._socket.recv_into(view, 0, flags)
        except BlockingIOError:  # the time-out of the kernel
            raise Closed(f"no data for {self._timeout} s") from None
        except OSError as error:
            raise Closed(f"the connection broke: {error or type(error).__name__}") from None
        if not count:
            raise Closed("the connection was closed")
        self.bytes_in += count
        return count

    def receive_header(self) -> Header:
        """With it what else has come (the meta, mostly), to be received from memory."""
        have = self._end - self._begin
        if have < HEADER.size:
            self._ahead[:have] = self._ahead[self._begin : self._end]
            self._begin, self._end = 0, have
            while self._end < HEADER.size:
                self._end += self._receive(self._ahead[self._end :], 0)
        head = self._ahead[self._begin : self._begin + HEADER.size]
        self._begin += HEADER.size
        return unpack_header(head, self._limits)

    def receive_meta(self, header: Header) -> memoryview:
        meta = bytearray(header.meta)
        self.receive_into(meta)
        return memoryview(meta)

    def send(self, header: Header, meta: bytes, payload: Sequence[memoryview] = ()) -> None:
        """One frame, in one system call where it fits."""
        self._send_all([memoryview(header.pack() + meta), *(buffer for buffer in payload if len(buffer))])

    def offer(self, waiting: list[memoryview]) -> None:
        """Send as much of this as goes without waiting; what is left stays in the list, for ``send_rest``."""
        if self._tls:
            return
        with contextlib.suppress(BlockingIOError):
            while waiting:
                sent = self._socket.sendmsg(waiting[:_MAX_BUFFERS], (), socket.MSG_DONTWAIT)
                self.bytes_out += sent
                while waiting and sent >= len(waiting[0]):
                    sent -= len(waiting.pop(0))
                if sent:
                    waiting[0] = waiting[0][sent:]

    def send_rest(self, waiting: list[memoryview]) -> None:
        self._send_all(waiting)

    def _send_all(self, buffers: list[memoryview]) -> None:
        try:
            if self._tls:
                for buffer in buffers:
                    self._socket.sendall(buffer)
                    self.bytes_out += len(buffer)
                return
            at = 0
            while at < len(buffers):
                sent = self._socket.sendmsg(buffers[at : at + _MAX_BUFFERS])
                self.bytes_out += sent
                while at < len(buffers) and sent >= len(buffers[at]):
                    sent -= len(buffers[at])
                    at += 1
                if sent:
                    buffers[at] = buffers[at][sent:]
        except OSError as error:
            raise Closed(f"the connection broke: {error or type(error).__name__}") from None

    # -- the proof

    def admit(self, token: str) -> None:
        """The server's half; raises ``Unauthenticated``."""
        hello = bytearray(len(HELLO) + _NONCE)
        self.receive_into(hello)
        if hello[: len(HELLO)] != HELLO:
            raise Unauthenticated("a connection is not from a client of this release")
        nonces = bytes(hello[len(HELLO) :]) + secrets.token_bytes(_NONCE)
        where = _address(self._socket.getsockname())
        self._send_all([memoryview(HELLO + nonces[_NONCE:] + _proof(token, b"server", where, nonces))])
        proof = bytearray(_PROOF)
        self.receive_into(proof)
        if not hmac.compare_digest(proof, _proof(token, b"client", where, nonces)):
            raise Unauthenticated("a connection did not prove that it belongs to the job")

    def introduce(self, token: str) -> None:
        """The client's half; raises ``Unauthenticated`` if the server is not of this job."""
        nonce = secrets.token_bytes(_NONCE)
        where = _address(self._socket.getpeername())
        self._send_all([memoryview(HELLO + nonce)])
        answer = bytearray(len(HELLO) + _NONCE + _PROOF)
        try:
            self.receive_into(answer)
        except Closed as error:
            raise ServerUnavailable(f"the parameter server did not authenticate itself: {error.message}") from None
        if answer[: len(HELLO)] != HELLO:
            raise Unauthenticated("the peer is not a parameter server of this release")
        nonces = nonce + bytes(answer[len(HELLO) : -_PROOF])
        if not hmac.compare_digest(answer[-_PROOF:], _proof(token, b"server", where, nonces)):
            raise Unauthenticated(
                f"the peer at {where} is not a parameter server of this job",
                hint="check whether it belongs to another job",
            )
        self._send_all([memoryview(_proof(token, b"client", where, nonces))])


def _notice_lost_peers(sock: socket.socket) -> None:
    """A machine or Pod that is gone answers nothing, and closes nothing either: the system finds out, also while all wait."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in LOST.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _same_machine(sock: socket.socket) -> bool:
    """Both ends have the same address."""
    try:
        return bool(sock.getsockname()[0] == sock.getpeername()[0])
    except (OSError, IndexError):  # not connected any more, or an address of another family
        return False


def _unpaced(sock: socket.socket) -> None:
    """Between processes of one machine there is no congestion to control. Where the system's default is to pace what is
    sent (bbr), the plain algorithm, which every Linux allows, is almost twice as fast there."""
    if hasattr(socket, "TCP_CONGESTION"):
        with contextlib.suppress(OSError):  # a system that forbids it
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def _proof(token: str, side: bytes, where: str, nonces: bytes) -> bytes:
    """``nonces``: the client's and the server's."""
    return hmac.new(token.encode(), HELLO + side + b":" + where.encode() + b":" + nonces, hashlib.sha256).digest()


def _address(name: tuple[str, int]) -> str:
    """Of the server, the same on both sides of a connection."""
    return f"{name[0].removeprefix('::ffff:')} port {name[1]}"


def tls_context(files: TlsFiles, *, server: bool) -> ssl.SSLContext:
    """Both sides show a node's certificate of the job's own authority, whatever host they are on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = not server
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=files.read("ca.crt").decode())
    context.load_cert_chain(files.folder / "node.crt", files.folder / "node.key")
    return context


class KeptBuffer:
    """Memory for one direction of a connection, which grows to what it needs and is used again."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, size: int) -> memoryview:
        if self._memory.size < size:
            self._memory = np.empty(size + size // 8, np.uint8)
        return self._memory.data[:size]


class KeptBuffers:
    """Memory for pushes that wait for an order: given back when they are applied, and used again for others.

    New memory has to be cleared by the system page by page, which costs more than to receive into it. What is given back
    beyond ``most`` bytes goes to the system.
    """

    def __init__(self, most: int = 256 << 20) -> None:
        self._most = most
        self._kept = 0  # bytes
        self._free: dict[int, list[npt.NDArray[np.uint8]]] = {}  # by size
        self._lock = threading.Lock()

    def take(self, size: int) -> tuple[memoryview, Callable[[], None]]:
        """Memory, and what to call when nobody looks at it any more (at most once; or never)."""
        room = _rounded(size)
        with self._lock:
            free = self._free.get(room)
            memory = free.pop() if free else None
            if memory is not None:
                self._kept -= room
        if memory is None:
            memory = np.empty(room, np.uint8)
        return memory.data[:size], partial(self._give_back, memory)

    def _give_back(self, memory: npt.NDArray[np.uint8]) -> None:
        with self._lock:
            if self._kept + memory.size <= self._most:
                self._kept += memory.size
                self._free.setdefault(memory.size, []).append(memory)


def _rounded(size: int) -> int:
    """Up to one of eight sizes between powers of two, so that pushes of about the same size share their memory."""
    step = 1 << max(12, size.bit_length() - 4)
    return -(-size // step) * step


__all__ = ["BadFrame", "Closed", "FrameSocket", "KeptBuffer", "KeptBuffers", "tls_context"]
