"""Ending gloo groups that are no longer used, without waiting for their collectives.

A group ends when its collectives have ended, and a collective that was abandoned ends when its peers close their
connections: which they do when *their* collectives have ended. Survivors of a broken world would wait for each other
forever, in threads that keep their connections. So an old group's connections are shut down first, whoever waits on them.
gloo does not expose them; they are found by the ports on which the group's members listen.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Collection, Iterator
from typing import Any

import torch.distributed as dist

log = logging.getLogger(__name__)

_making = threading.Lock()
_kept: list[Any] = []
_ending: list[tuple[threading.Thread, float]] = []  # and when it started


def make_device(host: str) -> tuple[Any, int]:
    """A gloo device, and the port that it listens on (0: not known)."""
    with _making:
        before = set(_listening())
        device = dist.ProcessGroupGloo.create_device(hostname=host)
        new = set(_listening()) - before
    return device, new.pop() if len(new) == 1 else 0


def reap_group(group: list[Any], own_port: int, peer_ports: Collection[int]) -> None:
    """End a group in a thread of its own. The list ends with it, after what must outlive it, and nothing else may hold it:
    whoever lets go of it last waits."""
    thread = threading.Thread(target=_end, args=(group, own_port, peer_ports), name="pliant-group-reaper", daemon=True)
    thread.start()  # before others can see it: a thread that has not started cannot be joined
    _ending[:] = [*((old, since) for old, since in _ending if old.is_alive()), (thread, time.monotonic())]


def keep_group(group: Any) -> None:
    """Never end it: the process will, and must not wait for it."""
    _kept.append(group)


def wait_for_reaped_groups(seconds: float) -> None:
    """Before the interpreter ends: a thread that it finds inside C++ would take the process down with it.

    Each has ``seconds`` since it started. It ends at once, or never: now and then gloo does not notify a collective
    that waits for a send (``UnboundBuffer::waitSend``) that its connection was closed. Such a thread never wakes.
    """
    for thread, since in list(_ending):
        thread.join(max(0.0, since + seconds - time.monotonic()))
    _ending.clear()


def _end(group: list[Any], own_port: int, peer_ports: Collection[int]) -> None:
    last = group.pop()
    for connection in _sockets():
        with contextlib.suppress(OSError):  # not connected
            ours, theirs = connection.getsockname()[1], connection.getpeername()[1]
            if ours == own_port or theirs in peer_ports:
                connection.shutdown(socket.SHUT_RDWR)
    try:
        last.abort()
    except RuntimeError as error:
        log.debug("an old process group ended with an error: %s", error)


def _listening() -> Iterator[int]:
    for found in _sockets():
        if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            yield found.getsockname()[1]


def _sockets() -> Iterator[socket.socket]:
    """The TCP sockets of this process, as duplicates, so that none can become another one while it is looked at."""
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:
            continue  # closed meanwhile
        try:
            found = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)  # a file or a pipe
            continue
        with found:
            if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
                yield found
