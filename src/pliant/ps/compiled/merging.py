"""Compiled loops over ids and gradients that need no table: merge by id, group by seat, look for NaN, sum up for a log.

Both ends use them: a client groups and merges what it sends, a store merges what several workers sent for one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS
from pliant.ps.compiled.memory import address_of, carray, compiled, compiled_in_any_order, hash_of, pointer
from pliant.ps.payloads import Floats, Ids
from pliant.ps.placement import key_of

_PRIME = np.uint64(0x9E3779B185EBCA87)
_EVEN = np.uint64(0xC2B2AE3D27D4EB4F)
_R31, _R33 = np.uint64(31), np.uint64(33)


@compiled_in_any_order
def _first_bad(address: Any, count: Any) -> Any:
    """Zero times a number is zero, and NaN times anything or zero times infinity is NaN: one sum checks many numbers."""
    zero = np.float32(0)
    for first in range(0, count, 4096):
        part = carray(pointer(address + 4 * first), (min(4096, count - first),), np.float32)
        total = zero
        for i in range(part.size):
            total += part[i] * zero
        if total != zero:
            for i in range(part.size):
                if part[i] * zero != zero:
                    return first + i
    return -1


@compiled_in_any_order
def _copy_finite(source: Any, target: Any, count: Any) -> Any:
    zero = np.float32(0)
    finite = True
    for first in range(0, count, 4096):
        size = min(4096, count - first)
        old = carray(pointer(source + 4 * first), (size,), np.float32)
        new = carray(pointer(target + 4 * first), (size,), np.float32)
        for i in range(size):
            new[i] = old[i]
        total = zero
        for i in range(size):
            total += new[i] * zero
        finite = finite and total == zero
    return finite


def copy_finite(source: int, target: int, count: int) -> bool:
    """Copy ``count`` floats between two addresses; False if there is a NaN or an infinity in what was copied."""
    return bool(_copy_finite(source, target, count))


def first_not_finite(values: npt.NDArray[np.float32]) -> int:
    """The place of the first NaN or infinity in a contiguous array, or -1."""
    return int(_first_bad(address_of(values), values.size))


@compiled
def _checksum(address: Any, size: Any, seed: Any) -> Any:
    words = carray(pointer(address), (size >> 3,), np.uint64)
    rest = carray(pointer(address), (size,), np.uint8)
    a = np.uint64(seed)
    b, c, d = a + _PRIME, a ^ _EVEN, a - _PRIME
    whole = words.size & ~3
    for i in range(0, whole, 4):  # four at a time: one multiplication need not wait for the one before it
        a = (a ^ words[i]) * _PRIME
        b = (b ^ words[i + 1]) * _PRIME
        c = (c ^ words[i + 2]) * _PRIME
        d = (d ^ words[i + 3]) * _PRIME
        a = (a << _R31) | (a >> _R33)
        b = (b << _R31) | (b >> _R33)
        c = (c << _R31) | (c >> _R33)
        d = (d << _R31) | (d >> _R33)
    for i in range(8 * whole, size):
        a = (a ^ np.uint64(rest[i])) * _PRIME
        a = (a << _R31) | (a >> _R33)
    return hash_of(hash_of(hash_of(a) ^ b) ^ hash_of(hash_of(c) ^ d) ^ np.uint64(size))


def checksum(data: bytes | bytearray | memoryview, seed: int = 0) -> int:
    """64 bits that detect damaged bytes; not cryptographic. Begins with that of other bytes
    as its ``seed``. A tenth of the time of zlib's CRC."""
    view = np.frombuffer(data, np.uint8)
    return int(_checksum(address_of(view), view.size, np.uint64(seed)))


@compiled
def _partitions(ids: Any, salt: Any, partitions: Any, out: Any) -> None:
    for i in range(ids.size):
        out[i] = np.int64(hash_of(np.uint64(ids[i]) ^ np.uint64(salt)) % np.uint64(partitions))


def partitions_of(table: str, ids: Ids, partitions: int = DEFAULT_PARTITIONS) -> Ids:
    """The partition of each row; ``placement.partition_of`` for many."""
    out = np.empty(ids.size, np.int64)
    _partitions(ids, np.uint64(key_of(table)), partitions, out)
    return out


@compiled
def _unique(ids: Any, unique: Any, number: Any, slots: Any, count: Any) -> Any:
    """Number the distinct ids in the order in which they first come, on from the ``count`` that are in ``unique``."""
    mask = slots.size - 1
    for i in range(ids.size):
        place = np.int64(hash_of(np.uint64(ids[i])) & np.uint64(mask))
        while slots[place] >= 0 and unique[slots[place]] != ids[i]:
            place = (place + 1) & mask
        if slots[place] < 0:
            slots[place] = count
            unique[count] = ids[i]
            count += 1
        number[i] = slots[place]
    return count


@compiled
def _sum_rows(number: Any, source: Any, target: Any, weight: Any, dim: Any) -> None:
    """target[number[i]] += weight * source[i], rows of ``dim`` floats, ``source`` by its address."""
    rows = carray(pointer(source), (number.size * dim,), np.float32)
    w = np.float32(weight)
    for i in range(number.size):
        row = rows[i * dim : (i + 1) * dim]
        total = target[number[i] * dim : (number[i] + 1) * dim]
        for k in range(dim):
            total[k] += w * row[k]


def _slots(count: int) -> npt.NDArray[np.int32]:
    return np.full(1 << max(4, (2 * count - 1).bit_length()), -1, np.int32)


