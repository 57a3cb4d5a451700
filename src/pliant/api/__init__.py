"""Jobs from Python: ``submit`` a function, a script or a command, and steer it by the handle that comes back.

``submit`` packs a function (``functions``) and launches as ``pliant run --detach`` does (``pliant.launch``); ``find`` has the ways
to a job that runs already; all return a ``SubmittedJob``, which is a ``JobHandle`` of any platform with the methods that people
want in a notebook. No process of a job depends on the one that submitted it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.api.find import attach as attach
    from pliant.api.find import jobs as jobs
    from pliant.api.submitted_job import SubmittedJob as SubmittedJob
    from pliant.api.submitting import submit as submit

__all__ = ["SubmittedJob", "attach", "jobs", "submit"]

_HOMES = {
    "SubmittedJob": "pliant.api.submitted_job",
    "attach": "pliant.api.find",
    "jobs": "pliant.api.find",
    "submit": "pliant.api.submitting",
}


def __getattr__(name: str) -> Any:
    """The program of a worker is in this package too, and needs none of it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pliant.api' has no attribute {name!r}")
    return getattr(import_module(home), name)
