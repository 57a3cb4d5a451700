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

COLLECTIVE_THREAD, LOOP_THREAD = "pt_gloo_runloop", "gloo_tcp_loop"
LOOK_S = 0.02
STUCK_S, ROUNDS = 0.3, 5  # asleep for so long, while each loop went round so often

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
    that waits for a send (``UnboundBuffer::waitSend``) that its connection was closed. Such a thread never wakes, which shows:
    it and those of gloo's collectives stay asleep, while gloo's loops over its connections go round and find nothing. One that
    waits for its turn on a busy machine is not asleep.
    """
    first, began = None, time.monotonic()
    while left := [old for old, since in _ending if old.is_alive() and time.monotonic() < since + seconds]:
        found = _activity(left)
        if first is None or found is None or found[0] != first[0]:
            first, began = found, time.monotonic()
        elif time.monotonic() - began > STUCK_S and all(
            n >= first[1].get(loop, n) + ROUNDS for loop, n in found[1].items()
        ):
            log.debug("%d process groups never end", len(left))
            break
        left[0].join(LOOK_S)
    _ending.clear()


def _activity(reapers: Collection[threading.Thread]) -> tuple[dict[str, str], dict[str, int]] | None:
    """How often these threads and those of collectives have slept, and how often the loops; None if one of the former is awake."""
    ids = {str(thread.native_id) for thread in reapers}
    asleep, rounds = {}, {}
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/status", encoding="utf-8", errors="replace") as file:
                status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
            times = status["voluntary_ctxt_switches"]
            if status["Name"] == LOOP_THREAD:
                rounds[task] = int(times)
            elif status["Name"] == COLLECTIVE_THREAD or task in ids:
                if not status["State"].startswith("S"):
                    return None
                asleep[task] = f"{times} {status['nonvoluntary_ctxt_switches']}"
    except (OSError, KeyError):  # a thread that just ended, or another system
        return None
    return (asleep, rounds) if rounds and len(asleep) > len(ids) else None


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