@compiled
def _unique_by_seat(ids: Any, places: Any, grouped: Any, counts: Any, owner: Any, salt: Any) -> Any:
    """Distinct ids, sorted by the seat that owns their partition; ``places`` numbers the given ones by their new places."""
    size = 16
    while size < 2 * ids.size:
        size *= 2
    unique = np.empty(ids.size, np.int64)
    count = _unique(ids, unique, places, np.full(size, -1, np.int32), 0)
    seats = np.empty(count, np.int32)
    for i in range(count):
        partition = np.int64(hash_of(np.uint64(unique[i]) ^ np.uint64(salt)) % np.uint64(owner.size))
        seats[i] = owner[partition]
        counts[seats[i]] += 1
    next_places = np.zeros(counts.size, np.int64)
    for seat in range(1, counts.size):
        next_places[seat] = next_places[seat - 1] + counts[seat - 1]
    moved = np.empty(count, np.int32)
    for i in range(count):
        moved[i] = next_places[seats[i]]
        grouped[moved[i]] = unique[i]
        next_places[seats[i]] += 1
    for i in range(ids.size):
        places[i] = moved[places[i]]
    return count


def group_by_seat(
    table: str, ids: Ids, owner: npt.NDArray[np.int32], seats: int
) -> tuple[Ids, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Distinct ids, sorted by the seat that owns them; how many each seat has; and for each given id its place among them.

    ``owner[p]`` is the seat of partition p. With the answer's rows in the same order, ``rows[places]`` is what was asked for.
    """
    places = np.empty(ids.size, np.int32)
    grouped = np.empty(ids.size, np.int64)
    counts = np.zeros(seats, np.int64)
    count = _unique_by_seat(ids, places, grouped, counts, owner, np.uint64(key_of(table)))
    return grouped[:count], counts, places


@compiled
def _sum_by_seat(places: Any, source: Any, counts: Any, targets: Any, dim: Any) -> None:
    rows = carray(pointer(source), (places.size * dim,), np.float32)
    total = counts.sum()
    addresses = np.empty(total, np.int64)
    first = 0
    for seat in range(counts.size):
        for i in range(counts[seat]):
            addresses[first + i] = targets[seat] + 4 * dim * i
        first += counts[seat]
    seen = np.zeros(total, np.uint8)
    for i in range(places.size):
        row = rows[i * dim : (i + 1) * dim]
        target = carray(pointer(addresses[places[i]]), (dim,), np.float32)
        if seen[places[i]]:
            for k in range(dim):
                target[k] += row[k]
        else:
            seen[places[i]] = 1
            for k in range(dim):
                target[k] = row[k]


def sum_by_seat(
    places: npt.NDArray[np.int32], gradients: Floats, counts: npt.NDArray[np.int64], targets: Sequence[Floats]
) -> None:
    """Add up gradients of the same id, as ``group_by_seat`` has placed and counted them, into an array of each seat."""
    addresses = np.array([address_of(target) for target in targets], np.int64)
    _sum_by_seat(places, address_of(gradients), counts, addresses, gradients.shape[1])


def merge(parts: list[tuple[Ids, Floats, float]], dim: int) -> tuple[Ids, Floats]:
    """Distinct ids of several contributions, and for each the sum of weight times gradient."""
    total = sum(ids.size for ids, _, _ in parts)
    unique = np.empty(total, np.int64)
    slots = _slots(total)
    numbers = []
    count = 0
    for ids, _, _ in parts:
        number = np.empty(ids.size, np.int32)
        count = _unique(ids, unique, number, slots, count)
        numbers.append(number)
    merged = np.zeros((count, dim), np.float32)
    for number, (_, gradients, weight) in zip(numbers, parts, strict=True):
        _sum_rows(number, address_of(gradients), merged.reshape(-1), weight, dim)
    return unique[:count], merged


def distinct(ids: Ids, padding: int | None = None) -> tuple[Ids, npt.NDArray[np.int32]]:
    """The distinct ids, in the order in which they first come, and for each given one its place among them; -1 for the padding,
    which is not among them."""
    is_row = np.ones(ids.size, np.bool_) if padding is None else ids != padding
    rows = ids[is_row]
    unique, place = np.empty(rows.size, np.int64), np.empty(rows.size, np.int32)
    count = _unique(rows, unique, place, _slots(rows.size), 0)
    number = np.full(ids.size, -1, np.int32)
    number[is_row] = place
    return unique[:count], number


@compiled
def _take_rows(number: Any, source: Any, target: Any, dim: Any) -> None:
    out = carray(pointer(target), (number.size * dim,), np.float32)
    for i in range(number.size):
        place = np.int64(number[i])
        if place < 0:
            for k in range(dim):
                out[i * dim + k] = 0
        else:
            row = carray(pointer(source + 4 * dim * place), (dim,), np.float32)
            for k in range(dim):
                out[i * dim + k] = row[k]


def take_rows(number: npt.NDArray[np.int32], source: Floats, target: Floats) -> None:
    """target[i] = source[number[i]], zeros where that is -1. Both contiguous, of rows of one length."""
    _take_rows(number, address_of(source), address_of(target), source.shape[1])


@compiled
def _add_rows(number: Any, source: Any, target: Any, dim: Any) -> None:
    rows = carray(pointer(source), (number.size * dim,), np.float32)
    for i in range(number.size):
        if number[i] >= 0:
            total = carray(pointer(target + 4 * dim * np.int64(number[i])), (dim,), np.float32)
            for k in range(dim):
                total[k] += rows[i * dim + k]


def add_rows(number: npt.NDArray[np.int32], source: Floats, target: Floats) -> None:
    """target[number[i]] += source[i], nothing where that is -1. Both contiguous, of rows of one length."""
    _add_rows(number, address_of(source), address_of(target), source.shape[1])


def add_scaled(total: Floats, values: Floats, weight: float) -> None:
    """total += weight * values, both flat and contiguous."""
    _sum_rows(np.zeros(1, np.int32), address_of(values), total, weight, total.size)
