"""How many virtual workers each member of a world hosts: evenly, or as somebody assigned them to workers by name.

An assignment names every worker of the world that it was made for, and its counts add up to N. Worlds of just these workers host
exactly that. After a death or a join the counts are *weights* (relative speeds): ``weighted_counts`` distributes N in proportion to
them, and a worker that the assignment does not name, or gave none, has the median weight of the others. The sum is N in every case,
and every worker hosts at least one if there are no more workers than N. Without an assignment, ``hosted_counts``.

N is announced by the members themselves, as an attribute; unless all of them have it (torchrun's agents do not) nothing is
assigned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pliant.core.errors import InvalidRequest, NotAvailable
from pliant.core.plurals import counted
from pliant.core.rendezvous.virtual_workers import hosted_counts, weighted_counts

VIRTUAL_WORKERS = "virtual_workers"  # the attribute of a member: N of its program, as a decimal number
MAX_VIRTUAL_WORKERS = 1 << 20


def announced_virtual_workers(attrs: Sequence[Mapping[str, str]]) -> int:
    """N, as all members announce it; 0 if they do not, or not the same."""
    texts = {member.get(VIRTUAL_WORKERS, "") for member in attrs}
    if len(texts) != 1 or not (text := texts.pop()).isascii() or not text.isdecimal() or len(text) > 7:
        return 0
    number = int(text)
    return number if number <= MAX_VIRTUAL_WORKERS else 0


def seats_of(names: Sequence[str], virtual_workers: int, assigned: Mapping[str, int]) -> tuple[int, ...]:
    """How many each of ``names`` (in rank order) hosts; empty if N is not known. ``assigned`` empty: evenly."""
    if not virtual_workers:
        return ()
    if assigned.keys() == set(names) and sum(assigned.values()) == virtual_workers:
        return tuple(assigned[name] for name in names)
    known = [weight for name in names if (weight := assigned.get(name, 0))]
    if not known:
        return tuple(hosted_counts(virtual_workers, len(names)))
    middle = median(known)
    return tuple(weighted_counts(virtual_workers, [assigned.get(name) or middle for name in names]))


def check_seats(seats: Mapping[str, int], names: Sequence[str], virtual_workers: int) -> None:
    """Raise what is wrong with an assignment for the world of ``names``; an empty one is that of no assignment."""
    if not virtual_workers:
        raise NotAvailable(
            "the programs of this job have no virtual workers",
            hint="only programs that train with pliant.torch.Trainer have some",
        )
    for name, count in seats.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InvalidRequest(f"{name} must host a whole number of virtual workers of at least 0, not {count!r}")
    if not seats:
        return
    if strangers := [name for name in seats if name not in names]:
        raise InvalidRequest(
            f"{', '.join(sorted(strangers))} not in the present world of {', '.join(names)}",
            hint="see `pliant status` for the workers that train now",
        )
    if missing := [name for name in names if name not in seats]:
        raise InvalidRequest(
            f"no virtual workers given for {', '.join(missing)}", hint="give a number for every worker of the world"
        )
    if (total := sum(seats.values())) != virtual_workers:
        raise InvalidRequest(
            f"the job has {counted(virtual_workers, 'virtual worker')}, but {total} were assigned",
            hint=f"give numbers that add up to {virtual_workers}",
        )
    if len(names) <= virtual_workers and (idle := [name for name in names if not seats[name]]):
        raise InvalidRequest(
            f"{', '.join(idle)} would host no virtual worker", hint="give it at least 1, or scale the job down instead"
        )
