"""Jobs under a full quota cannot grow to find out what they are good for, so some try with less.

A job alone is explored upwards (``algorithms/probe.py``): what brings nothing is given back. Under a full quota nobody can grow,
and a job that was only ever measured at one size may hold many times what it needs without anybody knowing. So if somebody could
use more, jobs of one known size (the largest first, only a few at once, none that ends soon) get about half of it, and others the
rest: both become known. Such a job keeps the new size until that is measured; then it is shared by what was learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.sharing.demand import Amount, Demand, Knowledge, Option, Quota, SharingSettings
from pliant.core.planning.sharing.growth import grow

LEAST, MOST = 0.3, 0.7  # of its present share: less says little of it, more says nothing new


def explore(
    quota: Quota, demands: Sequence[Demand], free: Amount, settings: SharingSettings, *, others: int = 0
) -> list[Option]:
    """As ``grow``, which it is unless somebody tries something."""
    fixed: dict[str, Option] = {}
    for demand in demands:
        if demand.knowledge is Knowledge.TRYING and demand.current is not None:
            present = next((one for one in demand.options if one.configuration == demand.current), None)
            if present is not None and (more := _more(demand, present)).fits(free):
                fixed[demand.job] = present
                free -= more
    found = _grow(quota, demands, free, settings, fixed, others)
    allowed = max(1, int(settings.explored_at_once * len(demands))) - len(fixed)
    if allowed <= 0 or not _is_contended(demands, found, settings):
        return found
    tries = [
        (quota.share(Amount.of(one.current)), one, smaller)
        for one in demands
        if (smaller := _try(quota, one, settings))
    ]
    if not tries:
        return found
    tries.sort(key=lambda entry: -entry[0])  # stable: in their order otherwise
    for _, demand, option in tries[:allowed]:
        if (more := _more(demand, option)).fits(free):
            fixed[demand.job] = option
            free -= more
    return _grow(quota, demands, free, settings, fixed, others)


def _try(quota: Quota, demand: Demand, settings: SharingSettings) -> Option | None:
    """What is about half of what it has, if that would tell something that pays."""
    is_long = demand.remaining_s is None or demand.remaining_s >= settings.explore_remaining_s
    if demand.knowledge is not Knowledge.ONE_SIZE or demand.current is None or not is_long:
        return None
    now = quota.share(Amount.of(demand.current))
    alike = [one for one in demand.options if _has_same_nodes(one.configuration, demand.current)]
    sized = [(quota.share(Amount.of(one.configuration)), one) for one in alike]
    possible = [(abs(share - now / 2), -one.rate, number) for number, (share, one) in enumerate(sized)]
    possible = [entry for entry in possible if LEAST * now <= sized[entry[2]][0] <= MOST * now]
    return sized[min(possible)[2]][1] if possible else None


def _has_same_nodes(one: Configuration, other: Configuration) -> bool:
    """They differ in the number of workers alone: that takes no node to be replaced."""
    return replace(one, worker=replace(one.worker, replicas=other.worker.replicas)) == other


def _is_contended(demands: Sequence[Demand], found: Sequence[Option], settings: SharingSettings) -> bool:
    """Somebody would be faster with more."""
    for demand, option in zip(demands, found, strict=True):
        best = max(one.rate for one in demand.options)
        if option.rate * (1.0 + settings.hysteresis) < best:
            return True
    return False


def _more(demand: Demand, option: Option) -> Amount:
    """Beside its minimum, which is not free any more."""
    return Amount.of(option.configuration).excess(Amount.of(demand.minimum))


def _grow(
    quota: Quota,
    demands: Sequence[Demand],
    free: Amount,
    settings: SharingSettings,
    fixed: dict[str, Option],
    others: int,
) -> list[Option]:
    elastic = [demand for demand in demands if demand.job not in fixed]
    grown = dict(
        zip((one.job for one in elastic), grow(quota, elastic, free, settings, others=others + len(fixed)), strict=True)
    )
    return [fixed[one.job] if one.job in fixed else grown[one.job] for one in demands]
