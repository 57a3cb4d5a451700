"""Who runs at all: minimums first, in the order of priority, then arrival.

- A manual job counts as it is. A job that runs keeps its minimum whatever others want. Two things end that: a quota that was
  lowered below the minimums suspends preemptible jobs, the lowest first; and *preemption*: if the minimum of a job that waits
  does not fit, preemptible jobs of strictly lower priority are suspended, of the lowest priorities that suffice as few as a
  greedy choice finds, and only if that makes it fit.
- A job whose minimum does not fit waits, and smaller ones behind it go first: nobody is blocked by it. That ends after
  ``patience_s``: from then on nobody behind it is admitted, so what others free adds up until it fits. What jobs have beyond
  their minimum never stands in the way, since minimums come first. So of jobs of one priority, and of higher ones that end,
  nobody starves, as long as the minimum would fit beside the manual jobs at all; one that would not blocks nobody, ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pliant.core.planning.sharing.demand import Amount, Demand, Quota, SharingSettings


@dataclass(slots=True)
class Admission:
    admitted: list[Demand] = field(default_factory=list)  # to at least their minimum
    manual: list[Demand] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # why, for people
    free: Amount = field(default_factory=Amount)  # beside manual jobs and minimums


def rank(demand: Demand) -> tuple[int, float, str]:
    """The order in which jobs are served."""
    return (-demand.priority, demand.arrived, demand.job)


def admit(quota: Quota, demands: Sequence[Demand], now: float, settings: SharingSettings) -> Admission:
    ordered = sorted(demands, key=rank)
    found = Admission()
    found.manual = [demand for demand in ordered if demand.is_manual and demand.current is not None]
    manual = Amount.sum(Amount.of(demand.current) for demand in found.manual)
    found.free = quota.room(manual)
    running = [demand for demand in ordered if demand.current is not None and not demand.is_manual]
    _keep_running(found, running)
    reserved = ""
    for demand in (demand for demand in ordered if demand.current is None):
        needed = Amount.of(demand.minimum)
        if not needed.fits(quota.room()):
            found.refused[demand.job] = f"its minimum ({needed}) exceeds the quota {quota.name} ({quota.limit})"
        elif reserved:
            found.refused[demand.job] = f"waits behind {reserved}"
        elif needed.fits(found.free) or _preempt(found, quota, demand, needed):
            found.admitted.append(demand)
            found.free -= needed
        else:
            waited = now - demand.arrived
            found.refused[demand.job] = f"waits: its minimum ({needed}) does not fit into what is free of {quota.name}"
            if waited >= settings.patience_s and needed.fits(quota.room(manual)):
                reserved = f"{demand.job}, which has waited for {waited:.0f} s"
    found.admitted.sort(key=rank)
    return found


def _keep_running(found: Admission, running: Sequence[Demand]) -> None:
    for demand in sorted(running, key=lambda one: one.is_preemptible):  # stable: in their order otherwise
        needed = Amount.of(demand.minimum)
        if demand.is_preemptible and not needed.fits(found.free):
            found.refused[demand.job] = f"suspended: its minimum ({needed}) no longer fits into the quota"
            continue
        found.admitted.append(demand)
        found.free -= needed


def _preempt(found: Admission, quota: Quota, demand: Demand, needed: Amount) -> bool:
    """Whether suspending others makes room for it; then they are."""
    possible = [
        one
        for one in found.admitted
        if one.is_preemptible and one.current is not None and one.priority < demand.priority
    ]
    for ceiling in sorted({one.priority for one in possible}):
        victims = [one for one in possible if one.priority <= ceiling]
        if not needed.fits(found.free + Amount.sum(Amount.of(one.minimum) for one in victims)):
            continue
        chosen = _fewest(quota, victims, needed, found.free)
        for victim in chosen:
            found.refused[victim.job] = f"suspended for {demand.job}, whose priority is higher ({demand.priority})"
        found.admitted = [one for one in found.admitted if one not in chosen]
        found.free += Amount.sum(Amount.of(one.minimum) for one in chosen)
        return True
    return False


def _fewest(quota: Quota, victims: Sequence[Demand], needed: Amount, free: Amount) -> list[Demand]:
    """The largest first until it fits; then those that turn out not to be needed, the highest in rank first, go on."""
    missing = quota.counted(needed.excess(free))
    chosen: list[Demand] = []
    for victim in sorted(victims, key=lambda one: (-_relief(missing, one), *_lowest_first(one))):
        if needed.fits(free):
            break
        chosen.append(victim)
        free += Amount.of(victim.minimum)
    for victim in sorted(chosen, key=rank):
        without = free - Amount.of(victim.minimum)
        if needed.fits(without):
            chosen.remove(victim)
            free = without
    return chosen


def _relief(missing: Amount, demand: Demand) -> float:
    """How much of what is missing it would free, at most all of it."""
    pairs = zip(Amount.of(demand.minimum).values, missing.values, strict=True)
    return min((min(1.0, held / lacking) for held, lacking in pairs if lacking > 0), default=0.0)


def _lowest_first(demand: Demand) -> tuple[int, float, str]:
    return (demand.priority, -demand.arrived, demand.job)
