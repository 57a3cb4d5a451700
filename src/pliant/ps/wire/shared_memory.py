"""Memory that a server and a client on the same machine share, so that arrays need not go through a socket.

A region has two halves of equal size: what the client sends, and what the server answers. Frames still go over the connection, with
the flag ``SHARED`` instead of their payload; since a connection has one request at a time, a half is free again when the answer
is there. One copy in this memory costs an eighth of the system time that a megabyte takes through a socket.

What makes it safe:

1. The server makes the memory, without a name in any folder, and seals its size, so nobody can cut it under the server's feet.
2. The client finds it by the server's process and a name that only the two know, sent over the connection on which both have
   proved themselves; 32 random bytes at its end must be those that the server sent. Otherwise, or if the system does not allow it
   (another user, another container), both continue without it.
3. The server copies what came out of it before it looks at it: what a client changes afterwards changes nothing.

Neighbours: ``connection`` (the client's side), ``requests`` (the server's), ``wire`` (the frames).
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pliant.files import sealed_memory
from pliant.ps.compiled.memory import address_of

LEAST = 16 << 10  # bytes of a payload for which it is worth it
MOST = 4 << 20  # bytes of a half; more is faster through a socket, whose two ends copy at the same time
ALL = 512 << 20  # bytes that one server shares with all its clients
_NONCE = 32

Bytes = npt.NDArray[np.uint8]


def room_for(size: int) -> int:
    """The size of a half for payloads of this many bytes."""
    return 1 << max(18, (size - 1).bit_length())


class Region:
    """Two halves of ``size`` bytes. Both sides have one over the same memory."""

    def __init__(self, memory: mmap.mmap, size: int) -> None:
        self.size = size
        whole: Bytes = np.frombuffer(memory, np.uint8)
        self.to_server = whole[:size]
        self.to_client = whole[size : 2 * size]
        self.nonce = whole[2 * size :]


class Offer:
    """A region that a server made for a connection. Closed with it."""

    def __init__(self, size: int) -> None:
        self._name = sealed_memory.random_name("pliant-ps")
        self._file = sealed_memory.create(self._name, 2 * size + _NONCE)
        try:
            sealed_memory.seal(self._file)
            self.region = Region(mmap.mmap(self._file, 2 * size + _NONCE), size)
        except BaseException:
            os.close(self._file)
            raise
        self.region.nonce[:] = np.frombuffer(secrets.token_bytes(_NONCE), np.uint8)

    def encoded(self) -> bytes:
        """What the client needs to find it."""
        nonce = self.region.nonce.tobytes().hex()
        about = {"process": os.getpid(), "file": self._file, "name": self._name, "size": self.region.size}
        return json.dumps({**about, "nonce": nonce}).encode()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def take(offer: bytes) -> Region | None:
    """The client's side of an offer; None if it cannot be had here, or is not what the server speaks of."""
    try:
        about = json.loads(offer)
        process, file, size = int(about["process"]), int(about["file"]), int(about["size"])
        name, nonce = str(about["name"]), bytes.fromhex(about["nonce"])
    except (ValueError, TypeError, KeyError):
        return None
    with contextlib.suppress(OSError, ValueError):
        if not 0 < size <= MOST:
            return None
        opened = sealed_memory.open_of(process, file, name, 2 * size + _NONCE, writable=True)
        try:
            region = Region(mmap.mmap(opened, 2 * size + _NONCE), size)
        finally:
            os.close(opened)
        return region if region.nonce.tobytes() == nonce else None
    return None


class Shares:
    """All regions of one server: limited to a number of bytes."""

    def __init__(self, most: int = ALL) -> None:
        self._left = most if sealed_memory.AVAILABLE else 0
        self._lock = threading.Lock()

    def offer(self, size: int) -> Offer | None:
        """A region with halves of this many bytes, or None."""
        if not 0 < size <= MOST:
            return None
        with self._lock:
            if 2 * size > self._left:
                return None
            self._left -= 2 * size
        try:
            return Offer(size)
        except OSError:  # no memory, no file descriptors, or the system forbids it
            self._give_back(size)
            return None

    def close(self, offer: Offer) -> None:
        offer.close()
        self._give_back(offer.region.size)

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._left += 2 * size


def put(half: Bytes, buffers: Sequence[memoryview]) -> None:
    """Copy these bytes, one after the other, to their place in a half, unless they are there already."""
    at = 0
    for buffer in buffers:
        size = len(buffer)
        if size:
            source, target = np.frombuffer(buffer, np.uint8), half[at : at + size]
            if address_of(source) != address_of(target):  # it was made there
                target[:] = source
        at += size
