"""NumPy files. ``.npy``: a record is a row, read from the mapped file. ``.npz``: a record is a dict of the rows of its arrays.

The arrays of an ``.npz`` are stored compressed or not as one block, so they are loaded whole; use ``.npy`` for what is large.
Files with pickled objects are refused: reading them would run their code. The headers are read here and not by numpy, which
allocates what they declare before it knows that so much is there.
"""

from __future__ import annotations

import ast
import math
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, Literal
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from pliant.core.errors import CorruptData
from pliant.data.contract import Metadata, PartReader
from pliant.data.files import Paths, expand, is_remote, open_binary, stamp

Array = np.ndarray[Any, Any]

MAX_HEAD_BYTES = 10_000  # numpy's own limit
MAX_DEFLATE_RATIO = 1032  # a property of the format
_BLOCK_BYTES = 16 << 20
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    EOFError,
    OSError,
    MemoryError,
    OverflowError,
    RecursionError,
    NotImplementedError,  # zipfile: an unknown compression
    RuntimeError,  # zipfile: an encrypted entry
    BadZipFile,
    zlib.error,
    struct.error,
)


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
        try:
            if isinstance(stored, dict):
                return [{name: array[place] for name, array in stored.items()} for place in positions]
            return [stored[place] for place in positions]
        except (SystemError, ValueError) as error:  # text with characters that do not exist
            raise CorruptData(f"{self._paths[number]}: a record of {positions[:3]}…: {error}") from error


def _load(path: str) -> Array | dict[str, Array]:
    try:
        with open_binary(path) as file:
            return _arrays_of(path, file) if file.read(2) == b"PK" else _array_of(path, file)
    except _DAMAGE as error:
        raise CorruptData(f"{path}: cannot be read as NumPy: {error!s:.1000}") from error


def _array_of(path: str, file: IO[bytes]) -> Array:
    """Of a ``.npy``: mapped where it is local, else read."""
    size = stamp(path).size
    file.seek(0)
    head = _Head.read(file, size)
    if is_remote(path):
        return head.fill(file)
    if not head.nbytes:
        return np.empty(head.shape, head.dtype)
    order: Literal["C", "F"] = "F" if head.fortran else "C"
    return np.memmap(file, head.dtype, "r", head.begin, head.shape, order)


def _arrays_of(path: str, file: IO[bytes]) -> dict[str, Array]:
    """Of a ``.npz``: a zip archive. What its entries declare is compared with what they can hold before memory is allocated."""
    file.seek(0)
    arrays: dict[str, Array] = {}
    with ZipFile(file) as archive:
        entries = archive.infolist()
        _check_sizes(entries, stamp(path).size)
        for entry in entries:
            with archive.open(entry) as stream:
                try:
                    arrays[entry.filename.removesuffix(".npy")] = _Head.read(stream, entry.file_size).fill(stream)
                    if stream.read(1):  # at the end the archive compares the entry's checksum
                        raise ValueError("there are bytes after its array")
                except _DAMAGE as error:
                    raise ValueError(f"{entry.filename}: {error}") from error
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise CorruptData(f"{path}: its arrays must have the same length, not {lengths}")
    return arrays


def _check_sizes(entries: list[ZipInfo], size: int) -> None:
    for entry in entries:
        most = {ZIP_STORED: 1, ZIP_DEFLATED: MAX_DEFLATE_RATIO}.get(entry.compress_type, 0) * entry.compress_size
        if entry.file_size > most:
            raise ValueError(
                f"{entry.filename} cannot have {entry.file_size:,} bytes, stored in {entry.compress_size:,}"
            )
    if sum(entry.compress_size for entry in entries) > size:
        raise ValueError("its entries overlap")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if (total := sum(entry.file_size for entry in entries)) > memory:
        raise ValueError(f"its arrays need {total:,} bytes, the machine has {memory:,}; save them as .npy files")


@dataclass(frozen=True)
class _Head:
    """The beginning of a ``.npy``: what its array is, checked against the bytes that there are."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    begin: int  # of the array, in bytes

    @classmethod
    def read(cls, file: IO[bytes], size: int) -> _Head:
        """``size``: of the whole file or entry, in bytes."""
        magic, major, minor = struct.unpack("<6sBB", _exactly(file, 8))
        if magic != b"\x93NUMPY" or major not in (1, 2, 3) or minor:
            raise ValueError("it does not begin as a .npy file does")
        form = "<H" if major == 1 else "<I"
        (length,) = struct.unpack(form, _exactly(file, struct.calcsize(form)))
        if length > MAX_HEAD_BYTES:
            raise ValueError(f"its header cannot be {length} bytes long")
        text = _exactly(file, length).decode("utf-8" if major == 3 else "latin-1")
        match ast.literal_eval(text.strip()):
            case {"descr": descr, "fortran_order": bool(fortran), "shape": tuple(shape), **rest} if not rest:
                dtype = np.lib.format.descr_to_dtype(descr)
            case _:
                raise ValueError("its header does not describe an array")
        if dtype.hasobject:
            raise ValueError("it has pickled objects, which would run code")
        if len(shape) > 64 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
            raise ValueError(f"an array of shape {shape!r:.200}")
        head = cls(dtype, shape, fortran, 8 + struct.calcsize(form) + length)
        if not shape:
            raise ValueError("a scalar has no records")
        if head.begin + head.nbytes > size or (shape[0] and not head.nbytes):
            raise ValueError(
                f"it declares an array of {shape} with {head.nbytes:,} bytes, {size - head.begin:,} are there"
            )
        return head

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def fill(self, file: IO[bytes]) -> Array:
        """The array, from a file that is at its beginning."""
        flat = np.empty(self.nbytes, np.uint8)
        position = 0
        while position < self.nbytes:
            block = file.read(min(self.nbytes - position, _BLOCK_BYTES))
            if not block:
                raise ValueError(f"it is truncated: {position} of {self.nbytes} bytes of its array")
            flat[position : position + len(block)] = np.frombuffer(block, np.uint8)
            position += len(block)
        array: Array = flat.view(self.dtype)
        return array.reshape(self.shape, order="F" if self.fortran else "C")


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise ValueError("it is truncated inside its header")
    return data
