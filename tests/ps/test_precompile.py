"""An image that compiled the loops beforehand compiles nothing when a server runs."""

from __future__ import annotations

import subprocess
import sys

# Loops with an underscore in kernels are parts of others and compiled with them.
PRINT_WHAT_IS_NOT_COMPILED = """
from numba.core.dispatcher import Dispatcher
from pliant.ps import precompile as compiling
from pliant.ps.store import kernels
from pliant.ps.compiled import merging
compiling.compile_loops()
loops = [
    loop
    for module in (kernels, merging)
    for name, loop in vars(module).items()
    if isinstance(loop, Dispatcher) and loop.__module__ == module.__name__ and (module is merging or name[0] != "_")
]
print(len(loops) > 12, sorted(loop.__name__ for loop in loops if not loop.signatures))
"""


def test_every_loop_is_compiled_beforehand() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINT_WHAT_IS_NOT_COMPILED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True []\n"
