"""Groups that end, that take their time, and that never end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from tests.torch.tree_sums import make_worlds

from pliant.torch.worlds.group_reaper import reap_group, wait_for_reaped_groups


class Group:
    def __init__(self, abort: Callable[[], object]) -> None:
        self.abort = abort


@pytest.mark.timeout(120)
def test_a_group_that_never_ends_is_not_waited_for() -> None:
    """Its threads sleep, as those of this world do, which has nothing to do."""
    worlds, ends = make_worlds(2), threading.Event()
    try:
        reap_group([Group(ends.wait)], 0, ())
        wait_for_reaped_groups(3600)
        assert not ends.is_set()
    finally:
        ends.set()
        for world in worlds:
            world.leave()
        wait_for_reaped_groups(60)


def test_a_group_that_is_at_work_is_waited_for() -> None:
    worlds, ended = make_worlds(2), threading.Event()

    def work() -> None:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            pass
        ended.set()

    try:
        reap_group([Group(work)], 0, ())
        wait_for_reaped_groups(60)
        assert ended.is_set()
    finally:
        for world in worlds:
            world.leave()
        wait_for_reaped_groups(60)
