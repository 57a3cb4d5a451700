"""A synthetic click log for models with huge embedding tables: made on the spot, the same for the same seed.

    python -m pliant.native.click_log clicks 20000

A record has ``user`` (one of 50 million), ``item`` (one of 5 million), ``tags`` (up to four of a million), ``hour`` (0 to 23),
``age`` (0 to 1) and ``click`` (0 or 1). A few ids are in many records and most in few, as in real logs. Whether a record is a
click follows
from hidden tastes of user, item and tags, with noise, so there is something to learn.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core.shares import floor_share

USERS, ITEMS, TAGS = 50_000_000, 5_000_000, 1_000_000
MAX_TAGS = 4
POPULAR = 400  # ids of each kind that half of the records have


def _ids(random: Any, count: int, maximum: int) -> Any:
    """Half of them popular; spread over the whole range."""
    popular = random.integers(0, POPULAR, count)
    rare = random.integers(0, maximum, count)
    return np.where(random.random(count) < 0.5, popular * (maximum // POPULAR), rare)


def _taste(ids: Any, salt: int) -> Any:
    """A number from -1 to 1 that belongs to an id."""
    mixed = (ids.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(40)).astype(np.float64) / 2**23 - 1


def write_click_log(
    folder: Path,
    records: int = 4000,
    *,
    test: float = 0.2,
    seed: int = 0,
    users: int = USERS,
    items: int = ITEMS,
    tags: int = TAGS,
) -> None:
    """``train.parquet``, and ``test.parquet`` with a share of the records."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(seed)
    user, item = _ids(random, records, users), _ids(random, records, items)
    lengths = random.integers(0, MAX_TAGS + 1, records)
    tag_lists = [_ids(random, int(n), tags).tolist() for n in lengths]
    hour, age = random.integers(0, 24, records), random.random(records)
    liking = np.array([_taste(np.array(some), 3).sum() if some else 0.0 for some in tag_lists])
    score = 2 * _taste(user, 1) + 2 * _taste(item, 2) + 0.5 * liking + np.sin(hour / 24 * 2 * np.pi) + age - 0.5
    click = (random.random(records) < 1 / (1 + np.exp(-2 * score))).astype(np.int64)
    columns = {
        "user": user,
        "item": item,
        "tags": tag_lists,
        "hour": hour,
        "age": age.astype(np.float32),
        "click": click,
    }
    table = pa.table(columns, schema=_schema(pa))
    first = records - floor_share(test, records)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.slice(0, first), folder / "train.parquet", row_group_size=1024)
    pq.write_table(table.slice(first), folder / "test.parquet", row_group_size=1024)


def _schema(pa: Any) -> Any:
    kinds = {"user": pa.int64(), "item": pa.int64(), "tags": pa.list_(pa.int64()), "hour": pa.int64()}
    return pa.schema({**kinds, "age": pa.float32(), "click": pa.int64()})


if __name__ == "__main__":
    write_click_log(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4000)
