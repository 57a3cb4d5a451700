"""Pliant: elastic deep-learning training that bends and does not break.

``connect()`` is the door for any training loop::

    import pliant

    job = pliant.connect()
    for shard in job.shards("train", size=100_000, shard_size=100):
        for index in shard:
            ...

Run as ``pliant run -- python train.py`` it shares the shards with the job's other workers; run as ``python train.py`` it
gets them all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.client import Job as Job
    from pliant.client import Shard as Shard
    from pliant.client import connect as connect
    from pliant.core.errors import PliantError as PliantError

__version__ = "0.1.0"
__all__ = ["Job", "PliantError", "Shard", "__version__", "connect"]

_HOMES = {
    "Job": "pliant.client",
    "Shard": "pliant.client",
    "connect": "pliant.client",
    "PliantError": "pliant.core.errors",
}


def __getattr__(name: str) -> Any:
    """Keep ``import pliant`` light: what is used is imported when it is used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pliant' has no attribute {name!r}")
    return getattr(import_module(home), name)
