"""Platforms by name: the built-in ones, and those that other packages add by entry point ``pliant.platforms``."""

from __future__ import annotations

from importlib.metadata import entry_points

from pliant.core.errors import NotAvailable, NotFound
from pliant.platforms.base import Platform
from pliant.platforms.traits import PlatformTraits

GROUP = "pliant.platforms"


def platform_names() -> list[str]:
    return sorted({entry.name for entry in entry_points(group=GROUP)} | {"local"})


def platform_class(name: str) -> type[Platform]:
    """Raises ``NotFound`` for an unknown name, ``NotAvailable`` if what the platform needs is not installed."""
    if name == "local":  # the default: found without reading the metadata of all installed packages
        from pliant.platforms.local import LocalPlatform

        return LocalPlatform
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            try:
                found = entry.load()
            except ImportError as error:
                raise NotAvailable(
                    f"the platform {name!r} needs a package that is not installed: {error}",
                    hint=f"pip install 'pliant[{name}]'",
                ) from error
            assert isinstance(found, type), f"entry point {entry.value} is not a class"
            assert issubclass(found, Platform), f"entry point {entry.value} is not a Platform"
            return found
    raise NotFound(f"unknown platform {name!r}", hint=f"known: {', '.join(platform_names())}")


def platform_traits(name: str) -> PlatformTraits:
    return platform_class(name).traits


def make_platform(name: str) -> Platform:
    return platform_class(name)()
