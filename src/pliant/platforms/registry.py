"""Platforms by name: the built-in ones, and those that other packages add by entry point ``pliant.platforms``."""

from __future__ import annotations

from importlib.metadata import entry_points

from pliant.core.errors import NotAvailable, NotFound
from pliant.platforms.base import Platform

GROUP = "pliant.platforms"


def platform_names() -> list[str]:
    return sorted({entry.name for entry in entry_points(group=GROUP)} | {"local"})


def make_platform(name: str) -> Platform:
    if name == "local":
        from pliant.platforms.local import LocalPlatform

        return LocalPlatform()
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            try:
                kind = entry.load()
            except ImportError as error:
                raise NotAvailable(
                    f"the platform {name!r} needs more than is installed: {error}", hint=f"pip install 'pliant[{name}]'"
                ) from error
            made = kind()
            assert isinstance(made, Platform), f"entry point {entry.value} is no Platform"
            return made
    raise NotFound(f"there is no platform {name!r}", hint=f"known: {', '.join(platform_names())}")
