"""What the cluster itself measures of a job's Pods, where it does: ``metrics.k8s.io``, which the metrics server serves.

Agents read the same from their containers every second. This is for nodes whose agent does not report, so it is polled at a slow
pace; where the group is not served, or may not be read, it is only tried again now and then.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from pliant.core.errors import PermanentError, PliantError
from pliant.platforms.base import Measured
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import POD_METRICS, Object

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 30.0  # seconds; a metrics server measures about as often
RETRY_ABSENT_S = 300.0  # seconds until it is tried again where it is not served
MB = 1 << 20
# As the API machinery writes quantities; a metrics server uses n (billionths of a core) and Ki.
SCALES = {
    **{"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15},
    **{"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50},
}


async def measured(
    api: KubeApi, job: str, namespace: str, *, every: float = POLL_INTERVAL_S, absent: float = RETRY_ABSENT_S
) -> AsyncIterator[Sequence[Measured]]:
    """For ever, what was measured last of each of the job's nodes."""
    logged = False
    while True:
        pause = every
        try:
            listing = await api.list(POD_METRICS, namespace, labels=names.job_selector(job))
            yield tuple(readings(job, listing.items))
            logged = False
        except PermanentError as error:  # not served, or no right to read it
            pause = absent
            log.debug("metrics.k8s.io is not available: %s", error.message)
        except PliantError as error:
            log.log(logging.DEBUG if logged else logging.INFO, "metrics.k8s.io: %s", error.message)
            logged = True
        await asyncio.sleep(pause)


def readings(job: str, pods: Iterable[Object]) -> list[Measured]:
    """Of nodes; what cannot be read is left out."""
    found = []
    for pod in pods:
        node = str(pod["metadata"]["name"]).removeprefix(f"{job}-")
        if node in (names.MASTER_ROLE, pod["metadata"]["name"]):
            continue
        containers = {each.get("name"): each.get("usage") or {} for each in pod.get("containers") or ()}
        usage = containers.get(names.CONTAINER)
        if usage is None:
            continue
        cpu, memory = amount(usage.get("cpu")), amount(usage.get("memory"))
        if cpu is not None and memory is not None:
            found.append(Measured(node, cpu, memory / MB))
    return found


def amount(text: Any) -> float | None:
    """A quantity such as ``12345n`` or ``65536Ki``, in cores or bytes."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?)([A-Za-z]*)", str(text))
    if match is None or match[2] not in SCALES:
        return None
    return float(match[1]) * SCALES[match[2]]
