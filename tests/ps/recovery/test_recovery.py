"""What a server has after a kill that comes at a bad moment."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ps.replicated_servers import ReplicatedServers

from pliant.core.errors import SessionExpired
from pliant.ps.payloads import BlockGradient, Push
from pliant.ps.recovery.push_log import PushLog, index
from pliant.ps.wire.frames import encode_push
from pliant.testing.waiting import MAX_WAIT_S


def test_a_server_that_came_while_a_dump_was_written_keeps_what_it_accepted(tmp_path: Path) -> None:
    servers = ReplicatedServers(tmp_path, sync=False)
    servers.book.dump(0)
    servers.book.resize(0, seats=2)
    seat = servers.join("ps-1")
    servers.move_all()
    servers.follow()
    assert servers.finish_dump(0)
    variable = servers.of(seat)[0]
    servers.stage(seat, variable, 1)
    servers.contribute(seat, 1)
    servers.follow()
    assert np.all(servers.value(seat, variable) == -1)
    servers.kill("ps-1")
    servers.restart("ps-1")
    assert np.all(servers.value(seat, variable) == -1)
    assert not servers.messages


def test_a_dump_during_the_recovery_of_a_server_keeps_what_waits_for_its_order(tmp_path: Path) -> None:
    servers = ReplicatedServers(tmp_path, sync=True, batch=2)
    servers.stage(0, "a", 1)
    servers.contribute(0, 1)  # half a batch: it waits
    servers.kill("ps-0")
    servers.book.dump(0)
    servers.restart("ps-0")  # executes the dump among what it missed
    assert servers.finish_dump(0)
    servers.kill("ps-0")
    servers.restart("ps-0")
    servers.stage(0, "a", 2, "t")
    servers.contribute(0, 2, "t")
    servers.follow()
    assert servers.book.iteration == 1
    assert np.all(servers.value(0, "a") == -1)  # the mean of both
    assert not servers.messages


def test_a_seat_that_goes_before_it_wrote_its_part_calls_the_dump_off(tmp_path: Path) -> None:
    servers = ReplicatedServers(tmp_path, sync=False)
    servers.book.resize(0, seats=2)
    leaving = servers.join("ps-1")
    servers.move_all()
    servers.follow()
    dump = servers.book.dump(0)
    assert leaving in dump.seats
    assert not servers.finish_dump(0)
    servers.book.resize(0, seats=1)
    servers.move_all()
    servers.book.retire(0, seat=leaving)
    assert servers.book.open_dump is None
    assert servers.book.base.order < dump.number


def test_a_seat_that_wrote_its_part_and_goes_is_part_of_the_dump(tmp_path: Path) -> None:
    servers = ReplicatedServers(tmp_path, sync=False)
    servers.book.resize(0, seats=2)
    leaving = servers.join("ps-1")
    servers.move_all()
    servers.follow()
    dump = servers.book.dump(0)
    servers.follow()
    assert not servers.finish_dump(leaving)
    servers.book.resize(0, seats=1)
    servers.move_all()
    servers.book.retire(0, seat=leaving)
    assert servers.finish_dump(0)
    assert servers.book.base.order == dump.number
    assert leaving in servers.book.base.seats


def test_a_server_that_wakes_up_when_another_has_its_seat_changes_nothing(tmp_path: Path) -> None:
    """It has staged, dumped and cut what it had heard of before it was frozen, while its successor recovered and served."""
    servers = ReplicatedServers(tmp_path, sync=False)
    servers.stage(0, "a", 1)
    servers.contribute(0, 1)
    servers.follow()
    old, fencing_token = servers._running[0], servers.book.seat(0).fencing_token
    dump = servers.book.dump(0)  # it was told of this one, and frozen before it did anything
    servers.stage(0, "a", 2)
    servers.contribute(0, 2)  # staged on the old one in time: it counts
    servers.book.lost(0, node="ps-0", for_good=True)
    assert servers.join("ps-1") == 0
    assert np.all(servers.value(0, "a") == -2)

    servers.wake(old, dump)
    servers.stage_on(old, "a", 3)  # was in the buffer of its socket; the worker is told that it is staged
    assert servers.outcome(0, fencing_token, 3) == "moved"
    with pytest.raises(SessionExpired):
        servers.book.dump_written(0, seat=0, fencing_token=fencing_token, order=dump.number)
    with pytest.raises(SessionExpired):
        servers.book.check_holder(0, fencing_token)
    with pytest.raises(SessionExpired):
        servers.book.ready(0, seat=0, fencing_token=fencing_token, address="the old one")

    servers.stage(0, "a", 4)  # what the worker does then
    servers.contribute(0, 4)
    servers.follow()
    assert np.all(servers.value(0, "a") == -3)
    assert servers.finish_dump(0)
    old.truncate_log(dump.number)
    servers.kill("ps-1")
    servers.restart("ps-1")
    assert np.all(servers.value(0, "a") == -3)
    assert not servers.messages


def test_a_log_that_cannot_begin_a_segment_goes_on_with_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PushLog(tmp_path, 1, 0)
    pushes = [encode_push(Push("s", n, blocks=(BlockGradient("a", 0, np.ones(4, np.float32)),))) for n in (1, 2)]
    log.append(pushes[0][0], pushes[0][1])

    def no_room(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "open", no_room)
        with pytest.raises(OSError, match="No space"):
            log.rotate(5, [])
    log.append(pushes[1][0], pushes[1][1])
    log.close()
    assert sorted(index(tmp_path, 0)) == [("s", 1), ("s", 2)]


def test_a_session_is_discarded_only_after_its_push_is_in_the_log(tmp_path: Path) -> None:
    servers = ReplicatedServers(tmp_path, sync=False)
    executor = servers._running[0]
    appending, discarded = threading.Event(), threading.Event()
    append = executor._log.append

    def slowly(*arguments: Any) -> None:
        appending.set()
        assert not discarded.wait(0.3), "its memory was given away while it was written"
        append(*arguments)

    executor._log.append = slowly  # type: ignore[method-assign, assignment]
    stager = threading.Thread(target=servers.stage, args=(0, "a", 1))
    stager.start()
    assert appending.wait(MAX_WAIT_S)
    servers.book.end_session(0, session="s")
    servers.follow()
    discarded.set()
    stager.join()
    assert not servers._stores[0].staged()
