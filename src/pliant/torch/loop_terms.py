"""The terms of a loop: what every worker of one training must have in common, and how two sets of terms differ.

Terms are numbers by name (those of the ``StepPlan``, and the limit of steps). Three comparisons:

- *Workers of one world* must agree on all terms, in every step. Each adds the digest of its terms, and the digest's square,
  to the control lane; ``n * sum(d²) == sum(d)²`` holds exactly if all n digests are equal, and since all workers see the
  same sums, all notice a difference in the same step. Then each tells its terms to the others (``gather``), so that the error
  names them.
- *A member that takes another's state* in the middle of a loop compares the same terms before it loads anything.
- *A checkpoint* must agree on what gives a position its meaning. How long a loop lasts (epochs, limit) is no part of that: a
  training may be extended, and is then the same, bit for bit, as one that was as long from the start.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pliant.core.errors import InvalidRequest
from pliant.torch.plan import StepPlan
from pliant.torch.worlds.world import World

Terms = Mapping[str, int]

LENGTH = ("epochs", "max_steps")  # of a loop: may differ from those of a checkpoint
UNLIMITED = -1  # max_steps that are not given


def terms_of(plan: StepPlan, max_steps: int | None) -> dict[str, int]:
    return {
        "records": plan.records,
        "micro_batch": plan.micro_batch,
        "epochs": plan.epochs,
        "seed": plan.seed,
        "shuffle": int(plan.shuffle),
        "drop_last": int(plan.drop_last),
        "max_steps": UNLIMITED if max_steps is None else max_steps,
    }


def saved_terms(state: Mapping[str, Any]) -> Terms | None:
    """Of a checkpoint; earlier versions wrote the plan instead, whose limit of steps is not known."""
    if "terms" in state:
        terms: Terms | None = state["terms"]
        return terms
    plan = state["plan"]
    return None if plan is None else {name: int(n) for name, n in plan.items() if name != "units"}


def steps_of(terms: Terms, units: int) -> int:
    plan = StepPlan(terms["records"], terms["micro_batch"], units, terms["epochs"], drop_last=bool(terms["drop_last"]))
    return plan.steps if terms["max_steps"] == UNLIMITED else min(plan.steps, terms["max_steps"])


def digest(terms: Terms) -> int:
    """24 bits, so that the sum of the squares of thousands stays in an int64."""
    return zlib.crc32(repr(sorted(terms.items())).encode()) & 0xFFFFFF


def are_equal(total: int, squares: int, count: int) -> bool:
    """Whether ``count`` digests are all the same, from their sum and the sum of their squares."""
    return count * squares == total * total


def differing(a: Terms, b: Terms, ignored: Sequence[str] = ()) -> list[str]:
    return [name for name in a if name not in ignored and a[name] != b.get(name)]


def gather(world: World, terms: Terms) -> list[dict[str, int]]:
    """The terms of every member, by rank."""
    names = list(terms)
    table = torch.zeros(world.size, len(names), dtype=torch.int64)
    table[world.rank] = torch.tensor([_signed(terms[name]) for name in names], dtype=torch.int64)
    world.finish([world.allreduce(table)])
    return [dict(zip(names, (int(value) for value in row), strict=True)) for row in table]


def disagreement(members: Mapping[str, Terms]) -> WorkersDisagree:
    """Of workers by name, at least two of which differ."""
    first, *others = sorted(members)
    other = next((name for name in others if differing(members[first], members[name])), first)
    shown = [
        f"{name} {_shown(name, members[first])} on {first}, {_shown(name, members[other])} on {other}"
        for name in differing(members[first], members[other])
    ]
    return WorkersDisagree(
        f"the workers train with different settings: {'; '.join(shown) or 'a seed'}",
        hint="pass the same dataset and options on every worker: workers share one dataset by its indices, "
        "so do not split it between them",
    )


def checkpoint_mismatch(saved: Mapping[str, object], now: Mapping[str, object]) -> InvalidRequest:
    shown = ", ".join(f"{name} {value}, now {now.get(name)}" for name, value in saved.items() if value != now.get(name))
    return InvalidRequest(
        f"Checkpoint does not match: {shown}",
        hint="use the settings of the checkpoint, or start a new training with another checkpoint_dir; epochs "
        "and max_steps may change",
    )


class WorkersDisagree(InvalidRequest):
    """Workers of one training were given different datasets or options. A restart would not help: the job fails."""


def _signed(value: int) -> int:
    """As an int64 has it; seeds may have 64 bits."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _shown(name: str, terms: Terms) -> str:
    value = terms[name]
    if name == "max_steps" and value == UNLIMITED:
        return "none"
    return str(bool(value)) if name in ("shuffle", "drop_last") else str(value)
