"""Parts of a checkpoint, read to where they are wanted: every byte arrives, and every damaged byte is noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.checkpoint import part_bytes
from pliant.checkpoint.checksums import crc32
from pliant.checkpoint.part_bytes import PIECE, PartBytes, Wanted
from pliant.core.errors import CorruptData


def sums_of(data: bytes, chunk: int) -> list[int]:
    return [crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]


def cut(size: int, dice: random.Random) -> list[tuple[int, int]]:
    """Ranges that do not overlap, with gaps between some, in any order."""
    marks = sorted(dice.sample(range(size + 1), min(size + 1, 2 * dice.randrange(1, 6))))
    ranges = [(a, b) for a, b in zip(marks[::2], marks[1::2], strict=False) if a < b]
    dice.shuffle(ranges)
    return ranges


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 1500), st.booleans(), st.integers(0, 2**32))
def test_each_range_arrives_and_each_damage_is_located(
    tmp_path_factory: pytest.TempPathFactory, size: int, chunk: int, is_file: bool, seed: int
) -> None:
    dice = random.Random(seed)
    data = dice.randbytes(size)
    sums = sums_of(data, chunk)
    damaged_at = dice.randrange(size) if dice.random() < 0.5 else None
    stored = bytearray(data)
    if damaged_at is not None:
        stored[damaged_at] ^= 1 << dice.randrange(8)
    target = torch.zeros(size, dtype=torch.uint8)
    ranges = cut(size, dice)
    wanted = [Wanted(a, b - a, target.data_ptr() + a) for a, b in ranges]
    if is_file:
        file = tmp_path_factory.getbasetemp() / "part"
        file.write_bytes(stored)
        with file.open("rb") as opened:
            found = PartBytes(memoryview(stored), opened.fileno(), "part").copy_checked(wanted, sums, chunk)
    else:
        found = PartBytes(memoryview(stored), None, "part").copy_checked(wanted, sums, chunk)
    if damaged_at is None:
        assert found is None
    else:
        begin = damaged_at // chunk * chunk
        assert found == (begin, min(begin + chunk, size))
    got = target.numpy().tobytes()
    inside = {at for a, b in ranges for at in range(a, b)}
    assert all(got[at] == (stored[at] if at in inside else 0) for at in range(size))


def test_large_ranges_are_shared_by_two_threads_and_arrive_whole(tmp_path: Path) -> None:
    size = 24 * PIECE + 12345
    data = random.Random(1).randbytes(size)
    file = tmp_path / "part"
    file.write_bytes(data)
    target = torch.zeros(size, dtype=torch.uint8)
    half = size // 3
    wanted = [Wanted(half, size - half, target.data_ptr() + half), Wanted(0, half, target.data_ptr())]
    with file.open("rb") as opened:
        part = PartBytes(memoryview(data), opened.fileno(), "part")
        assert part.copy_checked(wanted, sums_of(data, 3 << 20), 3 << 20) is None
        assert target.numpy().tobytes() == data
        target.zero_()
        part.copy(wanted)
    assert target.numpy().tobytes() == data


@pytest.mark.parametrize("size", [100, 20 * PIECE])
def test_a_file_that_is_truncated_meanwhile_is_an_error(tmp_path: Path, size: int) -> None:
    file = tmp_path / "part"
    file.write_bytes(bytes(size // 2))
    target = torch.zeros(size, dtype=torch.uint8)
    with file.open("rb") as opened:
        part = PartBytes(memoryview(bytes(size)), opened.fileno(), "part")
        with pytest.raises(CorruptData, match="truncated"):
            part.copy([Wanted(0, size, target.data_ptr())])


def test_checksums_of_another_number_of_chunks_are_damage() -> None:
    assert PartBytes(memoryview(b"abc"), None, "part").copy_checked([], [1, 2], 3) == (0, 3)


def test_memory_is_advised_only_within_the_range() -> None:
    tensor = torch.empty(5 << 20, dtype=torch.uint8)
    part_bytes.advise_huge_pages(tensor.data_ptr(), tensor.nbytes)
    part_bytes.advise_huge_pages(tensor.data_ptr(), 100)
    tensor.fill_(7)
    assert int(tensor.sum()) == 7 * tensor.numel()
