"""The log of staged pushes: what was answered is there after a kill at any byte."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pliant.ps.compiled.merging import checksum
from pliant.ps.payloads import Push, RowGradients
from pliant.ps.placement import key_of
from pliant.ps.recovery import push_log as log
from pliant.ps.recovery.push_log import PushLog
from pliant.ps.wire.frames import decode_push, encode_push

NAMES = {key_of("t"): "t"}


def push(sequence: int, session: str = "s") -> Push:
    ids = np.arange(sequence + 1, dtype=np.int64)
    return Push(session, sequence, rows=(RowGradients("t", ids, np.full((ids.size, 2), sequence, np.float32), True),))


def append(kept: PushLog, one: Push) -> None:
    meta, payload = encode_push(one)
    kept.append(meta, payload)


def sequences(folder: Path, base: int = 0) -> list[tuple[str, int]]:
    return sorted(log.index(folder, base))


def test_what_was_appended_is_found_by_session_and_sequence(tmp_path: Path) -> None:
    kept = PushLog(tmp_path, 1, 0)
    for number in range(5):
        append(kept, push(number))
    kept.close()
    found = log.index(tmp_path, 0)
    meta, payload = log.read(found["s", 3][0])
    again = decode_push(meta, memoryview(payload), NAMES)
    assert again.rows[0].ids.tolist() == [0, 1, 2, 3]
    assert again.rows[0].gradients.tolist() == [[3, 3]] * 4


def test_a_torn_tail_is_cut_at_every_byte(tmp_path: Path) -> None:
    kept = PushLog(tmp_path, 1, 0)
    append(kept, push(0))
    whole = kept.bytes
    append(kept, push(1))
    kept.close()
    path = log.segments(tmp_path)[0]
    data = path.read_bytes()
    for length in range(whole, len(data)):
        path.write_bytes(data[:length])
        assert sequences(tmp_path) == [("s", 0)]
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert sequences(tmp_path) == [("s", 0)]


def test_a_dump_makes_older_segments_superfluous_but_not_what_still_waits(tmp_path: Path) -> None:
    kept = PushLog(tmp_path, 1, 0)
    for number in range(3):
        append(kept, push(number))
    meta, payload = encode_push(push(2))
    kept.rotate(7, [(meta, b"".join(payload))])
    append(kept, push(3))
    kept.truncate(7)
    kept.close()
    assert sequences(tmp_path, 7) == [("s", 2), ("s", 3)]
    assert len(log.segments(tmp_path)) == 1


def test_a_segment_that_is_written_over_shows_nothing_of_the_old_one_at_any_length(tmp_path: Path) -> None:
    kept = PushLog(tmp_path, 1, 0)
    for number in (4, 4, 4):  # of one length: the old records lie where new ones would
        append(kept, push(number, f"old-{number}"))
    kept.rotate(5, [])
    kept.truncate(5)
    kept.rotate(6, [])  # over the first one
    kept.truncate(6)
    for number in range(3):
        assert sequences(tmp_path, 6) == [("new", 4 + n) for n in range(number)]
        append(kept, replace(push(4, "new"), sequence=4 + number))
    assert kept.bytes == 3 * (kept.bytes // 3) > 0
    kept.close()
    again = PushLog(tmp_path, 1, 6)  # the same segment goes on where its records end
    append(again, push(9, "new"))
    assert sequences(tmp_path, 6) == [("new", 4), ("new", 5), ("new", 6), ("new", 9)]
    again.close()


def test_what_another_holder_of_the_seat_may_still_write_to_is_never_written_over(tmp_path: Path) -> None:
    frozen = PushLog(tmp_path, 1, 0)
    append(frozen, push(0, "frozen"))
    kept = PushLog(tmp_path, 2, 0)
    for order in (5, 6, 7, 8):
        kept.rotate(order, [])
        kept.truncate(order)
        append(kept, push(order))
        append(frozen, push(order, "frozen"))  # it woke up: to a file that nobody will read
        assert sequences(tmp_path, order) == [("s", order)]
    frozen.close()
    kept.close()


def test_the_segments_of_an_earlier_holder_of_the_seat_count_too(tmp_path: Path) -> None:
    for fencing_token in (1, 2):
        kept = PushLog(tmp_path, fencing_token, 0)
        append(kept, push(fencing_token))
        kept.close()
    assert sequences(tmp_path) == [("s", 1), ("s", 2)]


def test_a_full_disk_leaves_no_half_of_a_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PushLog(tmp_path, 1, 0)
    append(kept, push(0))

    write, writes = os.pwritev, iter((7, 0))

    def full(file: int, buffers: list[memoryview], at: int) -> int:
        if left := next(writes, None):
            return write(file, [buffers[0][:left]], at)
        if left == 0:
            raise OSError(28, "No space left on device")
        return write(file, buffers, at)

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match="No space"):
        append(kept, push(1))
    append(kept, push(2))
    kept.close()
    assert sequences(tmp_path) == [("s", 0), ("s", 2)]


def test_a_checksum_notices_every_changed_byte_and_every_length() -> None:
    data = bytes(range(256))[:100]
    sums = {checksum(data[:length]) for length in range(101)} | {checksum(data, 1)}
    for location in range(100):
        sums.add(checksum(data[:location] + bytes([data[location] ^ 0x80]) + data[location + 1 :]))
    assert len(sums) == 202
    assert checksum(data) == checksum(memoryview(b"x" + data)[1:])


def test_a_durable_log_is_on_disk_with_its_name_before_a_push_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    data_sync, sync = os.fdatasync, os.fsync

    def synced(kind: str, file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        seen.append(
            f"{kind} {path.name if path != tmp_path else 'folder'} {path.stat().st_size if path.is_file() else ''}"
        )
        (data_sync if kind == "data" else sync)(file)

    monkeypatch.setattr(os, "fdatasync", lambda file: synced("data", file))
    monkeypatch.setattr(os, "fsync", lambda file: synced("all", file))
    kept = PushLog(tmp_path, 1, 0, durable=True)
    assert seen == ["all folder "]
    append(kept, push(0))
    name = log.segments(tmp_path)[0].name
    assert seen[1:] == [f"data {name} {kept.bytes}"]
    kept.rotate(7, [])
    assert seen[2:] == ["all folder "]
    kept.close()


def test_a_push_that_does_not_reach_the_disk_is_no_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PushLog(tmp_path, 1, 0, durable=True)
    append(kept, push(0))

    def broken(_file: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(OSError, match="broken"):
        append(kept, push(1))
    monkeypatch.undo()
    append(kept, push(2))
    kept.close()
    assert sequences(tmp_path) == [("s", 0), ("s", 2)]
