"""The log of staged pushes: what was answered is there after a kill at any byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pliant.ps import log
from pliant.ps.log import PushLog
from pliant.ps.pieces import Push, RowGradients
from pliant.ps.placement import key_of
from pliant.ps.wire import decode_push, encode_push

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
    kept.cut(7)
    kept.close()
    assert sequences(tmp_path, 7) == [("s", 2), ("s", 3)]
    assert len(log.segments(tmp_path)) == 1


def test_the_segments_of_an_earlier_holder_of_the_seat_count_too(tmp_path: Path) -> None:
    for tenure in (1, 2):
        kept = PushLog(tmp_path, tenure, 0)
        append(kept, push(tenure))
        kept.close()
    assert sequences(tmp_path) == [("s", 1), ("s", 2)]


def test_a_full_disk_leaves_no_half_of_a_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PushLog(tmp_path, 1, 0)
    append(kept, push(0))

    class Full:
        def __init__(self, file: object) -> None:
            self._file = file
            self._writes = 0

        def write(self, data: bytes) -> int:
            self._writes += 1
            if self._writes > 2:
                raise OSError(28, "No space left on device")
            return self._file.write(data)  # type: ignore[attr-defined, no-any-return]

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

    monkeypatch.setattr(kept, "_file", Full(kept._file))
    with pytest.raises(OSError, match="No space"):
        append(kept, push(1))
    append(kept, push(2))
    kept.close()
    assert sequences(tmp_path) == [("s", 0), ("s", 2)]
