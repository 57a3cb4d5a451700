"""Nodes as Pods of a cluster: what the master, the operator and the command line share about Kubernetes.

``names`` and ``kinds`` are what things are called; ``api`` with its ``errors`` is the client of the API server. ``pods``
makes a Pod of a node, ``exits`` reads a Pod's end, ``plans`` holds the custom resources; ``scaler``, ``watcher`` and
``platform`` are the platform that the master runs on.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.platforms.kubernetes.platform import KubernetesPlatform

__all__ = ["KubernetesPlatform"]


def __getattr__(name: str) -> Any:
    """The entry point names this package; most who import it want a part that needs no client of the API."""
    if name == "KubernetesPlatform":
        from pliant.platforms.kubernetes.platform import KubernetesPlatform

        return KubernetesPlatform
    raise AttributeError(name)
