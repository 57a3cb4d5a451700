"""Policies by name, as a scenario and the command line name them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pliant.core.errors import InvalidRequest
from pliant.sim.policies.auto import Auto
from pliant.sim.policies.base import Policy
from pliant.sim.policies.brain import Brain
from pliant.sim.policies.dlrover import DLRoverRules
from pliant.sim.policies.optimus import Optimus
from pliant.sim.policies.oracle import Oracle
from pliant.sim.policies.static import EqualShare, Static
from pliant.sim.policies.tuned import FirstCome, TunedEqualShare
from pliant.sim.truth.base import Truth

DEFAULT_POLICIES = (
    "oracle",
    "auto",
    "static-1",
    "static-4",
    "static-16",
    "static-max",
    "equal-share",
    "dlrover",
    "optimus",
)
MANY_JOBS_ROUND_S = 60.0  # many jobs come and go all the time
MANY_JOBS, MANY_JOBS_INTERVAL_S = 100, 300.0  # of so many jobs, one in which nothing happens is looked at less often
_BY_NAME: Mapping[str, Callable[[], Policy]] = {
    "auto": Auto,
    "brain": Brain,
    "equal-share": EqualShare,
    "dlrover": DLRoverRules,
    "optimus": Optimus,
    "static-max": lambda: Static(0),
}
_KNOW_THE_TRUTH: Mapping[str, Callable[[Mapping[str, Truth]], Policy]] = {
    "oracle": Oracle,
    "first-come": FirstCome,
    "equal-share-tuned": TunedEqualShare,
}


def known_policies() -> list[str]:
    return [*_KNOW_THE_TRUTH, *_BY_NAME, "static-N"]


def is_policy(name: str) -> bool:
    return name in _KNOW_THE_TRUTH or name in _BY_NAME or re.fullmatch(r"static-[1-9][0-9]{0,4}", name) is not None


def check_policy(name: str) -> None:
    if not is_policy(name):
        raise InvalidRequest(f"unknown policy {name!r}; known: {', '.join(known_policies())} (such as static-4)")


def make_policy(name: str, truths: Mapping[str, Truth]) -> Policy:
    """``truths``: of the jobs by name; only those that know the truth look at them."""
    if name in _KNOW_THE_TRUTH:
        return _KNOW_THE_TRUTH[name](truths)
    if name == Auto.name and len(truths) > MANY_JOBS:
        return Auto(max_interval_s=MANY_JOBS_INTERVAL_S)
    if name == Brain.name and len(truths) > MANY_JOBS:
        return Brain(max_interval_s=MANY_JOBS_INTERVAL_S, min_round_s=MANY_JOBS_ROUND_S)
    if name in _BY_NAME:
        return _BY_NAME[name]()
    check_policy(name)
    return Static(int(name.removeprefix("static-")))
