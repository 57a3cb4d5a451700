from __future__ import annotations

from collections.abc import Callable

import pytest

from pliant.core.errors import Conflict, InvalidRequest, NotFound, PliantError, SessionExpired
from pliant.core.rendezvous.book import Member, World
from pliant.core.rendezvous.exchange import (
    MAX_GROUP_NAME_CHARS,
    MAX_GROUPS,
    MAX_KEY_CHARS,
    MAX_PUBLISHED_BYTES,
    AddressExchange,
    Keys,
)


def world(round: int = 1, size: int = 3) -> World:
    members = tuple(Member(f"worker-{n}", "a", {}, 0, n + 1) for n in range(size))
    return World(round, members, 0.0)


def publish(exchange: AddressExchange, of: World, rank: int, keys: Keys | None = None, **fields: object) -> bool:
    values = {"group": "", "ranks": (), "member": f"worker-{rank}", "incarnation": "a", **fields}
    return exchange.publish(of, keys={f"0/{rank}": b"%d" % rank} if keys is None else keys, **values)  # type: ignore[arg-type]


def collect(exchange: AddressExchange, of: World, rank: int, group: str = "") -> tuple[Keys, ...] | None:
    return exchange.collect(of, group=group, member=f"worker-{rank}", incarnation="a")


def test_all_get_what_all_published_in_the_order_of_their_ranks_once_the_last_has() -> None:
    exchange, formed = AddressExchange(), world()
    assert [publish(exchange, formed, 2), publish(exchange, formed, 0)] == [False, False]
    assert collect(exchange, formed, 0) is None
    assert publish(exchange, formed, 1)
    for rank in range(3):
        assert collect(exchange, formed, rank) == ({"0/0": b"0"}, {"0/1": b"1"}, {"0/2": b"2"})


def test_a_part_of_the_world_exchanges_apart_from_the_whole() -> None:
    exchange, formed = AddressExchange(), world()
    publish(exchange, formed, 0)
    publish(exchange, formed, 0, {"x": b"part"}, group="part", ranks=(0, 2))
    assert publish(exchange, formed, 2, {"x": b"other"}, group="part", ranks=(0, 2))
    assert collect(exchange, formed, 2, "part") == ({"x": b"part"}, {"x": b"other"})
    assert collect(exchange, formed, 0) is None


def test_what_was_published_is_published_again_without_effect_and_never_changes() -> None:
    exchange, formed = AddressExchange(), world(size=1)
    assert publish(exchange, formed, 0)
    assert not publish(exchange, formed, 0)
    with pytest.raises(Conflict, match="other keys"):
        publish(exchange, formed, 0, {"0/0": b"elsewhere"})


def test_the_keys_of_a_round_are_dropped_with_it() -> None:
    exchange = AddressExchange()
    publish(exchange, world(1), 0)
    publish(exchange, world(2), 1)
    with pytest.raises(NotFound, match="published nothing in round 2"):
        collect(exchange, world(2), 0)
    assert list(exchange._groups[""].published) == [1]


def test_who_has_published_nothing_here_is_told_to_join_again() -> None:
    exchange, formed = AddressExchange(), world()
    publish(exchange, formed, 0)
    with pytest.raises(NotFound):
        collect(exchange, formed, 1)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (SessionExpired, lambda e: publish(e, world(), 0, incarnation="older")),
        (SessionExpired, lambda e: publish(e, world(), 7)),
        (SessionExpired, lambda e: collect(e, world(), 7)),
        (InvalidRequest, lambda e: publish(e, world(), 0, {})),
        (InvalidRequest, lambda e: publish(e, world(), 0, {"k": bytes(MAX_PUBLISHED_BYTES)})),
        (InvalidRequest, lambda e: publish(e, world(), 0, {"k" * (MAX_KEY_CHARS + 1): b""})),
        (InvalidRequest, lambda e: publish(e, world(), 0, group="g" * (MAX_GROUP_NAME_CHARS + 1))),
        (InvalidRequest, lambda e: publish(e, world(), 0, ranks=(1, 2))),
        (InvalidRequest, lambda e: publish(e, world(), 0, ranks=(0, 3))),
        (InvalidRequest, lambda e: publish(e, world(), 0, ranks=(0, 0))),
    ],
)
def test_strangers_and_too_much_are_refused(kind: type[PliantError], call: Callable[[AddressExchange], None]) -> None:
    exchange = AddressExchange()
    with pytest.raises(kind):
        call(exchange)
    assert not exchange._groups


def test_members_must_agree_who_takes_part_and_groups_are_few() -> None:
    exchange, formed = AddressExchange(), world()
    publish(exchange, formed, 0, group="part", ranks=(0, 1))
    with pytest.raises(Conflict, match="has ranks"):
        publish(exchange, formed, 1, group="part", ranks=(1, 0))
    for number in range(MAX_GROUPS - 1):
        publish(exchange, formed, 0, group=str(number))
    with pytest.raises(Conflict, match="already has"):
        publish(exchange, formed, 0, group="one more")
