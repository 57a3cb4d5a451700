"""How large the metric states of one shard may be."""

from __future__ import annotations

from pliant.core.errors import InvalidRequest

MAX_STATE_BYTES = 12 << 20  # of one shard, that the master accepts (master/journal/notes.py)


def check_state_size(size: int, records: int) -> None:
    """Of the packed metric states of a shard of this many records."""
    if size > MAX_STATE_BYTES:
        raise InvalidRequest(
            f"the metric states of {records} records take {size:,} bytes; the maximum for a shard is {MAX_STATE_BYTES:,}",
            hint=f"--eval-shard-size {max(1, records * MAX_STATE_BYTES // (2 * size))} (--shard-size of `pliant evaluate`) "
            "makes shards smaller; a pliant.native.Metric keeps a small state, while a function needs all labels and predictions",
        )
