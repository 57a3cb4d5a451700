"""Notes on finished shards: the text that the journal has, and the file that it names."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pliant.master.journal.notes import MAX_INLINE_BYTES, NoteStore


class Fuzz:
    name = "notes"

    def seeds(self) -> list[bytes]:
        with TemporaryDirectory() as folder:
            store = NoteStore(Path(folder))
            return [store.keep("train", data).encode() for data in (b"", b"note", bytes(MAX_INLINE_BYTES + 1))]

    def check(self, data: bytes, folder: Path) -> None:
        store = NoteStore(folder)
        store.keep("train", bytes(MAX_INLINE_BYTES + 1))
        store.read("train", data.decode("utf-8", "surrogateescape"))
