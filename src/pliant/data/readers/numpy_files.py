"""NumPy files. ``.npy``: a record is a row, read from the mapped file. ``.npz``: a record is a dict of the rows of its arrays.

The arrays of an ``.npz`` are stored compressed or not as one block, so they are loaded whole; use ``.npy`` for what is large.
Files with pickled objects are refused: reading them would run their code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pliant.core.errors import CorruptData
from pliant.data.contract import Metadata, PartReader
from pliant.data.files import Paths, expand, is_remote, open_binary

Array = np.ndarray[Any, Any]


class NumpyReader(PartReader):
    def __init__(self, paths: Paths) -> None:
        self._paths = expand(paths)

    def __reduce__(self) -> tuple[Any, ...]:
        return NumpyReader, (self._paths,)

    @cached_property
    def _arrays(self) -> list[Array | dict[str, Array]]:
        return [_load(path) for path in self._paths]

    @property
    def metadata(self) -> Metadata:
        first = self._arrays[0]
        if isinstance(first, dict):
            return Metadata("numpy", tuple(first), {name: str(array.dtype) for name, array in first.items()})
        return Metadata("numpy")

    def create_shards(self) -> Mapping[str, int]:
        sizes = (len(next(iter(a.values()))) if isinstance(a, dict) else len(a) for a in self._arrays)
        return dict(zip(self._paths, sizes, strict=True))

    def read_part(self, number: int, start: int, stop: int) -> Iterable[Any]:
        return self.gather_part(number, list(range(start, stop)))

    def gather_part(self, number: int, positions: list[int]) -> Sequence[Any]:
        stored = self._arrays[number]
        if isinstance(stored, dict):
            return [{name: array[place] for name, array in stored.items()} for place in positions]
        return [stored[place] for place in positions]


def _load(path: str) -> Array | dict[str, Array]:
    try:
        if is_remote(path):
            with open_binary(path) as file:
                return _whole(path, np.load(file, allow_pickle=False))
        return _whole(path, np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise CorruptData(f"{path}: cannot be read as NumPy: {error}") from error


def _whole(path: str, loaded: Any) -> Array | dict[str, Array]:
    if isinstance(loaded, np.ndarray):
        if loaded.ndim == 0:
            raise CorruptData(f"{path}: a scalar has no records")
        return loaded
    with loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise CorruptData(f"{path}: its arrays must have the same length, not {lengths}")
    return arrays
