"""Pliant: elastic deep-learning training that bends and does not break.

``connect()`` is the door for any training loop::

    import pliant

    job = pliant.connect()
    for shard in job.shards("train", size=100_000, shard_size=100):
        for index in shard:
            ...

Run as ``pliant run -- python train.py`` it shares the shards with the job's other workers; run as ``python train.py`` it
gets them all. ``submit()`` starts a job from Python::

    job = pliant.submit(train, args=(3,), workers="1:4")
    print(job.result())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.api import SubmittedJob as SubmittedJob
    from pliant.api import attach as attach
    from pliant.api import jobs as jobs
    from pliant.api import submit as submit
    from pliant.client import Job as Job
    from pliant.client import Shard as Shard
    from pliant.client import connect as connect
    from pliant.core.errors import JobFailed as JobFailed
    from pliant.core.errors import PliantError as PliantError
    from pliant.core.errors import WaitTimeout as WaitTimeout

__version__ = "0.1.0"
__all__ = [
    "Job",
    "JobFailed",
    "PliantError",
    "Shard",
    "SubmittedJob",
    "WaitTimeout",
    "__version__",
    "attach",
    "connect",
    "jobs",
    "submit",
]

_HOMES = {
    "Job": "pliant.client",
    "Shard": "pliant.client",
    "connect": "pliant.client",
    "JobFailed": "pliant.core.errors",
    "PliantError": "pliant.core.errors",
    "SubmittedJob": "pliant.api",
    "WaitTimeout": "pliant.core.errors",
    "attach": "pliant.api",
    "jobs": "pliant.api",
    "submit": "pliant.api",
}


def __getattr__(name: str) -> Any:
    """Keep ``import pliant`` light: what is used is imported when it is used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pliant' has no attribute {name!r}")
    return getattr(import_module(home), name)
