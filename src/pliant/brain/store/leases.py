"""Leases: which Brain is the active one. The *term* of a lease rises whenever it changes hands, and when it is taken anew after it
ran out: it is the fencing token of everything that its holder writes.

Whether a lease ran out is decided by the server's clock, so the clocks of Brains on several machines are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from pliant.brain.store.bounded import checked_name
from pliant.brain.store.database import Database
from pliant.brain.store.errors import DatabaseBusy, LostLease
from pliant.brain.store.tables import leases

ACTIVE_BRAIN = "brain"


@dataclass(frozen=True, slots=True)
class Lease:
    name: str
    holder: str
    term: int
    expires_at: float  # by the clock of the database


def acquire(database: Database, name: str, holder: str, ttl_s: float) -> Lease | None:
    """None: another one holds it. Whoever holds it already keeps it, with the same term."""
    checked_name(name, "lease")
    checked_name(holder, "holder of a lease")

    def take(connection: Connection) -> Lease | None:
        found = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
        now = database.server_time(connection)
        if found is None:
            try:
                connection.execute(insert(leases).values(name=name, holder=holder, term=1, expires_at=now + ttl_s))
            except IntegrityError:  # another one was faster; the transaction is repeated and finds it
                raise DatabaseBusy(f"the lease {name!r} is being taken by another one") from None
            return Lease(name, holder, 1, now + ttl_s)
        is_over = found.expires_at <= now
        if found.holder != holder and not is_over:
            return None
        term = found.term + 1 if is_over or found.holder != holder else found.term
        taken = {"holder": holder, "term": term, "expires_at": now + ttl_s}
        connection.execute(update(leases).where(leases.c.name == name).values(**taken))
        return Lease(name, holder, term, now + ttl_s)

    return database.transaction(take)


def renew(database: Database, lease: Lease, ttl_s: float) -> Lease | None:
    """None: it is another one's by now. A lease that ran out and that nobody took can still be renewed."""

    def extend(connection: Connection) -> Lease | None:
        now = database.server_time(connection)
        done = connection.execute(
            update(leases)
            .where(leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.term == lease.term)
            .values(expires_at=now + ttl_s)
        )
        return Lease(lease.name, lease.holder, lease.term, now + ttl_s) if done.rowcount else None

    return database.transaction(extend)


def raise_term(database: Database, lease: Lease, above: int) -> Lease | None:
    """A higher term than any that was ever heard of, for a database that was restored from a backup. None: another one holds it."""
    term = max(above, lease.term) + 1

    def lift(connection: Connection) -> Lease | None:
        done = connection.execute(
            update(leases)
            .where(leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.term == lease.term)
            .values(term=term)
        )
        return Lease(lease.name, lease.holder, term, lease.expires_at) if done.rowcount else None

    return database.transaction(lift)


def release(database: Database, lease: Lease) -> None:
    """Anyone may take it from now on; nothing happens if it is another one's by now."""
    mine = (leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.term == lease.term)
    database.transaction(
        lambda connection: connection.execute(update(leases).where(*mine).values(expires_at=0)).rowcount
    )


def current(database: Database, name: str = ACTIVE_BRAIN) -> Lease | None:
    """Who holds it, or held it last; None: nobody ever did."""
    with database.reading() as connection:
        found = connection.execute(select(leases).where(leases.c.name == name)).one_or_none()
    return Lease(found.name, found.holder, found.term, found.expires_at) if found is not None else None


def check_term(connection: Connection, term: int | None, name: str = ACTIVE_BRAIN) -> None:
    """Raises ``LostLease`` if the lease has another term. Nobody can take it before this transaction ends. None: no check."""
    if term is None:
        return
    found = connection.scalar(select(leases.c.term).where(leases.c.name == name).with_for_update(read=True))
    if found != term:
        raise LostLease(
            f"this Brain was active in term {term}, the active one is in term {found or 0}",
            hint="nothing to do: the active Brain has taken over",
        )
