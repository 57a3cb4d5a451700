"""For tests of jobs, platforms and training loops: a clock that stands still, a platform in memory, a master in a thread.

    from pliant.testing import FakePlatform, RunningMaster

    with RunningMaster(tmp_path, {"roles": {...}}, platform=FakePlatform()) as master:
        master.platform.preempt_node("worker-0")

The fakes speak verbs: what a test makes happen reads as what happens. Nothing here is needed to run a job.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.testing.agent import FakeAgent as FakeAgent
    from pliant.testing.clock import ManualClock as ManualClock
    from pliant.testing.platform import FakeNode as FakeNode
    from pliant.testing.platform import FakePlatform as FakePlatform
    from pliant.testing.platform import ResizingPlatform as ResizingPlatform
    from pliant.testing.running import RunningMaster as RunningMaster
    from pliant.testing.store import PerishableStore as PerishableStore
    from pliant.testing.supervised_platform import SupervisedPlatform as SupervisedPlatform
    from pliant.testing.waiting import wait_until as wait_until

__all__ = [
    "FakeAgent",
    "FakeNode",
    "FakePlatform",
    "ManualClock",
    "PerishableStore",
    "ResizingPlatform",
    "RunningMaster",
    "SupervisedPlatform",
    "wait_until",
]

_HOMES = {
    "FakeAgent": "agent",
    "FakeNode": "platform",
    "FakePlatform": "platform",
    "ManualClock": "clock",
    "PerishableStore": "store",
    "ResizingPlatform": "platform",
    "RunningMaster": "running",
    "SupervisedPlatform": "supervised_platform",
    "wait_until": "waiting",
}


def __getattr__(name: str) -> Any:
    """What is used is imported when it is used: a program under test need not load a master."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pliant.testing' has no attribute {name!r}")
    return getattr(import_module(f"pliant.testing.{_HOMES[name]}"), name)
