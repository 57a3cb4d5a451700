from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from pliant.cli.commands.data import app
from pliant.core.errors import CorruptData, InvalidRequest
from pliant.data import RecordIOReader, RecordIOWriter
from pliant.data.packing import unpack_image


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "a.rio"
    with RecordIOWriter(path, max_chunk_bytes=30) as writer:
        writer.write_all(b"record %02d" % i for i in range(20))
    return path


@pytest.fixture
def damaged(packed: Path) -> Path:
    content = bytearray(packed.read_bytes())
    offsets = RecordIOReader(packed).files[0]._offsets
    content[offsets[2] + 25] ^= 1
    content[offsets[5]] ^= 1
    packed.write_bytes(content)
    return packed


def test_rows_are_packed_as_json(tmp_path: Path) -> None:
    rows = [{"a": str(i), "b": f"é, {i}"} for i in range(5)]
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f'{r["a"]},"{r["b"]}"\n' for r in rows), encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    for source in ("rows.csv", "rows.jsonl", "rows.parquet"):
        result = run("pack", tmp_path / source, "-o", tmp_path / "out.rio", "--compressor", "snappy")
        assert result.exit_code == 0, result.output
        assert "5 records in 1 chunks" in result.output
        assert [json.loads(record) for record in RecordIOReader(tmp_path / "out.rio")] == rows


def test_images_are_packed_with_path_and_label(tmp_path: Path) -> None:
    for name in ("dog", "cat"):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "1.jpg").write_bytes(b"\xff\xd8\n" + name.encode())
    assert run("pack", tmp_path / "images", "-o", tmp_path / "out.rio").exit_code == 0
    found = [unpack_image(record) for record in RecordIOReader(tmp_path / "out.rio")]
    assert found == [("cat/1.jpg", "cat", 0, b"\xff\xd8\ncat"), ("dog/1.jpg", "dog", 1, b"\xff\xd8\ndog")]


def test_info_tells_records_and_chunks(packed: Path) -> None:
    assert "20" in run("info", packed).output
    (report,) = json.loads(run("info", packed, "--json").output)
    assert (report["records"], report["chunks"], report["compressions"]) == (20, 7, ["none"])


def test_cat_prints_records(packed: Path) -> None:
    assert run("cat", packed, "--start", 3, "-n", 2).output == "record 03\nrecord 04\n"
    assert run("cat", packed, "-n", 1, "--as", "hex").output == b"record 00".hex() + "\n"
    assert run("cat", packed, "-n", 2, "--as", "raw").output == "record 00record 01"
    assert run("cat", packed, "--start", 99).output == ""


def test_what_was_made_and_printed_is_json_for_programs(packed: Path, tmp_path: Path) -> None:
    values = [json.loads(line) for line in run("cat", packed, "-n", 2, "--json").output.splitlines()]
    assert values == [{"value": "record 00"}, {"value": "record 01"}]
    copy = tmp_path / "copy.rio"
    made = json.loads(run("pack", packed, "-o", copy, "--json").output)
    assert made == {"file": str(copy), "records": 20, "chunks": 1, "bytes": copy.stat().st_size}
    parts = json.loads(run("split", packed, "-o", tmp_path / "parts", "--parts", 2, "--json").output)
    assert [part["records"] for part in parts] == [10, 10]


def test_cat_prints_other_formats_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    assert run("cat", tmp_path / "a.csv").output == '{"x":"1","y":"2"}\n'


def test_verify_says_that_a_file_is_whole(packed: Path) -> None:
    result = run("verify", packed)
    assert (result.exit_code, "intact, 20 records" in result.output) == (0, True)


def test_verify_names_every_damaged_chunk_and_fails(damaged: Path) -> None:
    result = run("verify", damaged)
    assert result.exit_code == 1
    assert "chunk 2 at byte" in result.output
    assert "chunk 5 at byte" in result.output
    (report,) = json.loads(run("verify", damaged, "--json").output)
    assert [damage["chunk"] for damage in report["damages"]] == [2, 5]


def test_damage_ends_a_command_unless_it_is_to_be_skipped(damaged: Path, tmp_path: Path) -> None:
    assert isinstance(run("cat", damaged).exception, CorruptData)
    for command in (["cat", damaged], ["pack", damaged, "-o", tmp_path / "b.rio"]):
        result = run(*command, "--skip-corrupt")
        assert result.exit_code == 0, result.output
        assert "skipped 2 corrupt parts" in result.output
    assert len(RecordIOReader(tmp_path / "b.rio")) == 14


def test_a_bad_row_can_be_left_out_of_packing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('1\n2\n{oops\n4\n"five"\n')
    assert isinstance(run("pack", tmp_path / "a.jsonl", "-o", tmp_path / "a.rio").exception, CorruptData)
    assert not (tmp_path / "a.rio").exists()
    result = run("pack", tmp_path / "a.jsonl", "-o", tmp_path / "a.rio", "--skip-corrupt")
    assert "record 2 is not JSON" in result.output
    assert list(RecordIOReader(tmp_path / "a.rio")) == [b"1", b"2", b"4", b'"five"']


@pytest.mark.parametrize(("how", "sizes"), [(["--parts", 3], [6, 7, 7]), (["--records", 8], [8, 8, 4])])
def test_split_makes_files_that_are_the_whole_together(
    packed: Path, tmp_path: Path, how: list[object], sizes: list[int]
) -> None:
    result = run("split", packed, "-o", tmp_path / "parts", *how)
    assert result.exit_code == 0, result.output
    reader = RecordIOReader(tmp_path / "parts")
    assert [len(file) for file in reader.files] == sizes
    assert list(reader) == list(RecordIOReader(packed))


def test_split_wants_to_know_how(packed: Path, tmp_path: Path) -> None:
    assert isinstance(run("split", packed, "-o", tmp_path).exception, InvalidRequest)
