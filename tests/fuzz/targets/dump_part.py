"""What one seat dumped: its JSON, and the arrays with a checksum that matches."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.core.parameters.partition_map import PartitionMap
from pliant.ps.payloads import BlockState, Evicted, RowBatch, StateChunk
from pliant.ps.recovery.dumps import read_chunks, write_chunks
from pliant.ps.recovery.restore import filtered, ownership
from pliant.ps.specs import DenseSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore

LENGTH = 4  # bytes before the JSON: its length


class Fuzz:
    """The input is the length of the JSON, the JSON, and the arrays."""

    name = "dump_part"

    def seeds(self) -> list[bytes]:
        rows = RowBatch("t", np.arange(4), np.ones((4, 6), np.float32), np.zeros((4, 2), np.uint32))
        chunks: list[StateChunk] = [
            Evicted("t", np.arange(3)),
            rows,
            BlockState("v", 0, np.ones((1, 6), np.float32), 1),
        ]
        with TemporaryDirectory() as folder:
            write_chunks(Path(folder) / "seat-0", chunks, facts={"order": 9})
            facts = (Path(folder) / "seat-0.json").read_bytes()
            arrays = next(Path(folder).glob("*.safetensors")).read_bytes()
        return [len(facts).to_bytes(LENGTH, "little") + facts + arrays]

    def check(self, data: bytes, folder: Path) -> None:
        length = int.from_bytes(data[:LENGTH], "little")
        facts, arrays = data[LENGTH : LENGTH + length], data[LENGTH + length :]
        try:
            value = {
                **json.loads(facts),
                "bytes": len(arrays),
                "crc32": zlib.crc32(arrays),
                "file": "seat-0.safetensors",
            }
            facts = json.dumps(value).encode()
        except (ValueError, TypeError, RecursionError):
            pass  # as it is
        (folder / "seat-0.json").write_bytes(facts)
        (folder / "seat-0.safetensors").write_bytes(arrays)
        store = ParameterStore(partitions=16)
        store.define(TableSpec("t", 3, optimizer=OptimizerSpec("adagrad")))
        store.define(DenseSpec("v", (2, 3)))
        owned = ownership(PartitionMap(1, (0,) * 16, {"v": (0,)}, {"v": 6}), 0)
        store.own(owned)
        keep = filtered(store, owned)
        store.import_(kept for chunk in read_chunks(folder / "seat-0") if (kept := keep(chunk)) is not None)
