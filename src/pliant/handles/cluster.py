"""Which cluster the options of a command name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """A namespace of a cluster."""

    namespace: str  # empty: that of the kubeconfig's context
    context: str | None = None  # None: the kubeconfig's current one
