from __future__ import annotations

import contextlib
import struct
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import google_crc32c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pliant.core.errors import CorruptData
from pliant.data import RecordIOReader, RecordIOWriter
from pliant.data.recordio.check import verify_file
from pliant.data.recordio.chunk import HEADER, MAGIC

RECORDS = [b"record %d" % i * (i % 4) for i in range(40)]


def write(path: Path, compressor: str = "none", records: list[bytes] = RECORDS) -> bytearray:
    with RecordIOWriter(path, compressor=compressor, max_chunk_bytes=100) as writer:
        writer.write_all(records)
    return bytearray(path.read_bytes())


def offsets(path: Path) -> list[int]:
    return RecordIOReader(path).files[0]._offsets


@pytest.mark.parametrize("compressor", ["none", "snappy", "gzip"])
def test_every_changed_header_byte_is_noticed(tmp_path: Path, compressor: str) -> None:
    path = tmp_path / "a.rio"
    whole = write(path, compressor)
    for header in offsets(path)[:2]:
        for place in range(header, header + HEADER.size):
            for flip in (1, 2, 3, 0x80, 0xFF):
                damaged = bytearray(whole)
                damaged[place] ^= flip
                path.write_bytes(damaged)
                with pytest.raises(CorruptData, match=r"a\.rio: chunk \d+ at byte \d+"):
                    list(RecordIOReader(path))


@pytest.mark.parametrize("compressor", ["none", "snappy", "gzip"])
def test_a_flipped_bit_in_a_payload_is_noticed_and_named(tmp_path: Path, compressor: str) -> None:
    path = tmp_path / "a.rio"
    whole = write(path, compressor)
    second = offsets(path)[1]
    whole[second + HEADER.size + 3] ^= 0x10
    path.write_bytes(whole)
    reader = RecordIOReader(path)
    assert reader[0] == RECORDS[0]
    with pytest.raises(CorruptData, match=rf"chunk 1 at byte {second}: checksum"):
        list(reader)


def test_every_cut_tail_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    whole = write(path)
    ends = {*offsets(path), len(whole)}
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        if length in ends:  # whole chunks: the format cannot know that more were there
            continue
        with pytest.raises(CorruptData, match="chunk"):
            list(RecordIOReader(path))


def test_records_that_do_not_fill_the_payload_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    for payload, records in (
        (b"\x05\0\0\0123", 1),
        (b"\x01\0\0\0ab", 1),
        (b"\x01\0\0\0a" * 2, 3),
        (b"\x01\0\0\0a" * 3, 2),
        (b"\xff\xff\xff\xffabc", 1),
    ):
        path.write_bytes(HEADER.pack(MAGIC, zlib.crc32(payload), 0, len(payload), records) + payload)
        with pytest.raises(CorruptData, match="chunk 0 at byte 0"):
            list(RecordIOReader(path))


GIANT = 0xFFFF_FFF0


@pytest.mark.parametrize(
    "content",
    [
        HEADER.pack(MAGIC, 0, 0, GIANT, 1),
        HEADER.pack(MAGIC, 0, 0, 80, GIANT),
        HEADER.pack(MAGIC, 0, 1, 80, GIANT),
        HEADER.pack(MAGIC, 0, 2, 80, GIANT),
        HEADER.pack(MAGIC, GIANT, 0, 1, 80),
        HEADER.pack(MAGIC, 1, 0, 1, GIANT),
        HEADER.pack(MAGIC, zlib.crc32(struct.pack("<I", GIANT) + bytes(76)), 0, 80, 1)
        + struct.pack("<I", GIANT)
        + bytes(76),
        HEADER.pack(MAGIC, 1, google_crc32c.value(b"\xff\xff\xff\xff\x0f" + bytes(75)), 2, 80)
        + b"\xff\xff\xff\xff\x0f"
        + bytes(75),
    ],
)
def test_a_hostile_size_takes_no_memory(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.rio"
    path.write_bytes(content.ljust(100, b"\0"))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptData):
            list(RecordIOReader(path))
        RecordIOReader(path, skip_corrupt=True)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@settings(max_examples=150, deadline=None)
