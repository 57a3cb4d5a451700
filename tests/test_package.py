"""The package as a program first meets it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "numpy", "numba", "grpc", "pydantic", "kubernetes", "kopf", "ray", "typer", "rich", "pyarrow")


def test_importing_pliant_loads_no_library() -> None:
    program = f"import pliant, sys; print([name for name in {HEAVY} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_every_public_name_can_be_imported() -> None:
    import pliant
    import pliant.native

    for package in (pliant, pliant.native):
        for name in package.__all__:
            assert getattr(package, name) is not None
