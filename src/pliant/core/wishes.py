"""What people want of a running job, said to the platform: each wish is understood here, and taken once.

A wish is either a *state*, the whole of what a person's description asks for now (an edited ElasticJob, ``kubectl
scale``), or a list of *orders* (a ScalePlan of a person). Of a state only what differs from the one before is a change:
what the master decided meanwhile by itself stays, unless the person touched just that. A state that cannot be used
(``problem``) asks for nothing but to suspend the job or to go on: a mistake elsewhere must not keep anybody from that. All
changes are absolute
(a number, an amount, a name), so a wish that is carried out twice, by a master that died in between, does no harm.

The shell is ``master/wishes.py``; ``NodeBook`` checks the changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import InvalidRequest

KEPT = 500  # wishes whose names are remembered


@dataclass(frozen=True, slots=True)
class Change:
    """One call of the node book."""

    method: str  # scale, set_limits, set_resources, suspend, go_on, remove, replace
    arguments: Mapping[str, Any]
    text: str  # for people


class WishBook:
    def __init__(self, state: Mapping[str, Any]) -> None:
        """``state``: as the job was described when it began."""
        self._state: dict[str, Any] = dict(state)
        self._taken: dict[str, str] = {}  # wish -> why it was refused

    def is_new(self, wish: str) -> bool:
        return wish not in self._taken

    def changes(self, content: Mapping[str, Any], *, state: bool) -> list[Change]:
        """What a wish asks for. Only reads."""
        if problem := content.get("error"):
            raise InvalidRequest(str(problem))
        if content.get("own"):
            return []  # the master wrote down what it had decided; later edits are compared with that
        return edits(self._state, self.understood(content)) if state else orders(content)

    def understood(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Of a state: what is wanted, and later edits are compared with."""
        if "problem" in content:
            return {**self._state, "suspend": content["suspend"]}
        return {key: content[key] for key in ("suspend", "roles") if key in content}

    def refusal_of(self, wish: str) -> str:
        return self._taken.get(wish, "")

    def taken(self, now: float, *, wish: str, refusal: str = "", state: dict[str, Any] | None = None) -> None:
        """It was carried out (``state``: and is what later edits are compared with), or refused."""
        self._taken = dict([*self._taken.items(), (wish, refusal)][-KEPT:])
        if state is not None:
            self._state = dict(state)

    def snapshot(self) -> dict[str, Any]:
        return {"state": self._state, "taken": dict(self._taken)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._state, self._taken = dict(state["state"]), dict(state["taken"])


def edits(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """From one state to another. Limits come before numbers, so that both may move at once."""
    changes: list[Change] = []
    for role, now in after.get("roles", {}).items():
        old = before.get("roles", {}).get(role, {})
        if (now["min"], now["max"]) != (old.get("min"), old.get("max")):
            limits = {"role": role, "min_replicas": now["min"], "max_replicas": now["max"]}
            changes.append(Change("set_limits", limits, f"{role}: {now['min']} to {now['max']} nodes"))
        if now["resources"] != old.get("resources"):
            changes.append(_resources(role, now["resources"]))
        if now["wanted"] != old.get("wanted"):
            changes.append(_scale(role, now["wanted"], "the job was edited"))
    if after.get("suspend", False) != before.get("suspend", False):
        method, text = ("suspend", "suspend the job") if after.get("suspend") else ("go_on", "go on with the job")
        changes.append(Change(method, {"reason": f"a person asked to {text}"}, text))
    return changes


def orders(content: Mapping[str, Any]) -> list[Change]:
    """Of a plan: resources before nodes, so that new ones have them."""
    reason = content.get("reason") or "a person's plan"
    changes: list[Change] = []
    for role, wish in content.get("roles", {}).items():
        if wish.get("resources") is not None:
            changes.append(_resources(role, wish["resources"]))
        if wish.get("replicas") is not None:
            changes.append(_scale(role, wish["replicas"], reason))
    for node in content.get("remove", ()):
        changes.append(Change("remove", {"node": node, "reason": reason}, f"remove {node}"))
    for entry in content.get("migrate", ()):
        arguments = {"node": entry["node"], "resources": entry.get("resources"), "reason": reason}
        changes.append(Change("replace", arguments, f"replace {entry['node']}"))
    return changes


def _resources(role: str, resources: Mapping[str, Any]) -> Change:
    return Change(
        "set_resources", {"role": role, "resources": dict(resources)}, f"{role}: other resources for new nodes"
    )


def _scale(role: str, replicas: int, reason: str) -> Change:
    return Change("scale", {"role": role, "replicas": replicas, "reason": reason}, f"{role}: {replicas} nodes")
