"""Data for model files under test: points on a line, and whether they are positive."""

from __future__ import annotations

from pathlib import Path


def make_points(path: Path, count: int, *, first: int = 0) -> Path:
    """A CSV file of ``id,x,label``; a label says whether x is positive."""
    rows = [f"{i},{((i * 37) % 101 - 50) / 50},{int((i * 37) % 101 > 50)}" for i in range(first, first + count)]
    path.write_text("\n".join(["id,x,label", *rows]) + "\n")
    return path
