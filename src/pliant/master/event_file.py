"""The TensorBoard event files in a job's folder: TensorBoard shows the folder as one run, however often the master changed.

Each master appends to a file of its own, whose name sorts after those of its predecessors: a predecessor that was killed may have
left half a record, behind which nobody reads on in that file. A write that fails ends a file likewise.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import IO

from pliant.core.series.tfevents import version_record

PREFIX = "events.out.tfevents."


class EventFile:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None  # made with the first records

    def append(self, time: float, records: bytes) -> None:
        """Raises ``OSError``; the next records go to another file then."""
        if not records:
            return
        if self._file is None:
            self._file = _new_file(self._folder, time)
            records = version_record(time) + records
        try:
            if self._file.write(records) != len(records):
                raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def write_events(folder: Path, time: float, content: bytes) -> Path:
    """A whole file, in a folder that is made if need be."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _new_file(folder, time) as file:
        file.write(content)
        return Path(file.name)


def _new_file(folder: Path, time: float) -> IO[bytes]:
    folder.mkdir(exist_ok=True)
    numbers = [path.name.removeprefix(PREFIX).split(".")[0] for path in folder.glob(f"{PREFIX}*")]
    last = max((int(number) for number in numbers if number.isdecimal() and number.isascii()), default=0)
    number = max(round(time * 1000), last + 1)
    return (folder / f"{PREFIX}{number:013d}.pliant").open("xb", buffering=0)
