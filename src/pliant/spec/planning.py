"""What a job that plans its own resources leaves open: the numbers of nodes that its description does not give.

A number that is given is a bound: ``4`` means at most four workers, ``"2:8"`` between two and eight. Without any, a role may have
up to ``MAX_OPEN`` nodes. With how many it begins is decided by the planner, unless ``wanted`` says it; in a dry run it is the
minimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AUTOMATIC = ("single-job", "cluster")
MAX_OPEN = {"worker": 16, "ps": 4}  # nodes of a role for which no number is given


def with_open_replicas(value: Any) -> Any:
    """The description of a job; if it plans its own resources, with a range for each role that may be planned."""
    if not isinstance(value, Mapping) or not is_automatic(value.get("optimize")):
        return value
    roles = value.get("roles")
    if not isinstance(roles, Mapping):
        return value
    single = str(value.get("strategy")) == "local"
    filled = {name: _filled(name, role, single=single) for name, role in roles.items()}
    if _option(value["optimize"], "dry_run"):
        filled = {name: _started_small(name, role) for name, role in filled.items()}
    return {**value, "roles": filled}


def is_automatic(optimize: object) -> bool:
    """Whether the section ``optimize``, in any of its forms, has the job plan its own resources."""
    return optimize in AUTOMATIC or _option(optimize, "mode") in AUTOMATIC


def _option(optimize: object, name: str) -> object:
    return optimize.get(name) if isinstance(optimize, Mapping) else getattr(optimize, name, None)


def _started_small(name: str, role: object) -> object:
    """Where plans are only shown, nobody decides with how many it begins: the minimum, from which they are seen to grow."""
    replicas = role.get("replicas") if isinstance(role, Mapping) and name in MAX_OPEN else None
    if isinstance(replicas, str) and replicas.count(":") == 1 and all(p.strip().isdigit() for p in replicas.split(":")):
        low, high = (int(part) for part in replicas.split(":"))
        replicas = {"min": low, "max": high}
    if not isinstance(role, Mapping) or not isinstance(replicas, Mapping) or replicas.get("wanted") is not None:
        return role
    least = replicas.get("min")
    return {**role, "replicas": {**replicas, "wanted": max(1, least) if isinstance(least, int) else least}}


def _filled(name: str, role: object, *, single: bool) -> object:
    if name not in MAX_OPEN or not isinstance(role, Mapping):
        return role
    given = role.get("replicas")
    if given is None:
        return {**role, "replicas": {"min": 1, "max": 1 if single else MAX_OPEN[name]}}
    is_number = isinstance(given, int) and not isinstance(given, bool)
    if is_number or (isinstance(given, str) and given.strip().isdigit()):
        return {**role, "replicas": {"min": min(1, int(given)), "max": int(given)}}
    return role
