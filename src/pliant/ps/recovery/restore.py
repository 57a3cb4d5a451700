"""The state that a server starts with: the newest complete dump, as the master describes it (``RestorePoint``).

If a file of that dump is missing, truncated or damaged, an older complete dump is used, and an event says what that means: the
updates in between are lost for the parameters of this seat.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pliant.core.errors import CorruptData, InvalidRequest, NotFound
from pliant.core.parameters.dumps import RestorePoint
from pliant.core.parameters.partition_map import PartitionMap
from pliant.ps.compiled.merging import partitions_of
from pliant.ps.files import complete_dumps, dump_folder, read_manifest
from pliant.ps.payloads import BlockState, Ownership, RowBatch, StateChunk
from pliant.ps.recovery.dumps import load
from pliant.ps.specs import spec_from_json
from pliant.ps.store.store import ParameterStore

DAMAGE = (CorruptData, InvalidRequest, NotFound)
"""A file that is not what was written, or state that the store refuses: of another width, with NaN."""


def ownership(parameter_map: PartitionMap, seat: int) -> Ownership:
    owned = np.array([owner == seat for owner in parameter_map.partitions], np.uint8)
    return Ownership(parameter_map.version, owned, frozenset(parameter_map.blocks_of(seat)))


def restored(point: RestorePoint, folder: Path, report: Callable[[str], None]) -> ParameterStore:
    """A store as it was after the order ``base``."""
    store = ParameterStore(partitions=len(point.map.partitions))
    for spec in (*point.tables, *point.variables):
        store.define(spec_from_json(dict(spec)))
    owned = ownership(point.map, point.seat)
    store.own(owned)
    if point.base:
        _load(store, owned, dump_folder(folder, point.base), point, report)
    elif point.restore_from:
        store.import_(load(Path(point.restore_from), None, filtered(store, owned)))
    store.reset(point.iteration)
    return store


def filtered(store: ParameterStore, owned: Ownership) -> Callable[[StateChunk], StateChunk | None]:
    """What of a chunk belongs here."""

    def keep(chunk: StateChunk) -> StateChunk | None:
        if isinstance(chunk, BlockState):
            known = store.spec_of(chunk.variable) is not None
            return chunk if known and owned.owns_block(chunk.variable, chunk.block) else None
        if store.spec_of(chunk.table) is None or not chunk.ids.size:
            return None
        mask = owned.partitions[partitions_of(chunk.table, chunk.ids, store.partitions)].astype(bool)
        if mask.all() or not isinstance(chunk, RowBatch):
            return chunk
        return RowBatch(chunk.table, chunk.ids[mask], chunk.data[mask], chunk.counters[mask]) if mask.any() else None

    return keep


def _load(
    store: ParameterStore, owned: Ownership, dump: Path, point: RestorePoint, report: Callable[[str], None]
) -> None:
    keep = filtered(store, owned)
    try:
        store.import_(load(dump, point.seat, keep))
        return
    except DAMAGE as error:
        report(f"cannot read the latest dump: {error.message}")
    everything = list(range(store.partitions))
    for older in complete_dumps(dump.parent):
        if int(older.name) >= point.base:
            continue
        store.drop(everything, point.map.blocks_of(point.seat))
        try:
            store.import_(load(older, None, keep))
            iteration = read_manifest(older).iteration
        except DAMAGE as error:
            report(f"cannot read an older dump either: {error.message}")
            continue
        report(
            f"seat {point.seat} continues from the dump {older} of iteration {iteration:,}: updates of its "
            f"parameters up to iteration {point.iteration:,} are lost"
        )
        return
    store.drop(everything, point.map.blocks_of(point.seat))
    report(f"seat {point.seat} starts with empty tables: no dump can be read, so its state is lost")
