"""What programs note on finished shards: bytes, short ones in the journal itself, longer ones as files beside it.

A note's text is what ``core.shards.book`` journals with the acknowledgement: the bytes, or the name of the file that has them. The
file is on disk before the text is journaled, and is named by its content, so writing it again changes nothing.
"""

from __future__ import annotations

import base64
import re
import shutil
from hashlib import blake2b
from pathlib import Path

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.files.atomic import write_bytes
from pliant.files.regular import read_bytes

MAX_INLINE_BYTES = 4096
MAX_NOTE_BYTES = 12 << 20  # so that one fits into a message
_INLINE, _FILE = "=", "@"
_NAME = re.compile(r"[0-9a-f]{32}")


class NoteStore:
    def __init__(self, folder: Path, *, has_files: bool = True) -> None:
        """Without ``has_files`` longer ones are refused: the journal is elsewhere, and this folder may be lost with its disk."""
        self._folder = folder
        self._has_files = has_files

    def keep(self, dataset: str, data: bytes) -> str:
        """Returns the text to journal; the bytes are durable by then."""
        if len(data) > MAX_NOTE_BYTES:
            raise InvalidRequest(
                f"a note of {len(data):,} bytes on a shard of {dataset!r}; allowed: {MAX_NOTE_BYTES:,}",
                hint="use smaller shards (for evaluation: --eval-shard-size)",
            )
        if len(data) <= MAX_INLINE_BYTES:
            return _INLINE + base64.b64encode(data).decode()
        if not self._has_files:
            raise InvalidRequest(
                f"a note of {len(data):,} bytes on a shard of {dataset!r}; "
                f"allowed with journal.store: database: {MAX_INLINE_BYTES:,}",
                hint="use smaller shards, or metrics with a small state (a pliant.native.Metric), or journal.store: file",
            )
        name = blake2b(data, digest_size=16).hexdigest()
        folder = self._of(dataset)
        if not (folder / name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, data)
        return _FILE + name

    def read(self, dataset: str, text: str) -> bytes:
        name = text[1:]
        if text.startswith(_INLINE):
            try:
                return base64.b64decode(name, validate=True)
            except ValueError:
                raise CorruptData(f"a note on a shard of {dataset!r} is corrupt") from None
        if not text.startswith(_FILE) or not _NAME.fullmatch(name):
            raise CorruptData(f"a note on a shard of {dataset!r} is corrupt: {text!r:.60} does not name a file")
        path = self._of(dataset) / name
        try:
            data = read_bytes(path, MAX_NOTE_BYTES)
        except OSError as error:
            raise CorruptData(f"a note on a shard of {dataset!r} is missing: {path}: {error.strerror}") from error
        if blake2b(data, digest_size=16).hexdigest() != name:
            raise CorruptData(f"a note on a shard of {dataset!r} was modified: {path}")
        return data

    def drop(self, dataset: str) -> None:
        shutil.rmtree(self._of(dataset), ignore_errors=True)

    def _of(self, dataset: str) -> Path:
        return self._folder / blake2b(dataset.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
