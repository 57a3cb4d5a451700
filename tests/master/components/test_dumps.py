"""Dumps that the master orders by itself, as what servers keep on disk until there is one grows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.core.parameters.trained_book import TrainedBook

from pliant.master.components.parameters.dumps import MAX_LOG_BYTES, RETRY_PAUSE_S, DumpCoordinator
from pliant.testing import ManualClock


def test_a_long_log_of_a_server_makes_a_dump_due_although_dumps_are_turned_off(tmp_path: Path) -> None:
    trained, clock, log = TrainedBook(dump_seconds=0.0), ManualClock(), {"bytes": MAX_LOG_BYTES}
    journal: Any = SimpleNamespace(do=lambda method, **given: method(clock.now(), **given))
    observations: Any = SimpleNamespace(max_log_bytes=lambda: log["bytes"])
    changes: Any = SimpleNamespace(notify=lambda: None)
    dumps = DumpCoordinator(trained.book, journal, clock, observations, changes, tmp_path)
    clock.advance(RETRY_PAUSE_S)
    log["bytes"] += 1
    dumps.tick()
    assert trained.book.open_dump is None, "nothing was trained"
    trained.trains(1)
    log["bytes"] -= 1
    dumps.tick()
    assert trained.book.open_dump is None
    log["bytes"] += 1
    dumps.tick()
    assert trained.book.open_dump is not None
