"""A parameter server that pauses at chosen points, for a test to kill it or others there.

Usage: ``breakpoint_server.py FOLDER POINT…``.

The first server that reaches a point writes its node into ``FOLDER/at-POINT`` and waits for ``FOLDER/go-POINT``. Points are
passed in the order in which they are listed; a server that reaches one later does not wait.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pliant.ps.payloads import StateChunk
from pliant.ps.recovery import order_executor as executing
from pliant.ps.recovery.dumps import read_chunks, write_chunks
from pliant.ps.server.process import main

FOLDER, POINTS = Path(sys.argv[1]), sys.argv[2:]


def come_to(*points: str) -> None:
    upcoming = [point for point in POINTS if not (FOLDER / f"go-{point}").exists()]
    if not upcoming or upcoming[0] not in points:
        return
    try:
        with (FOLDER / f"at-{upcoming[0]}").open("x") as file:
            file.write(os.environ["PLIANT_NODE"])
    except FileExistsError:  # another is there, or was, and died
        return
    while not (FOLDER / f"go-{upcoming[0]}").exists():
        time.sleep(0.02)


def write(stem: Path, chunks: Iterable[StateChunk], *, facts: Mapping[str, Any]) -> int:
    if stem.parent.parent.name == "moves":
        come_to("giving", "giving-again")
    else:
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".safetensors").write_bytes(b"half of a dump")
        come_to("dumping")
    size = write_chunks(stem, chunks, facts=facts)
    if stem.parent.parent.name == "moves":
        come_to("given")
    return size


def read(stem: Path) -> Iterator[StateChunk]:
    for number, chunk in enumerate(read_chunks(stem)):
        yield chunk
        if not number:
            come_to("taking")


vars(executing).update(write_chunks=write, read_chunks=read)
main()
