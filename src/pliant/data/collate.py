"""From a list of records to one batch, for NumPy and JAX: numbers and arrays are stacked, structures are followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pliant.core.errors import InvalidRequest


def stack(records: Sequence[Any]) -> Any:
    """Dicts become a dict of batches, tuples a tuple of batches, arrays and numbers an array; all else stays a list."""
    first = records[0]
    if isinstance(first, dict):
        return {name: stack([record[name] for record in records]) for name in first}
    if isinstance(first, tuple):
        return tuple(stack(column) for column in zip(*records, strict=True))
    if isinstance(first, (np.ndarray, np.generic, bool, int, float, complex)):
        return _array(records)
    return list(records)


def _array(records: Sequence[Any]) -> Any:
    try:
        return np.stack([np.asarray(record) for record in records])
    except ValueError as error:
        shapes = sorted({np.shape(record) for record in records})
        raise InvalidRequest(
            f"records of shapes {shapes} cannot be stacked into one array",
            hint="pad or resize them to one shape in dataset_fn, or pass collate=",
        ) from error
