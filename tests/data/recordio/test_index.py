from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from pliant.core.errors import CorruptData
from pliant.data import RecordIOReader, RecordIOWriter
from pliant.data.files import INDEX_SUFFIX


def write(path: Path, records: int, text: bytes = b"%d") -> None:
    with RecordIOWriter(path, max_chunk_bytes=1) as writer:
        writer.write_all(text % i for i in range(records))


def indexes(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.name.endswith(INDEX_SUFFIX)]


def test_the_index_of_a_file_with_many_chunks_is_kept_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "a.rio", 1000)
    assert len(RecordIOReader(tmp_path / "a.rio")) == 1000
    assert len(indexes(tmp_path)) == 1
    assert list(RecordIOReader(tmp_path)) == [b"%d" % i for i in range(1000)]


def test_a_small_file_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "a.rio", 10)
    RecordIOReader(tmp_path / "a.rio")
    assert indexes(tmp_path) == []


def test_indexes_go_to_the_directory_given_or_nowhere(tmp_path: Path) -> None:
    write(tmp_path / "a.rio", 1000)
    (tmp_path / "job").mkdir()
    RecordIOReader(tmp_path / "a.rio", index_dir=tmp_path / "job")
    RecordIOReader(tmp_path / "a.rio", keep_index=False)
    assert len(indexes(tmp_path / "job")) == 1
    assert indexes(tmp_path) == []


def test_an_index_is_used_while_the_file_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.rio", 1000)
    RecordIOReader(tmp_path / "a.rio")
    monkeypatch.setattr("pliant.data.recordio.file.hop", None)
    assert RecordIOReader(tmp_path / "a.rio")[777] == b"777"


def test_an_index_that_is_out_of_date_is_built_again(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    write(path, 1000)
    RecordIOReader(path)
    write(path, 500, b"%04d")
    assert list(RecordIOReader(path)) == [b"%04d" % i for i in range(500)]


def test_a_change_of_the_same_size_is_seen_by_its_time(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    write(path, 900, b"%04d")
    RecordIOReader(path)
    with RecordIOWriter(path, max_chunk_bytes=52) as writer:
        writer.write_all(b"%013d" % i for i in range(900))
    os.utime(path, ns=(1, 1))
    assert RecordIOReader(path)[899] == b"%013d" % 899


@pytest.mark.parametrize("place", [0, 10, 40, -1])
def test_a_damaged_index_is_built_again(tmp_path: Path, place: int) -> None:
    path = tmp_path / "a.rio"
    write(path, 1000)
    RecordIOReader(path)
    index = indexes(tmp_path)[0]
    content = bytearray(index.read_bytes())
    content[place] ^= 0xFF
    index.write_bytes(content)
    assert RecordIOReader(path)[999] == b"999"
    index.write_bytes(b"")
    assert RecordIOReader(path)[999] == b"999"


def test_an_index_that_lies_about_an_unchanged_stamp_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.rio"
    write(path, 1000)
    status = path.stat()
    RecordIOReader(path)
    content = bytearray(path.read_bytes())
    content[16] = 2  # the first chunk now claims two records
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(CorruptData, match="chunk 0 at byte 0"):
        RecordIOReader(path)[0]


def test_a_reader_opens_its_files_again_in_another_process(tmp_path: Path) -> None:
    write(tmp_path / "a.rio", 20)
    copy = pickle.loads(pickle.dumps(RecordIOReader(tmp_path / "a.rio")))  # noqa: S301  (as a DataLoader's workers do)
    assert list(copy) == [b"%d" % i for i in range(20)]


def test_a_data_set_may_have_more_files_than_may_be_open(tmp_path: Path) -> None:
    import resource

    for number in range(300):
        write(tmp_path / f"{number:04d}.rio", 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 270, hard))
    try:
        reader = RecordIOReader(tmp_path)
        assert list(reader) == [b"0", b"1"] * 300
        assert reader.fetch([599, 0, 301]) == [b"1", b"0", b"1"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_that_was_replaced_under_an_open_reader_is_noticed_when_it_is_opened_again(tmp_path: Path) -> None:
    for number in range(200):
        write(tmp_path / f"{number:04d}.rio", 2)
    reader = RecordIOReader(tmp_path)
    write(tmp_path / "0000.rio", 3)
    with pytest.raises(CorruptData, match="changed since"):
        reader[0]
