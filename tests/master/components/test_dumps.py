"""Dumps that the master orders by itself, as what servers keep on disk until there is one grows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.core.parameters.trained_book import TrainedBook

from pliant.core.events import Event, EventKind
from pliant.master.components.parameters.dumps import MAX_LOG_BYTES, RETRY_PAUSE_S, DumpCoordinator
from pliant.master.components.signals import CheckpointReported, Signal, SignalBus
from pliant.testing import ManualClock


def test_a_long_log_of_a_server_makes_a_dump_due_although_dumps_are_turned_off(tmp_path: Path) -> None:
    trained, clock, log = TrainedBook(dump_seconds=0.0), ManualClock(), {"bytes": MAX_LOG_BYTES}
    journal: Any = SimpleNamespace(do=lambda method, **given: method(clock.now(), **given))
    observations: Any = SimpleNamespace(max_log_bytes=lambda: log["bytes"])
    changes: Any = SimpleNamespace(notify=lambda: None)
    dumps = DumpCoordinator(trained.book, journal, clock, observations, changes, SignalBus(), tmp_path)
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


def test_dumps_that_keep_failing_are_one_event_and_count_as_checkpoints(tmp_path: Path) -> None:
    trained, clock = TrainedBook(dump_seconds=60.0), ManualClock()
    noted: list[Event] = []
    journal: Any = SimpleNamespace(do=lambda method, **given: method(clock.now(), **given), event=noted.append)
    observations: Any = SimpleNamespace(max_log_bytes=lambda: 0)
    changes: Any = SimpleNamespace(notify=lambda: None)
    signals, reported = SignalBus(), list[Signal]()
    signals.connect(reported.append)
    dumps = DumpCoordinator(trained.book, journal, clock, observations, changes, signals, tmp_path)
    for _ in range(3):
        trained.trains(1)
        clock.advance(RETRY_PAUSE_S + 60)
        dumps.tick()
        assert trained.book.open_dump is not None
        dumps.failed(0, trained.token, trained.book.open_dump.order, "No space left on device")
    assert [event.kind for event in noted] == [EventKind.DUMP_FAILED]
    failed = [signal for signal in reported if isinstance(signal, CheckpointReported)]
    assert [(signal.step, signal.problem, signal.node) for signal in failed] == [
        (iteration, "No space left on device", "ps-0") for iteration in (1, 2, 3)
    ]
    assert {signal.directory for signal in failed} == {str(tmp_path / "dumps")}
    assert all(signal.hint for signal in failed)
