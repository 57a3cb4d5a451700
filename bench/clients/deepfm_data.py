"""A click log as the peers of ``bench/deepfm.py`` read it: whole batches as they lie in a file, with nothing to parse.

``pack`` writes one record after the other: seven row numbers (user, item, hour, four tags; all fields share one table, the last row
stands for no tag) as int64, then age and click as float32. Reading that costs a peer next to nothing, which is to its advantage:
Pliant reads Parquet in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FIELDS, TAGS, HOURS = 7, 4, 24
RECORD_BYTES = 8 * FIELDS + 2 * 4
LEARNING_RATE, EPSILON, DIM = 0.05, 1e-10, 8  # of Adagrad; floats of a vector
LAYERS = ((FIELDS * DIM + 1, 32), (32, 16), (16, 1))
INITIAL = 0.05  # vectors begin uniform between minus this and this, first-order weights at zero
WARM_UP = 0.2  # of the records: what is before is not measured


@dataclass(frozen=True)
class Sizes:
    """Of the click log: how many ids there are of each kind."""

    users: int
    items: int
    tags: int

    @property
    def rows(self) -> int:
        """Of the table, without the one for no tag."""
        return self.users + self.items + HOURS + self.tags


def pack(parquet: Path, target: Path, sizes: Sizes) -> int:
    """Returns the number of records."""
    import pyarrow.parquet as pq

    table = pq.read_table(parquet)
    count = table.num_rows
    ids = np.full((count, FIELDS), sizes.rows, np.int64)
    ids[:, 0] = table["user"].to_numpy()
    ids[:, 1] = sizes.users + table["item"].to_numpy()
    ids[:, 2] = sizes.users + sizes.items + table["hour"].to_numpy()
    first_tag = sizes.users + sizes.items + HOURS
    for number, tags in enumerate(table["tags"].to_pylist()):
        ids[number, 3 : 3 + len(tags)] = [first_tag + tag for tag in tags]
    packed = np.empty((count, RECORD_BYTES), np.uint8)
    packed[:, : 8 * FIELDS] = ids.view(np.uint8)
    numbers = np.stack([table["age"].to_numpy(), table["click"].to_numpy()], axis=1).astype(np.float32)
    packed[:, 8 * FIELDS :] = numbers.view(np.uint8)
    packed.tofile(target)
    return count


def unpack(path: Path) -> tuple[Any, Any, Any]:
    """Row numbers, age and click of all records."""
    packed = np.fromfile(path, np.uint8).reshape(-1, RECORD_BYTES)
    ids = np.ascontiguousarray(packed[:, : 8 * FIELDS]).view(np.int64)
    numbers = np.ascontiguousarray(packed[:, 8 * FIELDS :]).view(np.float32)
    return ids, np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1])


def log_loss(logits: Any, clicks: Any) -> float:
    """The mean, of NumPy arrays."""
    return float(np.mean(np.logaddexp(0, logits) - clicks * logits))
