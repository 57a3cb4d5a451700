"""Pages of a file that grows, forwards and backwards, and a search in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.handles.log_pages import MAX_LINE_CHARS, MAX_MATCHES, LogLine, LogPage, read_page, search_files


def read(path: Path, *, after: str = "", before: str = "", lines: int = 10, is_final: bool = False) -> LogPage:
    return read_page(path, "worker-0", after=after, before=before, lines=lines, is_final=is_final)


def texts(page: LogPage) -> list[str]:
    return [line.text for line in page.lines]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "worker-0.log"
    path.write_text("".join(f"line {n}\n" for n in range(100)))
    return path


def test_pages_go_back_to_the_beginning_without_a_gap(log: Path) -> None:
    page = read(log, lines=30)
    found = texts(page)
    while not page.at_start:
        page = read(log, before=page.before, lines=30)
        found = texts(page) + found
    assert found == [f"line {n}" for n in range(100)]


def test_pages_follow_what_is_written(log: Path) -> None:
    page = read(log, lines=1)
    with log.open("a") as file:
        file.write("new\nunfinished")
    page = read(log, after=page.after)
    assert (texts(page), page.at_end) == (["new"], False)
    with log.open("a") as file:
        file.write(" line\n")
    assert texts(read(log, after=page.after)) == ["unfinished line"]


def test_the_last_line_of_an_ended_job_needs_no_end(log: Path) -> None:
    log.write_text("first\nlast words")
    assert texts(read(log)) == ["first"]
    assert texts(read(log, is_final=True)) == ["first", "last words"]


def test_a_progress_bar_is_shown_as_a_terminal_shows_it(log: Path) -> None:
    log.write_bytes(b"10%\r50%\r100%\r\n\xff\xfe binary \x00\n")
    assert texts(read(log))[0] == "100%"
    assert "binary" in texts(read(log))[1]


def test_a_line_without_an_end_is_cut_and_does_not_stop_the_reader(log: Path) -> None:
    log.write_bytes(b"x" * (3 << 20) + b"\nafter\n")
    page = read(log, after="0")
    found: list[LogLine] = []
    for _ in range(10):
        found += page.lines
        if page.at_end:
            break
        page = read(log, after=page.after)
    assert found[0].is_cut
    assert len(found[0].text) == MAX_LINE_CHARS
    assert found[-1].text == "after"


def test_a_search_finds_lines_in_any_case(log: Path) -> None:
    log.write_text("Error: ÄRGER\nfine\nerror again\n")
    found = search_files([("worker-0", log)], "ERROR")
    assert [match.line.text for match in found.matches] == ["Error: ÄRGER", "error again"]
    assert [match.line.text for match in search_files([("worker-0", log)], "ärger").matches] == ["Error: ÄRGER"]
    (first, *_) = found.matches
    assert texts(read(log, after=first.line.at))[0] == "Error: ÄRGER"


def test_of_too_many_matches_the_newest_are_kept(log: Path) -> None:
    log.write_text("".join(f"hit {n}\n" for n in range(MAX_MATCHES + 100)))
    found = search_files([("worker-0", log)], "hit")
    assert len(found.matches) == MAX_MATCHES
    assert found.matches[-1].line.text == f"hit {MAX_MATCHES + 99}"
    assert not found.is_complete


@pytest.mark.parametrize("cursor", ["x", "-1", "1" * 30, "١", "1.5"])
def test_a_senseless_cursor_is_refused(log: Path, cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        read(log, after=cursor)


def test_a_cursor_behind_the_end_finds_nothing(log: Path) -> None:
    assert texts(read(log, after="999999")) == []


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.log")
    with pytest.raises(CorruptData):
        read(tmp_path / "fifo.log")
    assert read(tmp_path / "none.log").lines == ()
