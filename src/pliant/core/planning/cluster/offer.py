"""What the Brain sends to a master: offers and grants.

An *offer* is a proposal for the job's planner, which checks it like one of its own: bounds, version, one plan at a time. Its id is
journaled with the plan that is made of it, so an offer that comes again, from whichever Brain, leads to no second plan. A *grant*
is the most that the job may have under its quota.

Every message has the Brain's *term*, which rises whenever another Brain becomes the active one; a message of an older term is
ignored. How long an offer holds is counted from its arrival: the clocks of the two are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.proposal import Proposal


@dataclass(frozen=True, slots=True)
class Offer:
    id: str  # unique over all jobs and Brains
    proposal: Proposal
    base_version: int  # of the desired state that it was made for
    holds_s: float
    event: str = ""  # what it was made for: the optimize event


@dataclass(frozen=True, slots=True)
class Grant:
    """The most that a job may have; ``limit`` None: nothing, its nodes are suspended until a later grant."""

    job: str
    number: int  # rises with each grant of the job
    limit: Configuration | None
    reason: str
    grace_s: float = 0.0  # within which the job is to have no more than that
    is_unlimited: bool = False  # no quota concerns the job


def grant_to_json(grant: Grant) -> dict[str, Any]:
    return asdict(grant)


def grant_from_json(value: Mapping[str, Any]) -> Grant:
    limit = value["limit"]
    return Grant(**{**value, "limit": Configuration.from_json(limit) if limit is not None else None})


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """The answer to a job that asks how to begin: as its description says."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class BrainMessage:
    term: int
    content: Offer | Grant | NothingToDo
