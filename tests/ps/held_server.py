"""A parameter server that stands still at chosen points, for a test to kill it or others there: ``held_server.py FOLDER POINT…``.

The first server that comes to a point writes its node into ``FOLDER/at-POINT`` and waits for ``FOLDER/go-POINT``. Points are gone
through in the order in which they are given; a server that comes to one later does not wait.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pliant.ps import executing
from pliant.ps.dumps import read_pieces, write_pieces
from pliant.ps.node import main
from pliant.ps.pieces import Piece

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


def write(stem: Path, pieces: Iterable[Piece], *, facts: Mapping[str, Any]) -> int:
    if stem.parent.parent.name == "moves":
        come_to("giving", "giving-again")
    else:
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".safetensors").write_bytes(b"half of a dump")
        come_to("dumping")
    size = write_pieces(stem, pieces, facts=facts)
    if stem.parent.parent.name == "moves":
        come_to("given")
    return size


def read(stem: Path) -> Iterator[Piece]:
    for number, piece in enumerate(read_pieces(stem)):
        yield piece
        if not number:
            come_to("taking")


vars(executing).update(write_pieces=write, read_pieces=read)
main()
