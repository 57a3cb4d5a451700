"""The output of one node a page at a time, backwards and forwards, and a search in it: all of it bounded.

``LocalJob`` and jobs of a cluster return the same ``LogPage``. A cursor is a place in the output, which only the handle that
made it can read: here an offset into the file, of a Pod the time stamp of a line.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pliant.core.errors import InvalidRequest
from pliant.files.regular import open_regular
from pliant.handles.program_output import start_of_last

MAX_LINES = 2000  # of a page
MAX_PAGE_BYTES = 1 << 20
MAX_LINE_CHARS = 8000  # of a line that is shown
MAX_MATCHES = 500
MAX_SEARCH_BYTES = 128 << 20  # of one file: its newest part
MAX_SEARCH_S = 4.0  # of one search
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class LogLine:
    at: str  # cursor of its beginning
    text: str
    is_cut: bool = False  # it is longer


@dataclass(frozen=True, slots=True)
class LogPage:
    node: str
    lines: tuple[LogLine, ...] = ()
    before: str = ""  # cursor of its beginning
    after: str = ""  # cursor of its end
    at_start: bool = True  # nothing is before it
    at_end: bool = True  # nothing is after it, now
    note: str = ""


@dataclass(frozen=True, slots=True)
class LogMatch:
    node: str
    line: LogLine


@dataclass(frozen=True, slots=True)
class LogMatches:
    matches: tuple[LogMatch, ...] = ()  # the newest of each node
    is_complete: bool = True
    scanned_bytes: int = 0


def shown_line(at: str, text: str) -> LogLine:
    """As a terminal would show it in the end: a progress bar overwrites its line."""
    whole = text.rstrip("\r\n")
    if "\r" in whole:
        whole = next((part for part in reversed(whole.split("\r")) if part), "")
    return LogLine(at, whole[:MAX_LINE_CHARS], len(whole) > MAX_LINE_CHARS)


def read_page(path: Path, node: str, *, after: str, before: str, lines: int, is_final: bool) -> LogPage:
    """``is_final``: nothing more will be written, so an unfinished last line is shown, too."""
    lines = min(max(1, lines), MAX_LINES)
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return LogPage(node)
    with file:
        size = file.seek(0, 2)
        if after:
            begin, end = min(_offset(after), size), size
        else:
            end = min(_offset(before), size) if before else size
            begin = start_of_last(file, lines, end)
            begin = max(begin, end - MAX_PAGE_BYTES)
        return _page(file, node, begin, end, lines, size, is_final)


def _page(file: IO[bytes], node: str, begin: int, end: int, lines: int, size: int, is_final: bool) -> LogPage:
    file.seek(begin)
    content = file.read(min(end - begin, MAX_PAGE_BYTES))
    found: list[LogLine] = []
    at = 0
    while at < len(content) and len(found) < lines:
        stop = content.find(b"\n", at)
        if stop < 0:
            is_longer = len(content) == MAX_PAGE_BYTES and at == 0  # a line that no page has room for
            is_last = begin + len(content) == size
            if not is_longer and not (is_last and is_final):
                break
            stop = len(content) - 1
        found.append(shown_line(str(begin + at), content[at : stop + 1].decode(errors="replace")))
        at = stop + 1
    after = begin + at
    return LogPage(node, tuple(found), str(begin), str(after), begin == 0, after >= size)


def search_files(files: Sequence[tuple[str, Path]], text: str) -> LogMatches:
    """Lines that contain the text, in any case."""
    wanted = text.casefold().encode()
    if not wanted:
        raise InvalidRequest("nothing to search for", hint="pass at least one character")
    deadline = time.monotonic() + MAX_SEARCH_S
    found: list[LogMatch] = []
    scanned, is_complete = 0, True
    for node, path in files:
        room = MAX_MATCHES - len(found)
        if room <= 0 or time.monotonic() > deadline:
            is_complete = False
            break
        try:
            file = open_regular(path)
        except FileNotFoundError:
            continue
        with file:
            matches: deque[LogMatch] = deque(maxlen=room)
            count, done, is_whole = _search(file, node, wanted, matches, deadline)
        found.extend(matches)
        scanned += done
        is_complete = is_complete and is_whole and count <= room
    return LogMatches(tuple(found), is_complete, scanned)


def _search(
    file: IO[bytes], node: str, wanted: bytes, matches: deque[LogMatch], deadline: float
) -> tuple[int, int, bool]:
    """Returns how many lines match, how many bytes were read, and whether that was all of it."""
    size = file.seek(0, 2)
    at = max(0, size - MAX_SEARCH_BYTES)
    is_whole, count, first = at == 0, 0, at
    file.seek(at)
    rest = b""
    while block := file.read(_BLOCK):
        content = rest + block
        whole = content.rfind(b"\n") + 1 or (len(content) if len(content) >= MAX_PAGE_BYTES else 0)
        count += _matches_in(content[:whole], at, node, wanted, matches)
        at, rest = at + whole, content[whole:]
        if time.monotonic() > deadline:
            return count, at - first, False
    count += _matches_in(rest, at, node, wanted, matches)
    return count, size - first, is_whole


def _matches_in(content: bytes, begin: int, node: str, wanted: bytes, matches: deque[LogMatch]) -> int:
    folded = content.lower()
    if not wanted.isascii():  # upper case of other alphabets has other bytes
        folded = content.decode(errors="replace").casefold().encode()
        if len(folded) != len(content):
            return _matches_by_line(content, begin, node, wanted, matches)
    count = at = 0
    while (hit := folded.find(wanted, at)) >= 0:
        start, end = content.rfind(b"\n", 0, hit) + 1, content.find(b"\n", hit)
        end = len(content) if end < 0 else end
        matches.append(LogMatch(node, shown_line(str(begin + start), content[start:end].decode(errors="replace"))))
        count, at = count + 1, end + 1
    return count


def _matches_by_line(content: bytes, begin: int, node: str, wanted: bytes, matches: deque[LogMatch]) -> int:
    count = 0
    for line in content.splitlines(keepends=True):
        text = line.decode(errors="replace")
        if wanted in text.casefold().encode():
            matches.append(LogMatch(node, shown_line(str(begin), text)))
            count += 1
        begin += len(line)
    return count


def _offset(cursor: str) -> int:
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 18:
        raise InvalidRequest("not a place in this output", hint="pass a cursor of an earlier page")
    return int(cursor)
