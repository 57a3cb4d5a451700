"""The help of a command, from the docstring of its module."""

from __future__ import annotations

import inspect


def keep_examples(text: str) -> str:
    """Indented paragraphs are examples; the help must not wrap them."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(f"\b\n{p}" if p.startswith("    ") else p for p in paragraphs)
