"""How the jobs of one quota share it: who runs (``admission.py``), who gets what is left (``growth.py``), and who tries another
size so that it becomes known who needs it (``exploration.py``). Pure, deterministic.

Promises, held by ``tests/core/planning/sharing/test_share_quota.py``:

- Shares fit into the quota, unless manual jobs or minimums of jobs that run and are not preemptible exceed it by themselves.
- A job has a configuration of its options, at least its minimum, or nothing; a manual one has what it had.
- A job that runs gets nothing only if it is preemptible, and for a job of strictly higher priority or a lower quota.
- In constant conditions it comes to rest: whatever it changes raises the sum of utilities, and by more than the change costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pliant.core.errors import InvalidRequest
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.sharing.admission import admit, rank
from pliant.core.planning.sharing.demand import Demand, Knowledge, Option, Quota, Share, SharingSettings
from pliant.core.planning.sharing.exploration import explore


def share_quota(
    quota: Quota, demands: Sequence[Demand], now: float, settings: SharingSettings | None = None
) -> tuple[Share, ...]:
    """In the order of priority, then arrival: the order in which they are granted."""
    if len({demand.job for demand in demands}) < len(demands):
        raise InvalidRequest(f"a job demands of the quota {quota.name} twice")
    settings = settings or SharingSettings()
    found = admit(quota, demands, now, settings)
    fixed = [demand for demand in found.admitted if demand.is_manual]  # it starts with what a person asked for
    elastic = [demand for demand in found.admitted if not demand.is_manual]
    others = len(found.manual) + len(fixed)
    options = explore(quota, elastic, found.free, settings, others=others)
    shares = {job: Share(job, None, why) for job, why in found.refused.items()}
    shares |= {one.job: Share(one.job, one.current, "a person's: counts as it is") for one in found.manual}
    shares |= {one.job: Share(one.job, one.minimum, "a person's: counts as it is") for one in fixed}
    for demand, option in zip(elastic, options, strict=True):
        shares[demand.job] = Share(demand.job, option.configuration, _reason(quota, demand, option))
    return tuple(shares[demand.job] for demand in sorted(demands, key=rank))


def _reason(quota: Quota, demand: Demand, option: Option) -> str:
    if demand.knowledge is Knowledge.TRYING and option.configuration == demand.current:
        return "keeps what it has until that is measured"
    if option.configuration == demand.current:
        return f"keeps what it has of {quota.name}: another division would not pay for the change"
    best = max(demand.options, key=lambda one: one.rate)
    if option.configuration == best.configuration:
        return "its best"
    if demand.knowledge is Knowledge.ONE_SIZE and demand.current is not None and _is_less(demand.current, option):
        return f"tries less: only one size of it was ever measured, and others could use the rest of {quota.name}"
    of_best = f"{option.rate / best.rate:.0%} of its best speed" if best.rate > 0 else "its speed is unknown"
    if option.configuration == demand.minimum:
        return f"its minimum: others gain more by the rest of {quota.name} ({of_best})"
    return f"the most useful division of {quota.name}: {of_best}"


def _is_less(current: Configuration, option: Option) -> bool:
    return option.configuration.cpu < current.cpu
