"""Monitors by the name of their platform: built-in ones, and those that other packages add by entry point ``pliant.monitors``."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from pliant.core.errors import NotAvailable, NotFound
from pliant.monitors.base import ClusterMonitor

GROUP = "pliant.monitors"
BUILT_IN = {
    "local": ("pliant.monitors.local", "LocalMonitor"),
    "kubernetes": ("pliant.monitors.kubernetes", "KubernetesMonitor"),
    "ray": ("pliant.monitors.ray", "RayMonitor"),
}


def monitor_names() -> list[str]:
    return sorted({entry.name for entry in entry_points(group=GROUP)} | BUILT_IN.keys())


def monitor_class(platform: str) -> type[ClusterMonitor]:
    """Raises ``NotFound`` for an unknown platform, ``NotAvailable`` if what its monitor needs is not installed."""
    try:
        found = _load(platform)
    except ImportError as error:
        raise NotAvailable(
            f"the monitor of {platform!r} needs a package that is not installed: {error.name}",
            hint=f"pip install 'pliant[{platform}]'",
        ) from error
    assert isinstance(found, type), f"the monitor of {platform} is not a class"
    assert issubclass(found, ClusterMonitor), f"the monitor of {platform} is not a ClusterMonitor"
    return found


def _load(platform: str) -> object:
    if platform in BUILT_IN:
        module, name = BUILT_IN[platform]
        return getattr(import_module(module), name)
    for entry in entry_points(group=GROUP):
        if entry.name == platform:
            return entry.load()
    raise NotFound(f"no monitor for the platform {platform!r}", hint=f"known: {', '.join(monitor_names())}")


def make_monitor(platform: str) -> ClusterMonitor:
    return monitor_class(platform)()
