"""The traits of Kubernetes; apart from ``platform``, which needs a client of the API."""

from __future__ import annotations

from pliant.platforms.traits import PlatformTraits
from pliant.spec import JobSpec

TRAITS = PlatformTraits(restarts_master=True, builds_node_environment=True, encrypts_by_default=True)


def uses_tls(spec: JobSpec) -> bool:
    return spec.security.uses_tls(default=TRAITS.encrypts_by_default)
