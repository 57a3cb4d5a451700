"""Nodes as actors of a Ray cluster: what the master, the command line and the monitor share about Ray.

``names`` is what things are called. ``platform`` is what the master runs on; it asks ``link`` for a ``bridge``, the process
with Ray's client, in which ``cluster`` makes and watches actors and ``deaths`` says why they died. ``actor`` is what runs on
the cluster, with its command on a ``leash``. Ray itself is imported only by ``bridge``, ``cluster`` and ``actor``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.platforms.ray.platform import RayPlatform

__all__ = ["RayPlatform"]


def __getattr__(name: str) -> Any:
    """The entry point names this package; most who import it want a part that needs no client of Ray."""
    if name == "RayPlatform":
        from pliant.platforms.ray.platform import RayPlatform

        return RayPlatform
    raise AttributeError(name)
