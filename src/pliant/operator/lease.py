"""Who acts: the one operator that holds the Lease. Others stand by and take over when it is silent.

A holder writes the Lease every ``RENEW`` seconds. It may act for ``TRUST`` seconds after the moment in which it *began* the
last write that succeeded; another takes over only after it has seen the same record for ``DURATION`` seconds, by its own
clock. TRUST is less than DURATION, so however long a process is frozen and however the clocks differ, two never act at once.
What was about to be written when the time ran out is given up (``fenced``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from pliant.core.errors import Conflict, NotFound, PliantError, RetryableError
from pliant.operator.seen import micro_time
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import LEASES, Object

log = logging.getLogger(__name__)

DURATION = 15.0  # seconds of silence after which a holder is taken for dead
TRUST = 10.0  # seconds that a holder may act after it began its last renewal
RENEW = 3.0  # seconds between two renewals, or two looks
LEAST_TIME = 0.5  # seconds that must be left for a write to begin


class NotActing(RetryableError):
    """Another operator may be acting: nothing is written."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A record of the Lease, and since when it is seen unchanged."""

    holder: str
    renewed: str
    since: float


def may_take(sight: Sight, me: str, duration: float, now: float) -> bool:
    """Whether the Lease can be written by ``me``: it is ours, free, or its holder has been silent for too long."""
    return sight.holder in ("", me) or now - sight.since > duration


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
        self.last_look = clock()
        self._api, self._clock, self._on_change = api, clock, on_change
        self._until = 0.0  # by our clock: we may act
        self._was_held = False
        self._sight: Sight | None = None

    @property
    def held(self) -> bool:
        return self.remaining() > 0

    @property
    def lapsed(self) -> bool:
        """It ran out and may be renewed at any moment, of which nobody is told: ``on_change`` tells what ``run`` sees."""
        return self._was_held and not self.held

    def remaining(self) -> float:
        return self._until - self._clock()

    @contextlib.asynccontextmanager
    async def fenced(self) -> AsyncIterator[None]:
        """Around each write: it begins only while we hold the Lease, and is given up when that ends."""
        left = self.remaining()
        if left < LEAST_TIME:
            raise NotActing("this operator does not hold the lease")
        try:
            async with asyncio.timeout(left):
                yield
        except TimeoutError:
            raise NotActing("the lease ran out during a call") from None

    async def run(self) -> None:
        """Hold it, or stand by, for ever."""
        while True:
            try:
                async with asyncio.timeout(TRUST):
                    await self._look()
            except (RetryableError, Conflict, TimeoutError) as error:
                log.info("the lease was not renewed: %s", error)
            except PliantError as error:
                log.error("cannot use the lease %s/%s: %s", self.namespace, self.name, error)
            self.last_look = self._clock()
            self._tell()
            await asyncio.sleep(RENEW)

    async def release(self) -> None:
        """Let the next one act at once."""
        if not self.held:
            return
        self._until = 0.0
        self._tell()
        with contextlib.suppress(PliantError, TimeoutError):
            async with asyncio.timeout(3.0):
                found = await self._api.get(LEASES, self.name, self.namespace)
                if found["spec"].get("holderIdentity") == self.identity:
                    spec = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._api.replace(LEASES, {**found, "spec": spec}, self.namespace)
                    log.info("released the lease")

    async def _look(self) -> None:
        began = self._clock()
        try:
            found = await self._api.get(LEASES, self.name, self.namespace)
        except NotFound:
            await self._api.create(
                LEASES, {"metadata": {"name": self.name}, "spec": self._record(None)}, self.namespace
            )
            self._until = began + TRUST
            return
        spec = found.get("spec") or {}
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        if self._sight is None or (self._sight.holder, self._sight.renewed) != (holder, renewed):
            self._sight = Sight(holder, renewed, self._clock())
        duration = max(DURATION, float(spec.get("leaseDurationSeconds") or DURATION))
        if not may_take(self._sight, self.identity, duration, self._clock()):
            return
        if holder == self.identity and not self.held:
            log.warning("the lease was not renewed in time; taking it again")
        began = self._clock()
        await self._api.replace(LEASES, {**found, "spec": self._record(spec)}, self.namespace)
        self._until = began + TRUST

    def _record(self, before: Object | None) -> Object:
        before = before or {}
        now, mine = micro_time(time.time()), before.get("holderIdentity") == self.identity
        changes = int(before.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": before.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": changes if mine or not before else changes + 1,
        }

    def _tell(self) -> None:
        if self.held != self._was_held:
            self._was_held = self.held
            log.info("this operator %s", "acts now" if self._was_held else "stands by")
            self._on_change(self._was_held)
