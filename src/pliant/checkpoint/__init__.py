"""Checkpoints: snapshots in memory, written out by the agent, restored by any number of workers.

The training process uses ``CheckpointWriter``, ``load_latest``, ``find_latest`` and ``load``; ``pack`` and ``views`` carry a
state to a peer. torch is imported with the first of them that needs it: the agent uses ``slots`` and ``writeout`` without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.checkpoint.catalog import Found, candidates, find_latest
    from pliant.checkpoint.packing import Packed, data_bytes, pack, unpack, views
    from pliant.checkpoint.restore import Restored, load, load_latest
    from pliant.checkpoint.state import flatten, unflatten
    from pliant.checkpoint.writer import CheckpointWriter, SnapshotReport

_WHERE = {
    "catalog": ("Found", "candidates", "find_latest"),
    "packing": ("Packed", "data_bytes", "pack", "unpack", "views"),
    "restore": ("Restored", "load", "load_latest"),
    "state": ("flatten", "unflatten"),
    "writer": ("CheckpointWriter", "SnapshotReport"),
}

__all__ = [
    "CheckpointWriter",
    "Found",
    "Packed",
    "Restored",
    "SnapshotReport",
    "candidates",
    "data_bytes",
    "find_latest",
    "flatten",
    "load",
    "load_latest",
    "pack",
    "unflatten",
    "unpack",
    "views",
]


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"pliant.checkpoint.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
