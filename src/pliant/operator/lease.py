"""Leader election by a Lease: its holder leads, the others stand by and take over when it stops renewing.

The holder renews the Lease every ``RETRY_PERIOD_S``. It leads until ``RENEW_DEADLINE_S`` after the moment in which it *began* the
last successful renewal; another takes over only after it has observed the same record for ``LEASE_DURATION_S``, by its own
clock. The deadline is shorter than the duration, so however long a process is frozen and however the clocks differ, two
never lead at once. A write that is in flight when the time runs out is abandoned (``fenced``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from pliant.core.errors import Conflict, NotFound, PliantError, RetryableError
from pliant.operator.observed import micro_time
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import LEASES, Object

log = logging.getLogger(__name__)

LEASE_DURATION_S = 15.0  # without a renewal, after which another may take over
RENEW_DEADLINE_S = 10.0  # after the start of the last renewal, until which the holder leads
RETRY_PERIOD_S = 3.0  # between two attempts to acquire or renew
MIN_WRITE_TIME_S = 0.5  # that must be left for a write to begin


class NotLeading(RetryableError):
    """Another operator may lead: nothing may be written."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The Lease as last observed, and since when it has not changed."""

    holder: str
    renewed: str
    since: float


def can_acquire(record: LeaseRecord, me: str, duration: float, now: float) -> bool:
    """Whether ``me`` may write the Lease: it is ours, it is free, or its holder stopped renewing it."""
    return record.holder in ("", me) or now - record.since > duration


class Lease:
    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        name: str,
        identity: str,
        *,
        on_change: Callable[[bool], None] = lambda held: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity, self.namespace, self.name = identity, namespace, name
        self.last_attempt = clock()
        self._api, self._clock, self._on_change = api, clock, on_change
        self._until = 0.0  # by our clock: we lead
        self._was_held = False
        self._observed: LeaseRecord | None = None

    @property
    def held(self) -> bool:
        return self.remaining() > 0

    @property
    def is_lapsed(self) -> bool:
        """It ran out, and ``run`` has not noticed: it may be renewed at any moment without a call of ``on_change``."""
        return self._was_held and not self.held

    def remaining(self) -> float:
        return self._until - self._clock()

    @contextlib.asynccontextmanager
    async def fenced(self) -> AsyncIterator[None]:
        """Around each write: it begins only while we hold the Lease, and is abandoned when the Lease runs out."""
        left = self.remaining()
        if left < MIN_WRITE_TIME_S:
            raise NotLeading("this operator does not hold the lease")
        try:
            async with asyncio.timeout(left):
                yield
        except TimeoutError:
            raise NotLeading("the lease expired during a call") from None

    async def run(self) -> None:
        """Acquire and renew it, for ever."""
        while True:
            try:
                async with asyncio.timeout(RENEW_DEADLINE_S):
                    await self._acquire_or_renew()
            except (RetryableError, Conflict, TimeoutError) as error:
                log.info("cannot renew the lease: %s", error)
            except PliantError as error:
                log.error("cannot use the lease %s/%s: %s", self.namespace, self.name, error)
            self.last_attempt = self._clock()
            self._notify()
            await asyncio.sleep(RETRY_PERIOD_S)

    async def release(self) -> None:
        """Let another take over at once."""
        if not self.held:
            return
        self._until = 0.0
        self._notify()
        with contextlib.suppress(PliantError, TimeoutError):
            async with asyncio.timeout(3.0):
                found = await self._api.get(LEASES, self.name, self.namespace)
                if found["spec"].get("holderIdentity") == self.identity:
                    spec = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._api.replace(LEASES, {**found, "spec": spec}, self.namespace)
                    log.info("released the lease")

    async def _acquire_or_renew(self) -> None:
        started_at = self._clock()
        try:
            found = await self._api.get(LEASES, self.name, self.namespace)
        except NotFound:
            await self._api.create(
                LEASES, {"metadata": {"name": self.name}, "spec": self._new_spec(None)}, self.namespace
            )
            self._until = started_at + RENEW_DEADLINE_S
            return
        spec = found.get("spec") or {}
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        if self._observed is None or (self._observed.holder, self._observed.renewed) != (holder, renewed):
            self._observed = LeaseRecord(holder, renewed, self._clock())
        duration = max(LEASE_DURATION_S, float(spec.get("leaseDurationSeconds") or LEASE_DURATION_S))
        if not can_acquire(self._observed, self.identity, duration, self._clock()):
            return
        if holder == self.identity and not self.held:
            log.warning("the lease was not renewed in time; acquiring it again")
        started_at = self._clock()
        await self._api.replace(LEASES, {**found, "spec": self._new_spec(spec)}, self.namespace)
        self._until = started_at + RENEW_DEADLINE_S

    def _new_spec(self, before: Object | None) -> Object:
        before = before or {}
        now, mine = micro_time(time.time()), before.get("holderIdentity") == self.identity
        changes = int(before.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(LEASE_DURATION_S),
            "acquireTime": before.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": changes if mine or not before else changes + 1,
        }

    def _notify(self) -> None:
        if self.held != self._was_held:
            self._was_held = self.held
            log.info("this operator %s", "is now the leader" if self._was_held else "is standing by")
            self._on_change(self._was_held)