@given(
    header=st.tuples(
        st.sampled_from([MAGIC, 0]), *[st.sampled_from([0, 1, 2, 3, 4, 20, 80, GIANT]) | st.integers(0, 2**32 - 1)] * 4
    ),
    payload=st.binary(max_size=120),
    right_checksum=st.booleans(),
)
@example(header=(MAGIC, 0, 0, 0, 0), payload=b"", right_checksum=False)
def test_the_parser_gives_records_or_an_error_whatever_it_is_fed(
    header: tuple[int, ...], payload: bytes, right_checksum: bool
) -> None:
    fields = list(header)
    if right_checksum:
        fields[1] = zlib.crc32(payload[: fields[3]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.rio"
        path.write_bytes(HEADER.pack(*fields) + payload)
        with contextlib.suppress(CorruptData):
            reader = RecordIOReader(path)
            assert len(list(reader)) == len(reader)
        skipping = RecordIOReader(path, skip_corrupt=True)
        assert len(list(skipping)) == len(skipping)


@settings(max_examples=200, deadline=None)
@given(
    compressor=st.sampled_from(["none", "snappy", "gzip"]),
    edit=st.sampled_from(["flip", "cut out", "insert"]),
    data=st.data(),
)
def test_any_edit_of_a_file_is_an_error_and_what_can_be_saved_is_true(
    compressor: str, edit: str, data: st.DataObject
) -> None:
    records = [b"%03d" % i * 5 for i in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.rio"
        content = write(path, compressor, records)
        boundaries = {*offsets(path), len(content)}
        place = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(1, 30))
        if edit == "flip":
            content[place] ^= data.draw(st.integers(1, 255))
        elif edit == "insert":
            content[place:place] = b"\x77" * length
        elif place in boundaries and min(place + length, len(content)) in boundaries:
            return  # whole chunks went: the format cannot know
        else:
            del content[place : place + length]
        path.write_bytes(content)
        with pytest.raises(CorruptData):
            list(RecordIOReader(path))
        saved = RecordIOReader(path, skip_corrupt=True)
        assert saved.skipped
        assert list(saved) == [record for record in records if record in set(saved)]


def test_skipping_leaves_out_damaged_chunks_only_and_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    whole = write(path)
    starts = RecordIOReader(path).files[0]._starts
    places = offsets(path)
    whole[places[1] + HEADER.size] ^= 1
    whole[places[3]] ^= 1
    whole[places[4] + HEADER.size] ^= 1
    path.write_bytes(whole)
    reader = RecordIOReader(path, skip_corrupt=True)
    assert [(damage.chunk, damage.offset) for damage in reader.skipped] == [(n, places[n]) for n in (1, 3, 4)]
    assert reader.skipped[0].records == starts[2] - starts[1]
    kept = [n for n in range(len(places)) if n not in (1, 3, 4)]
    assert list(reader) == [r for n in kept for r in RECORDS[starts[n] : starts[n + 1]]]
    assert [damage.chunk for damage in verify_file(str(path)).damages] == [1, 3, 4]


def test_a_file_full_of_false_headers_is_given_up_in_time(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    path.write_bytes(b"x" + HEADER.pack(MAGIC, 1, 0, 100_000, 1) * 20_000)
    reader = RecordIOReader(path, skip_corrupt=True)
    assert len(reader) == 0
    assert reader.skipped


def older(records: list[bytes], compressor: int, squeeze: Callable[[bytes], bytes]) -> bytes:
    payload = squeeze(b"".join(struct.pack("<I", len(r)) + r for r in records))
    return HEADER.pack(MAGIC, len(records), google_crc32c.value(payload), compressor, len(payload)) + payload


OLDER = [
    (1, bytes),
    (2, lambda raw: bytes(cramjam.snappy.compress_raw(raw))),
    (3, lambda raw: zlib.compress(raw, wbits=31)),
]


@pytest.mark.parametrize(("compressor", "squeeze"), OLDER)
@settings(max_examples=60, deadline=None)
@given(records=st.lists(st.binary(max_size=50), min_size=1, max_size=20))
def test_the_older_dialect_is_read(compressor: int, squeeze: Callable[[bytes], bytes], records: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.rio"
        path.write_bytes(older(records, compressor, squeeze) * 2)
        assert list(RecordIOReader(path)) == records * 2
        assert verify_file(str(path)).dialects == ("older",)


@pytest.mark.parametrize(("compressor", "squeeze"), OLDER)
def test_damage_in_the_older_dialect_is_noticed(
    tmp_path: Path, compressor: int, squeeze: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.rio"
    whole = older([b"hello", b"", b"world" * 10], compressor, squeeze)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        path.write_bytes(damaged)
        with pytest.raises(CorruptData):
            list(RecordIOReader(path))


def test_files_of_both_dialects_can_be_joined(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    new = write(path)
    path.write_bytes(older([b"old"], 1, bytes) + new)
    assert list(RecordIOReader(path)) == [b"old", *RECORDS]
