from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.data import OutOfRange, RecordIOReader, RecordIOWriter
from pliant.data.recordio.check import describe

CHECK_VECTOR = bytes.fromhex(
    "04030201 873a6795 00000000 11000000 02000000 05000000 3132333435 04000000 31323334"
    "04030201 9a5680f2 00000000 06000000 01000000 02000000 3132"
)
COMPRESSORS = ("none", "snappy", "gzip")


def write(path: Path, records: list[bytes], **options: object) -> Path:
    with RecordIOWriter(path, **options) as writer:  # type: ignore[arg-type]
        writer.write_all(records)
    return path


def test_the_check_vector_is_written_byte_for_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rio", [b"12345", b"1234", b"12"], max_chunk_bytes=10)
    assert path.read_bytes() == CHECK_VECTOR


def test_the_check_vector_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    path.write_bytes(CHECK_VECTOR)
    assert list(RecordIOReader(path)) == [b"12345", b"1234", b"12"]


@settings(max_examples=150, deadline=None)
@given(
    records=st.lists(st.binary(max_size=200) | st.just(b"x" * 3000), max_size=60),
    compressor=st.sampled_from(COMPRESSORS),
    limit=st.sampled_from([None, 1, 7, 10, 64, 1000, 1 << 20]),
    data=st.data(),
)
def test_what_was_written_comes_back_in_every_way_of_reading(
    records: list[bytes], compressor: str, limit: int | None, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.rio", records, compressor=compressor, max_chunk_bytes=limit)
        with RecordIOReader(path) as reader:
            assert len(reader) == len(records)
            assert list(reader) == records
            start = data.draw(st.integers(0, len(records)))
            stop = data.draw(st.integers(start, len(records)))
            assert reader.read(start, stop) == records[start:stop]
            views = reader.read(start, stop, copy=False)
            assert [bytes(view) for view in views] == records[start:stop]
            del views
            chosen = data.draw(st.lists(st.integers(0, len(records) - 1), max_size=20)) if records else []
            assert reader.fetch(chosen) == [records[i] for i in chosen]
            assert reader[::2] == records[::2]


@given(sizes=st.lists(st.integers(0, 30), max_size=40), limit=st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_a_chunk_ends_before_the_record_that_would_exceed_the_maximum(sizes: list[int], limit: int) -> None:
    expected: list[int] = []
    pending: list[int] = []
    for size in sizes:
        if pending and sum(pending) + size > limit:
            expected.append(len(pending))
            pending = []
        pending.append(size)
    expected += [len(pending)] if pending else []
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.rio", [bytes(size) for size in sizes], max_chunk_bytes=limit)
        file = RecordIOReader(path).files[0]
        assert [file.header(chunk).records for chunk in range(file.chunks)] == expected


def test_small_records_get_small_chunks_and_large_records_larger_ones(tmp_path: Path) -> None:
    small = describe(str(write(tmp_path / "small.rio", [bytes(100)] * 10_000)))
    large = describe(str(write(tmp_path / "large.rio", [bytes(10_000)] * 300)))
    assert small.largest_chunk < 300 << 10
    assert 900 << 10 < large.largest_chunk <= 1100 << 10


def test_several_files_read_as_one(tmp_path: Path) -> None:
    records = [b"%d" % i for i in range(30)]
    for number in range(3):
        write(tmp_path / f"part-{number}.rio", records[number * 10 : number * 10 + 10], max_chunk_bytes=6)
    for paths in (tmp_path, str(tmp_path / "*.rio"), [tmp_path / f"part-{n}.rio" for n in range(3)]):
        reader = RecordIOReader(paths)
        assert (len(reader), list(reader), reader.read(8, 22)) == (30, records, records[8:22])
        assert reader.fetch([29, 0, 15, 15]) == [b"29", b"0", b"15", b"15"]


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rio", [])
    assert path.stat().st_size == 0
    assert list(RecordIOReader(path)) == []


def test_a_record_longer_than_the_maximum_gets_a_chunk_of_its_own(tmp_path: Path) -> None:
    records = [b"a", b"b" * 100, b"c"]
    path = write(tmp_path / "a.rio", records, max_chunk_bytes=10)
    assert describe(str(path)).chunks == 3
    assert list(RecordIOReader(path)) == records


def test_records_may_be_any_bytes_like_object(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    with RecordIOWriter(path) as writer:
        for record in (bytearray(b"one"), memoryview(b"two"), b"three"):
            writer.write(record)
    assert list(RecordIOReader(path)) == [b"one", b"two", b"three"]


def test_a_write_that_fails_leaves_no_file_and_keeps_the_one_before(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rio", [b"old"])

    def fail() -> None:
        with RecordIOWriter(path) as writer:
            writer.write(b"new")
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        fail()
    assert list(RecordIOReader(path)) == [b"old"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.rio"]


def test_the_file_has_no_name_before_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    writer = RecordIOWriter(path, max_chunk_bytes=1)
    writer.write_all([b"one", b"two", b"three"])
    assert not path.exists()
    writer.close()
    writer.close()
    assert len(RecordIOReader(path)) == 3


@pytest.mark.parametrize("index", [3, -4, 1 << 40])
def test_a_record_that_is_not_there_is_an_index_error(tmp_path: Path, index: int) -> None:
    reader = RecordIOReader(write(tmp_path / "a.rio", [b"1", b"2", b"3"]))
    with pytest.raises(OutOfRange):
        reader[index]
    with pytest.raises(IndexError):
        reader.read(0, 4)


def test_unknown_compressors_and_absurd_limits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="none, snappy, gzip"):
        RecordIOWriter(tmp_path / "a.rio", compressor="zip")
    with pytest.raises(InvalidRequest, match="max_chunk_bytes"):
        RecordIOWriter(tmp_path / "a.rio", max_chunk_bytes=0)
    assert os.listdir(tmp_path) == []
