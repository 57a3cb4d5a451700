"""Counts in sentences for people: ``1 worker``, ``2 workers``."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """``plural``: for nouns that do not just take an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
