"""The address exchange: an allgather among the members of one round, through the master that formed it.

Each member of a group publishes a few keys once (where its peers reach it); when all have, each gets everybody's. Groups of a
round are the whole world and parts of it. Nothing of this is journaled: a member whose key was lost with a master joins again,
and so do its peers, in the next round.

Invariants:

1. Only the latest round has an exchange, and only its members take part; the keys are dropped when the next round is formed.
2. What a member published never changes: a peer may have used it.
3. What one member publishes is limited in bytes, and so is the number of groups of a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pliant.core.errors import Conflict, InvalidRequest, NotFound, SessionExpired
from pliant.core.rendezvous.book import World

MAX_KEY_CHARS = 256
MAX_PUBLISHED_BYTES = 64 << 10  # of one member in one group; gloo needs about 150, and 8 for each peer
MAX_GROUPS = 8  # of one round
MAX_GROUP_NAME_CHARS = 64

Keys = Mapping[str, bytes]


@dataclass(slots=True)
class _Group:
    ranks: tuple[int, ...]
    published: dict[int, Keys] = field(default_factory=dict)  # by rank in the world


class AddressExchange:
    def __init__(self) -> None:
        self._round = 0
        self._groups: dict[str, _Group] = {}

    def publish(
        self, world: World, *, group: str, ranks: Sequence[int], member: str, incarnation: str, keys: Keys
    ) -> bool:
        """``ranks``: of the world, who takes part (empty: all). Returns whether the group is complete now, and was not before."""
        rank = _rank(world, member, incarnation)
        if len(group) > MAX_GROUP_NAME_CHARS:
            raise InvalidRequest(f"the name of a group must have at most {MAX_GROUP_NAME_CHARS} characters")
        parts = tuple(ranks) or tuple(range(len(world.members)))
        if len(set(parts)) != len(parts) or rank not in parts or not all(0 <= r < len(world.members) for r in parts):
            raise InvalidRequest(f"ranks {parts} are not a part of round {world.round} with rank {rank}")
        _check_size(keys)
        if world.round != self._round:
            self._round, self._groups = world.round, {}
        found = self._groups.get(group)
        if found is None:
            if len(self._groups) >= MAX_GROUPS:
                raise Conflict(f"round {world.round} already has {MAX_GROUPS} groups")
            found = self._groups[group] = _Group(parts)
        if found.ranks != parts:
            raise Conflict(f"group {group!r} of round {world.round} has ranks {found.ranks}, not {parts}")
        if rank in found.published:
            if found.published[rank] != keys:
                raise Conflict(f"{member} already published other keys in round {world.round}")
            return False
        found.published[rank] = dict(keys)
        return len(found.published) == len(parts)

    def collect(self, world: World, *, group: str, member: str, incarnation: str) -> tuple[Keys, ...] | None:
        """What all members of the group published, in the order of its ranks; None: some have not yet.

        ``NotFound`` if the caller has published nothing here: it did so at a master that is gone.
        """
        rank = _rank(world, member, incarnation)
        found = self._groups.get(group) if world.round == self._round else None
        if found is None or rank not in found.published:
            raise NotFound(f"{member} has published nothing in round {world.round}", hint="join again")
        if len(found.published) < len(found.ranks):
            return None
        return tuple(found.published[r] for r in found.ranks)


def _rank(world: World, member: str, incarnation: str) -> int:
    for rank, found in enumerate(world.members):
        if (found.name, found.incarnation) == (member, incarnation):
            return rank
    raise SessionExpired(f"{member} ({incarnation}) is not a member of round {world.round}", hint="join again")


def _check_size(keys: Keys) -> None:
    if any(len(key) > MAX_KEY_CHARS for key in keys):
        raise InvalidRequest(f"a key must have at most {MAX_KEY_CHARS} characters")
    size = sum(len(key) + len(value) for key, value in keys.items())
    if not keys or size > MAX_PUBLISHED_BYTES:
        raise InvalidRequest(f"a member must publish 1 to {MAX_PUBLISHED_BYTES} bytes, not {size}")
