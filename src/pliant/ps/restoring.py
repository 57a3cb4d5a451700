"""What a server begins with: the newest complete dump, and what was staged on its seat since.

``Beginning`` is what the master says of that dump when a server takes a seat. If a file of it is missing, cut or damaged, an
older complete dump is used, and it is said what that means: the updates in between are gone for the rows of this seat.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core.errors import CorruptData
from pliant.core.ps_map import PsMap
from pliant.ps.dumps import load
from pliant.ps.files import complete_dumps, dump_folder, read_manifest
from pliant.ps.merging import partitions_of
from pliant.ps.pieces import BlockState, Ownership, Piece, RowBatch
from pliant.ps.specs import spec_from_json
from pliant.ps.store import ParameterStore
from pliant.rpc import pliant_pb2 as pb


@dataclass(frozen=True)
class Beginning:
    """Of a seat, at the order ``base``."""

    seat: int
    tenure: int
    base: int
    last: int  # the newest order when the seat was taken
    restore_from: str
    map: PsMap
    specs: tuple[dict[str, Any], ...]
    iteration: int
    partitions: int

    @classmethod
    def from_message(cls, reply: pb.JoinSeatReply) -> Beginning:
        state = json.loads(reply.state)
        return cls(
            reply.seat,
            reply.tenure,
            reply.base,
            reply.last,
            reply.restore_from,
            PsMap.from_json(state["map"]),
            (*state["tables"], *state["variables"]),
            state["iteration"],
            reply.partitions,
        )


def ownership(parameter_map: PsMap, seat: int) -> Ownership:
    owned = np.array([owner == seat for owner in parameter_map.partitions], np.uint8)
    return Ownership(parameter_map.version, owned, frozenset(parameter_map.blocks_of(seat)))


def restored(begin: Beginning, folder: Path, say: Callable[[str], None]) -> ParameterStore:
    """A store as it was after the order ``base``."""
    store = ParameterStore(partitions=begin.partitions)
    for spec in begin.specs:
        store.define(spec_from_json(spec))
    owned = ownership(begin.map, begin.seat)
    store.own(owned)
    if begin.base:
        _load(store, owned, dump_folder(folder, begin.base), begin, say)
    elif begin.restore_from:
        store.import_(load(Path(begin.restore_from), None, filtered(store, owned)))
    store.reset(begin.iteration)
    return store


def filtered(store: ParameterStore, owned: Ownership) -> Callable[[Piece], Piece | None]:
    """What of a piece belongs here."""

    def keep(piece: Piece) -> Piece | None:
        if isinstance(piece, BlockState):
            known = store.spec_of(piece.variable) is not None
            return piece if known and owned.owns_block(piece.variable, piece.block) else None
        if store.spec_of(piece.table) is None or not piece.ids.size:
            return None
        mask = owned.partitions[partitions_of(piece.table, piece.ids, store.partitions)].astype(bool)
        if mask.all() or not isinstance(piece, RowBatch):
            return piece
        return RowBatch(piece.table, piece.ids[mask], piece.data[mask], piece.counters[mask]) if mask.any() else None

    return keep


def _load(store: ParameterStore, owned: Ownership, dump: Path, begin: Beginning, say: Callable[[str], None]) -> None:
    keep = filtered(store, owned)
    try:
        store.import_(load(dump, begin.seat, keep))
        return
    except CorruptData as error:
        say(f"the newest dump cannot be read: {error.message}")
    everything = list(range(store.partitions))
    for older in complete_dumps(dump.parent):
        if int(older.name) >= begin.base:
            continue
        store.drop(everything, begin.map.blocks_of(begin.seat))
        try:
            store.import_(load(older, None, keep))
        except CorruptData as error:
            say(f"an older dump cannot be read either: {error.message}")
            continue
        iteration = read_manifest(older)["iteration"]
        say(
            f"seat {begin.seat} goes on from the dump {older} of iteration {iteration:,}: of its parameters, the updates "
            f"from there to iteration {begin.iteration:,} are lost"
        )
        return
    store.drop(everything, begin.map.blocks_of(begin.seat))
    say(f"seat {begin.seat} begins with empty tables: no dump can be read, and what it had is lost")
