"""Whether anybody listens where a Ray cluster is said to be; Ray's own client waits for more than a minute to say no."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pliant.core.errors import NotAvailable

AUTO = "auto"
CURRENT = "ray/ray_current_cluster"  # in Ray's temporary folder: the cluster that was started here last
CONNECT_S = 3.0


def resolve(address: str) -> str:
    """``auto``: as Ray finds it: the variable ``RAY_ADDRESS``, else the cluster that runs on this machine."""
    if address != AUTO:
        return address
    if found := os.environ.get("RAY_ADDRESS", ""):
        return found
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # as Ray chooses it
    try:
        return (Path(folder) / CURRENT).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def check_listening(address: str) -> str:
    """Returns the address, resolved. Raises ``NotAvailable``."""
    found = resolve(address)
    if not found or found == AUTO:
        raise NotAvailable(
            "no Ray cluster on this machine",
            hint="start one with `ray start --head`, or pass --ray-address host:port (or set RAY_ADDRESS)",
        )
    if "://" in found:
        raise NotAvailable(
            f"{found} is an address of Ray's client or dashboard",
            hint="pass host:port of the cluster's head, as `ray start --head` prints it, on a machine of the cluster",
        )
    host, _, port = found.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise NotAvailable(
            f"no Ray cluster at {found}: {getattr(error, 'strerror', None) or error}",
            hint="check the address; `ray start --head` prints it",
        ) from None
    return found
