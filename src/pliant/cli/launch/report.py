"""Writing the report of a job to a file or to the standard output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from pliant.core.errors import InvalidRequest
from pliant.dashboard.report.collect import collect
from pliant.dashboard.report.page import page
from pliant.dashboard.wire import to_bytes
from pliant.files.atomic import write_output
from pliant.handles.job_handle import JobHandle


def write_report(handle: JobHandle, log_lines: int, to: Path | TextIO) -> int:
    """Returns how many bytes it has. A file appears whole, or not at all."""
    text = page(collect(handle, log_lines), f"{handle.name} · Pliant")
    text = text.encode("utf-8", "replace").decode()
    if not isinstance(to, Path):
        to.write(text)
        return len(text)
    try:
        write_output(to, text)
    except OSError as error:
        raise InvalidRequest(
            f"{to} cannot be written: {error.strerror or error}", hint="pass another file with -o"
        ) from None
    return len(text.encode())


def documents(handle: JobHandle, log_lines: int) -> Any:
    """What is in the file, without the page around it: strict JSON values."""
    return json.loads(to_bytes(collect(handle, log_lines)))
