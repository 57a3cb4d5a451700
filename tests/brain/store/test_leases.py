"""One Brain is active at a time, and one that is not any more can write nothing."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Barrier

import pytest
from sqlalchemy import Connection, update

from pliant.brain.store.database import Database
from pliant.brain.store.errors import FencedOff
from pliant.brain.store.leases import ACTIVE_BRAIN, Lease, acquire, check_term, current, release, renew
from pliant.brain.store.tables import leases
from pliant.core.errors import InvalidRequest


def run_out(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(update(leases).values(expires_at=1.0))


def taken(database: Database, holder: str, ttl_s: float = 600.0) -> Lease:
    found = acquire(database, ACTIVE_BRAIN, holder, ttl_s)
    assert found is not None
    return found


def test_the_first_one_gets_the_lease_and_the_second_does_not(database: Database) -> None:
    assert current(database) is None
    first = taken(database, "a")
    assert first.term == 1
    assert acquire(database, ACTIVE_BRAIN, "b", 600.0) is None
    assert current(database) == first
    assert taken(database, "a").term == 1
    assert acquire(database, "another", "b", 600.0) is not None


def test_the_term_rises_with_each_change_of_holder(database: Database) -> None:
    terms = [taken(database, "a").term]
    run_out(database)
    terms.append(taken(database, "b").term)
    run_out(database)
    terms.append(taken(database, "b").term)  # nobody took it meanwhile, but somebody could have
    release(database, taken(database, "b"))
    terms.append(taken(database, "a").term)
    assert terms == [1, 2, 3, 4]


def test_a_lease_is_renewed_until_another_one_has_it(database: Database) -> None:
    first = taken(database, "a")
    renewed = renew(database, first, 900.0)
    assert renewed is not None
    assert renewed.expires_at > first.expires_at
    run_out(database)
    assert renew(database, first, 600.0) is not None
    run_out(database)
    second = taken(database, "b")
    assert renew(database, first, 600.0) is None
    release(database, first)
    assert current(database) == second


def test_of_many_who_want_it_at_once_one_gets_it(database: Database) -> None:
    start = Barrier(8)

    def want(number: int) -> Lease | None:
        start.wait()
        return acquire(database, ACTIVE_BRAIN, f"brain-{number}", 600.0)

    for expected in (1, 2):
        with ThreadPoolExecutor(8) as pool:
            got = [lease for lease in pool.map(want, range(8)) if lease is not None]
        assert [lease.term for lease in got] == [expected]
        run_out(database)


def test_a_write_in_an_older_term_is_fenced_off(database: Database) -> None:
    first = taken(database, "a")
    database.transaction(lambda connection: check_term(connection, first.term))
    run_out(database)
    database.transaction(lambda connection: check_term(connection, first.term))  # nobody took it: still the only writer
    taken(database, "b")
    with pytest.raises(FencedOff):
        database.transaction(lambda connection: check_term(connection, first.term))


def test_without_any_lease_no_term_holds(database: Database) -> None:
    with pytest.raises(FencedOff):
        database.transaction(lambda connection: check_term(connection, 1))
    database.transaction(lambda connection: check_term(connection, None))


def test_nobody_takes_over_in_the_middle_of_a_fenced_write(database: Database) -> None:
    """The one that takes over waits for the transaction that checked its term."""
    first = taken(database, "a")
    run_out(database)
    seen: list[str] = []

    def take_over() -> None:
        taken(database, "b")
        seen.append("taken")

    def write(connection: Connection) -> None:
        check_term(connection, first.term)
        taking.append(pool.submit(take_over))
        wait(taking, timeout=0.3)  # time in which it could, if it did not have to wait
        seen.append("written")

    taking: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:
        database.transaction(write)
    taking[0].result()
    assert seen == ["written", "taken"]


@pytest.mark.parametrize("holder", ["", "a\0", "x" * 300])
def test_a_holder_has_a_name(database: Database, holder: str) -> None:
    with pytest.raises(InvalidRequest):
        acquire(database, ACTIVE_BRAIN, holder, 10.0)
