"""The file in the job's folder that keeps its series: written every few seconds by the master, read by its successor, and by
whoever looks at the job when no master answers.

A file, not the journal: no decision depends on it, so the last seconds may be lost with the machine, and the journal does not
grow by what is only drawn.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pliant.core.errors import CorruptData
from pliant.core.series.job_series import JobSeries
from pliant.files.atomic import write_bytes
from pliant.files.regular import MAX_JSON_BYTES, read_bytes

MIN_FREE_BYTES = 8 << 20


def check_room(folder: Path) -> None:
    """The last of a disk is for the journal: raises ``OSError`` if little is left."""
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, "the disk is almost full")


def write_series(path: Path, series: JobSeries, *, durable: bool = False) -> None:
    """Raises ``OSError``."""
    write_bytes(path, "".join(_encoded(series.to_json())).encode(), durable=durable)


def read_series(path: Path) -> JobSeries | None:
    """None: there are none. Raises ``CorruptData``."""
    try:
        content = read_bytes(path, MAX_JSON_BYTES)
    except FileNotFoundError:
        return None
    return parse_series(content, str(path))


def parse_series(content: bytes | str, where: str) -> JobSeries:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise CorruptData(f"{where} is corrupt or truncated") from None
    return JobSeries.from_json(value, where)


def _encoded(value: dict[str, Any]) -> Iterator[str]:
    """As ``json.dumps``, in pieces: that one keeps all other threads of the master waiting until it is done."""
    yield "{"
    for number, (key, inner) in enumerate(value.items()):
        yield f"{',' if number else ''}{json.dumps(key)}:"
        if isinstance(inner, dict):
            yield from _encoded(inner)
        else:
            yield json.dumps(inner, separators=(",", ":"))
    yield "}"
