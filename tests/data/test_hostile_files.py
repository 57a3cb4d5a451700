"""Data that is damaged, or made to be: an error of ours that names the file, or the right records; never a wait or all memory."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pliant.core.errors import CorruptData, PliantError
from pliant.data import RecordIOReader, RecordIOWriter, index_cache, open_reader
from pliant.data.files import INDEX_SUFFIX, stamp
from pliant.data.readers.text import CsvReader
from pliant.data.recordio.compression import Compression, expand

pytestmark = pytest.mark.timeout(60)


def record_file(folder: Path, records: int = 1000) -> Path:
    path = folder / "a.rio"
    with RecordIOWriter(path, max_chunk_bytes=1) as writer:
        writer.write_all(b"%d" % i for i in range(records))
    return path


def index_file(data: Path) -> Path:
    found = index_cache.index_path(str(data), None)
    assert found is not None
    return found


def assert_all_there(path: Path) -> None:
    reader = RecordIOReader(path)
    assert list(reader) == [b"%d" % i for i in range(1000)]
    reader.close()


@pytest.mark.parametrize(
    "kind", ["fifo", "link to a device", "link to another index", "folder", "of someone else", "huge"]
)
def test_an_index_that_is_no_plain_file_of_a_trusted_user_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = record_file(tmp_path)
    RecordIOReader(path).close()
    place = index_file(path)
    good = place.read_bytes()
    place.unlink()
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "link to a device":
            place.symlink_to("/dev/zero")
        case "link to another index":
            (tmp_path / "other").write_bytes(good)
            place.symlink_to("other")
        case "folder":
            place.mkdir()
        case "huge":
            with place.open("wb") as file:
                file.truncate(1 << 40)
        case "of someone else":
            place.write_bytes(good)
            monkeypatch.setattr(os, "getuid", lambda: 12345)
            os.chown(place, 4321, -1) if os.geteuid() == 0 else pytest.skip("only root can give files away")
    assert index_cache.load(place, "recordio", str(path), stamp(str(path)), lambda arrays: True) is None
    assert_all_there(path)
    if kind == "link to another index":  # replaced, and what it led to is as it was
        assert not place.is_symlink()
        assert (tmp_path / "other").read_bytes() == good


def test_an_index_of_the_owner_of_the_data_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record_file(tmp_path)
    RecordIOReader(path).close()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr("pliant.data.recordio.file.hop", None)
    assert_all_there(path)


def arrays(*values: list[int]) -> list[Any]:
    return [np.array(value, np.int64) for value in values]


@pytest.mark.parametrize(
    "wrong",
    [
        arrays([]),
        arrays([0], [0]),
        arrays([0, 21], [0, 1, 2], [3]),
        arrays([21, 42], [0, 1, 2]),
        arrays([0, -5], [0, 1, 2]),
        arrays([0, 10**12], [0, 1, 2]),
        arrays([0, 42, 21], [0, 1, 2, 3]),
        arrays([0, 21], [0, 5, 2]),
        arrays([0, 21], [7, 8, 9]),
    ],
)
def test_an_index_whose_arrays_cannot_be_right_is_built_again(tmp_path: Path, wrong: list[Any]) -> None:
    path = record_file(tmp_path)
    index_cache.save(index_file(path), "recordio", stamp(str(path)), wrong)
    assert_all_there(path)


def test_an_index_that_leaves_chunks_out_is_noticed(tmp_path: Path) -> None:
    """Arrays that could be right, but are not those of the file."""
    path = record_file(tmp_path)
    RecordIOReader(path).close()
    place, version = index_file(path), stamp(str(path))
    found = index_cache.load(place, "recordio", str(path), version, lambda arrays: True)
    assert found is not None
    fewer = [np.delete(found[0], 1), np.delete(found[1], -1)]
    index_cache.save(place, "recordio", version, fewer)
    with pytest.raises(CorruptData, match=r"a\.rio.*the index"):
        list(RecordIOReader(path))


@pytest.mark.parametrize(
    "edit",
    [
        lambda raw: struct.pack("<8s16sqqI", b"PLIXv1\0\0", b"\xff\xfe", 0, 0, 2) + raw[44:],
        lambda raw: raw[:40] + struct.pack("<I", 2**32 - 1) + raw[44:],
        lambda raw: raw[:44] + struct.pack("<q", -1) + raw[52:],
        lambda raw: raw[:44] + struct.pack("<q", 2**62) + raw[52:],
        lambda raw: raw[:-8],
        lambda raw: raw[:30],
    ],
)
def test_an_index_with_other_sizes_than_it_declares_is_built_again(
    tmp_path: Path, edit: Callable[[bytes], bytes]
) -> None:
    path = record_file(tmp_path)
    RecordIOReader(path).close()
    place = index_file(path)
    body = edit(place.read_bytes()[:-4])
    place.write_bytes(body + struct.pack("<I", zlib.crc32(body)))
    assert_all_there(path)


@pytest.mark.parametrize(
    "wrong",
    [
        arrays([0]),
        arrays([0], [10]),
        arrays([0], [10, 10**9]),
        arrays([0], [1000, 10]),
        arrays([50], [10, 20]),
        arrays([], [10, 20]),
        arrays([-1], [10, 20]),
    ],
)
def test_an_index_of_lines_that_cannot_be_right_is_built_again(tmp_path: Path, wrong: list[Any]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{i}\n" for i in range(10)))
    place = index_cache.index_path(str(path), tmp_path / "job")
    (tmp_path / "job").mkdir()
    assert place is not None
    index_cache.save(place, "lines 0", stamp(str(path)), wrong)
    assert list(open_reader(path, index_dir=tmp_path / "job")) == list(range(10))


# --- foreign formats


def npz(path: Path, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(f"{name}.npy", data)


def npy(shape: str, data: bytes = b"", descr: str = "'<f8'", version: bytes = b"\x01\x00") -> bytes:
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(head)) + head + data


def saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


NPY: dict[str, bytes] = {
    "thirty gigabytes": npy("(4_000_000_000,)", bytes(100)),
    "a shape that overflows": npy("(4611686018427387904, 4611686018427387904)"),
    "a negative shape": npy("(-1,)"),
    "a shape of text": npy("('1',)"),
    "a shape that is a number": npy("3"),
    "records without bytes": npy("(1000000000000, 0)"),
    "a type without bytes": npy("(1000000000000,)", descr="'|V0'"),
    "objects": npy("(1,)", bytes(8), "'|O'"),
    "an unknown type": npy("(1,)", bytes(8), "'<q99'"),
    "a type that is a number": npy("(1,)", bytes(8), "7"),
    "an expression": npy("(1,)", bytes(8), "__import__('os')"),
    "brackets": npy("(" * 300),
    "another version": npy("(1,)", bytes(8), version=b"\x09\x00"),
    "a scalar": npy("()", bytes(8)),
    "cut": saved(np.arange(100))[:-1],
    "cut in the header": saved(np.arange(100))[:20],
    "nothing": b"",
    "only a beginning": b"\x93NUM",
}


@pytest.mark.parametrize("name", NPY)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_numpy_file_is_read_or_refused_by_name(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        path.write_bytes(NPY[name])
    else:
        npz(path, x=NPY[name], y=saved(np.arange(100)))
    with pytest.raises(CorruptData, match=rf"a\{suffix}"):
        len(open_reader(path))


def test_numpy_files_of_every_kind_are_read(tmp_path: Path) -> None:
    fortran = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    texts = np.array(["a", "bc", "", "d"])
    structured = np.array([(1, 2.5)] * 4, np.dtype([("n", "<i4"), ("ö", "<f8")]))
    for number, array in enumerate((fortran, texts, structured, np.arange(4) > 1, np.empty((0, 3)))):
        np.save(tmp_path / f"{number}.npy", array)
        found = list(open_reader(tmp_path / f"{number}.npy"))
        assert np.array_equal(np.array(found, array.dtype).reshape(array.shape), array)
    np.savez(tmp_path / "a.npz", fortran=fortran, texts=texts, structured=structured)
    np.savez_compressed(tmp_path / "b.npz", fortran=fortran, texts=texts, structured=structured)
    for name in ("a.npz", "b.npz"):
        records = list(open_reader(tmp_path / name))
        assert [record["texts"] for record in records] == ["a", "bc", "", "d"]
        assert np.array_equal([record["fortran"] for record in records], fortran)
        assert records[3]["structured"]["ö"] == 2.5


def test_a_small_npz_that_declares_thirty_gigabytes_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    zeros = bytes(3 << 20)
    npz(path, x=npy("(4_000_000_000,)", zeros))
    raw = bytearray(path.read_bytes())
    for signature, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):  # the size that each header declares
        place = raw.index(signature) + at
        raw[place : place + 4] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(raw)
    with pytest.raises(CorruptData, match=r"bomb\.npz.*cannot have"):
        len(open_reader(path))


def test_entries_of_an_npz_may_not_share_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    npz(path, x=saved(np.arange(1000)))
    raw = path.read_bytes()
    begin, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    directory = raw[begin:end] * 50  # fifty names for one entry
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 50, 50, len(directory), begin, 0)
    path.write_bytes(raw[:begin] + directory + tail)
    with pytest.raises(CorruptData, match="overlap"):
        len(open_reader(path))


@pytest.mark.parametrize("header", [b"\xff\xfe\x00,b\n1,2\n", b"x" * 200_000 + b"\n1\n", b"a" * (2 << 20)], ids=len)
def test_a_header_of_a_csv_file_that_cannot_be_read_is_damage(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(header)
    with pytest.raises(CorruptData, match=r"a\.csv"):
        CsvReader(path).metadata  # noqa: B018


def test_text_of_a_csv_file_in_another_encoding_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(CorruptData, match=r"a\.csv: records 0 to 1"):
        list(CsvReader(path))


def test_a_field_that_is_too_large_names_its_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n" + "y" * 200_000 + "\n")
    with pytest.raises(CorruptData, match=r"a\.csv.*records from 0 on"):
        list(CsvReader(path))


def test_lines_that_are_nested_too_deeply_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("1\n" + "[" * 100_000 + "\n")
    with pytest.raises(CorruptData, match=r"a\.jsonl: record 1"):
        list(open_reader(path))


def test_records_too_long_to_be_read_are_refused_before_memory_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("1\n" * 100 + json.dumps("x" * 5000) + "\n")
    monkeypatch.setattr("pliant.data.readers.lines.MAX_RANGE_BYTES", 4000)
    monkeypatch.setattr("pliant.data.readers.text._BLOCK_BYTES", 1000)
    reader = open_reader(path)
    assert list(reader.read(0, 64)) == [1] * 64
    with pytest.raises(CorruptData, match=r"a\.jsonl: 37 records from 64 on have"):
        list(reader)


def parquet(path: Path) -> bytes:
    table = pa.table({"n": list(range(1000)), "text": [f"text {i}" for i in range(1000)]})
    pq.write_table(table, path, row_group_size=250)
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["empty", "magic", "cut", "footer", "no footer"])
def test_a_parquet_file_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.parquet"
    raw = parquet(path)
    broken = {
        "empty": b"",
        "magic": b"PAR1" + bytes(100),
        "cut": raw[: len(raw) // 2],
        "footer": raw[:-600] + bytes(500) + raw[-100:],
        "no footer": raw[:-8] + struct.pack("<I", 2**31) + b"PAR1",
    }[kind]
    path.write_bytes(broken)
    with pytest.raises(CorruptData, match=r"a\.parquet"):
        list(open_reader(path))


def test_text_of_a_parquet_file_that_is_not_text_names_its_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    bad = pa.array([b"good", b"\xff\xfe"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": bad}), path)
    with pytest.raises(CorruptData, match=r"a\.parquet: row group 0"):
        list(open_reader(path))


def test_flipped_bytes_of_a_parquet_file_are_damage_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    raw = parquet(path)
    random = np.random.default_rng(7)
    for _ in range(100):
        broken = bytearray(raw)
        broken[random.integers(len(raw))] ^= 1 << random.integers(8)
        path.write_bytes(broken)
        with suppress(CorruptData):
            assert len(list(open_reader(path))) <= 1000


@pytest.mark.parametrize("name", ["a.rio", "a.parquet", "a.npy", "a.csv", "a.jsonl", "a.array_record"])
def test_a_fifo_is_no_data_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(PliantError, match="no file found"):
        list(open_reader(tmp_path / name))


def test_a_database_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(CorruptData, match=r"a\.db"):
        list(open_reader(f"sqlite:///{path}", table="t"))


def test_a_payload_of_a_hundred_thousand_gzip_members_takes_no_longer_than_one(tmp_path: Path) -> None:
    member = zlib.compress(b"x", wbits=31)
    assert expand(Compression.GZIP, memoryview(member * 200_000)) == b"x" * 200_000
    large = os.urandom(5_000_000)
    assert expand(Compression.GZIP, memoryview(member + zlib.compress(large, wbits=31) + member)) == b"x" + large + b"x"


def test_no_index_is_taken_for_data(tmp_path: Path) -> None:
    record_file(tmp_path)
    RecordIOReader(tmp_path / "a.rio").close()
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(INDEX_SUFFIX)]
    assert_all_there(tmp_path)
