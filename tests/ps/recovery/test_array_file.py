"""A safetensors file that is written array by array is what the library reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from pliant.ps.recovery.array_file import write_arrays

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "0.data": np.arange(3, dtype=np.float32).reshape(3, 1),  # what follows does not begin at a multiple of eight bytes
    "0.ids": np.array([7, 2**62], np.int64),
    "1.counters": np.arange(8, dtype=np.uint32).reshape(4, 2)[::2],
    "2.ids": np.empty(0, np.int64),
}


@pytest.mark.parametrize("expected", [0, 4, 1000])
def test_arrays_come_back_however_many_were_expected(tmp_path: Path, expected: int) -> None:
    path = tmp_path / "arrays"
    assert write_arrays(path, iter(ARRAYS.items()), expected=expected) == path.stat().st_size
    found = load_file(path)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    assert list(tmp_path.iterdir()) == [path]


def test_no_array_is_a_file_too(tmp_path: Path) -> None:
    write_arrays(tmp_path / "arrays", [], expected=0)
    assert load_file(tmp_path / "arrays") == {}
