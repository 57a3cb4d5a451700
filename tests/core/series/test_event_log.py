"""TensorBoard's event files: real TensorBoard reads what we write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.series.book import SeriesBook
from pliant.core.series.event_log import EventLog, file_of
from pliant.core.series.tfevents import crc32c, restart_record, scalars_record, version_record
from pliant.master.event_file import EventFile, write_events

NAMES = st.text(min_size=1, max_size=20)


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """As TensorBoard shows the folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read: Any = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_the_checksum_is_the_published_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720 has this polynomial's check value
    assert crc32c(b"\0" * 32) == 0x8A9136AA


@given(st.floats(0, 2e9), st.integers(0, 2**63 - 1), st.dictionaries(NAMES, st.floats(-9e18, 9e18), max_size=5))
def test_an_event_is_what_tensorboard_says_it_is(time: float, step: int, values: dict[str, float]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event

    event: Any = Event.FromString(scalars_record(time, step, values)[12:-4])
    assert (event.wall_time, event.step) == (time, step)
    assert {value.tag: value.simple_value for value in event.summary.value} == pytest.approx(
        values, rel=1e-6, abs=1e-37
    )
    start: Any = Event.FromString(restart_record(time, step)[12:-4])
    assert (start.session_log.status, start.step) == (1, step)
    first: Any = Event.FromString(version_record(time)[12:-4])
    assert first.file_version == "brain.Event:2"


def test_several_masters_make_one_curve_and_a_repetition_replaces_what_was_there(tmp_path: Path) -> None:
    folder, now, step = tmp_path / "tensorboard", 1e9, 0
    for master, (goes_back_to, steps) in enumerate([(0, 10), (10, 10), (15, 10)]):
        log, file = EventLog(1e9, step=step), EventFile(folder)
        for step in range(goes_back_to, goes_back_to + steps):
            now += 1
            log.add(now, step, {"loss": step + master / 10})
        file.append(now, log.take())
        file.close()
    assert len(list(folder.iterdir())) == 3
    found = curves(folder)["loss"]
    assert [step for step, _ in found] == list(range(25))
    assert dict(found)[16] == pytest.approx(16.2)


def test_half_a_record_of_a_killed_master_hides_nothing_of_its_successor(tmp_path: Path) -> None:
    first, second = EventFile(tmp_path), EventFile(tmp_path)
    first.append(1e9, scalars_record(1e9, 1, {"loss": 1.0}) + scalars_record(1e9, 2, {"loss": 2.0})[:-7])
    second.append(0.0, scalars_record(1e9, 3, {"loss": 3.0}))  # its clock was set back
    assert curves(tmp_path)["loss"] == [(1, 1.0), (3, 3.0)]
    first.close()
    second.close()


def test_what_comes_within_a_second_is_averaged_and_the_interval_grows_with_the_age() -> None:
    young, old = EventLog(1e9), EventLog(0.0)
    for tenth in range(100):
        young.add(1e9 + tenth / 10, tenth, {"loss": 1.0})
        old.add(1e9 + tenth / 10, tenth, {"loss": 1.0})
    assert len(young.take()) > 8 * len(old.take()) > 0
    assert old.take() == b""
    old.finish(1e9 + 10)
    assert old.take() != b""


def test_results_of_evaluations_are_all_there(tmp_path: Path) -> None:
    log, file = EventLog(1e9), EventFile(tmp_path)
    for version in range(5):
        log.add_result(1e9, version * 10, {"eval/accuracy": version / 4})
    file.append(1e9, log.take())
    file.close()
    assert curves(tmp_path)["eval/accuracy"] == [(version * 10, version / 4) for version in range(5)]


def test_the_series_of_any_job_become_an_event_file(tmp_path: Path) -> None:
    book = SeriesBook()
    for step in range(20):
        book.add_metric(1e9 + step, step if step < 10 else step - 5, "loss", 1 / (step + 1))
        book.workers.add(1e9 + step, step, 2.0)
    write_events(tmp_path / "runs" / "mine", 1e9, file_of(book.series("mine", 1e9 + 20)))
    found = curves(tmp_path / "runs" / "mine")
    assert [step for step, _ in found["loss"]] == list(range(15))
    assert len(found["pliant/workers"]) == 20
    write_events(tmp_path / "empty", 1e9, file_of(SeriesBook().series("new", 1e9)))
    assert curves(tmp_path / "empty") == {}
