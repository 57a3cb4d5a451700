"""What was compiled beforehand is used where nothing can be written beside it, as in a Pod."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from pliant.ps.compiled.merging import partitions_of

PROGRAM = """
import numpy as np
from pliant.ps.compiled import merging
merging.partitions_of("rows", np.arange(10, dtype=np.int64))
stats = merging._partitions.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), stats.cache_path)
"""


def test_loops_that_were_compiled_beforehand_are_not_compiled_again_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    partitions_of("rows", np.arange(10, dtype=np.int64))  # compiled, beside the source
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    hits, misses, place = done.stdout.split()
    assert (hits, misses) == ("1", "0")
    assert Path(place).is_relative_to(tmp_path)
