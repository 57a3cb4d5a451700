from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.data.recordio.chunk import ChunkDamage
from pliant.data.recordio.file import PayloadCache
from pliant.data.recordio.lengths import scan_in_python
from pliant.data.recordio.payload import Payload


def payload_of(records: list[bytes], origin: int = 0) -> Payload:
    raw = b"".join(struct.pack("<I", len(r)) + r for r in records)
    return Payload(b"?" * origin + raw, origin, len(raw), len(records))


@settings(max_examples=100, deadline=None)
@given(records=st.lists(st.binary(max_size=20), max_size=30), origin=st.integers(0, 9), data=st.data())
def test_records_are_found_wherever_the_payload_lies(records: list[bytes], origin: int, data: st.DataObject) -> None:
    payload = payload_of(records, origin)
    start = data.draw(st.integers(0, len(records)))
    stop = data.draw(st.integers(start, len(records)))
    assert payload.take(start, stop) == records[start:stop]
    assert list(payload.iterate(start, stop)) == records[start:stop]
    assert payload.views(start, stop) == records[start:stop]
    assert payload.pick(list(range(start, stop))) == records[start:stop]


@pytest.mark.parametrize("length", [0, 1, 7, 5000])
def test_records_of_one_length_may_end_in_zero_bytes(length: int) -> None:
    records = [bytes(length), b"\xff" * length, bytes(length)]
    assert payload_of(records).take(0, 3) == records


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=60), count=st.integers(1, 12))
def test_the_compiled_loop_finds_what_the_python_loop_finds(raw: bytes, count: int) -> None:
    compiled = pytest.importorskip("pliant.data.recordio.lengths_compiled").scan_compiled
    if not raw:
        return
    first, second = np.zeros(count, np.int64), np.zeros(count, np.int64)
    assert scan_in_python(raw, 0, len(raw), first) == compiled(raw, 0, len(raw), second)
    assert first.tolist() == second.tolist()


def test_a_payload_that_the_records_do_not_fill_is_damage() -> None:
    with pytest.raises(ChunkDamage, match="3 bytes are left after the last of 2"):
        Payload(b"\1\0\0\0a\2\0\0\0bbxxx", 0, 14, 2)
    with pytest.raises(ChunkDamage, match="record 1 of 2 is longer"):
        Payload(b"\1\0\0\0a\xff\0\0\0bb", 0, 11, 2)


def test_the_cache_keeps_what_was_used_last_within_its_limit() -> None:
    cache = PayloadCache(3000)
    for number in range(5):
        cache.put(("file", number), payload_of([bytes(900)]))
        cache.get(("file", 0))
    kept = [number for number in range(5) if cache.get(("file", number)) is not None]
    assert kept == [0, 4]
