"""What the rest of Pliant must know about a kind of platform; nobody asks for its name.

Each ``Platform`` class has its ``traits``; ``registry.platform_traits`` finds them by the name in a job's spec, without opening
the platform.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlatformTraits:
    """Defaults are those of a cluster that leaves everything to the master."""

    is_single_machine: bool = False
    """All nodes and the master share one machine: its cores, its loopback address, its memory."""

    restarts_master: bool = False
    """A master that is terminated is started again elsewhere, so SIGTERM ends that process and not the job."""

    builds_node_environment: bool = False
    """The platform derives the environment of nodes from the job's spec; ``NodeLaunch.env`` is not used."""

    encrypts_by_default: bool = False
    """Traffic leaves the machine, so TLS is on unless the spec says otherwise."""

    can_resize: bool = False
    """A running node can be given other resources in place; else it is replaced by a new one."""
