"""The operator as a process: the client, the store, kopf's watches, the lease, the reconcilers, and the port for probes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from dataclasses import dataclass, field

from pliant.core.errors import NotFound, PermanentError, PliantError, RetryableError
from pliant.operator.executor import Executor
from pliant.operator.lease import LEASE_DURATION_S, Lease
from pliant.operator.reconciler import ReconcilerPool
from pliant.operator.store import KINDS, Store
from pliant.operator.watching import WATCH_SECONDS, Watches
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import PODS, Kind, Object
from pliant.platforms.kubernetes.names import GROUP, JOB_LABEL, VERSION
from pliant.platforms.kubernetes.pod_policy import PodPolicy
from pliant.rpc import http_pages

log = logging.getLogger(__name__)

LIST_SETTLE_S = 2.0  # without a further event of a list, after which the list counts as complete


def _identity() -> str:
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class Settings:
    namespaces: tuple[str, ...] = ()  # empty: all
    lease_name: str = "pliant-operator"
    lease_namespace: str = ""  # empty: that of the kubeconfig, or of the operator's Pod
    image: str = field(
        default_factory=lambda: os.environ.get("PLIANT_IMAGE", "pliant:latest")
    )  # where a job names none
    port: int = 8080  # 0: any free one
    watch_seconds: int = WATCH_SECONDS  # after which the server ends a watch; the next one resumes it
    identity: str = field(default_factory=_identity)
    policy: PodPolicy = field(default_factory=PodPolicy)  # what templates of jobs may have
    metrics_from: tuple[Object, ...] = ()  # who may read the metrics of masters; peers as in a NetworkPolicy


class Operator:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.api = KubeApi.load()
        namespace = settings.lease_namespace or os.environ.get("POD_NAMESPACE") or self.api.namespace or "default"
        self.lease = Lease(
            self.api,
            namespace,
            settings.lease_name,
            settings.identity,
            on_change=lambda held: self._lease_changed(held),
        )
        self.reconcilers = ReconcilerPool(self.lease)
        self.store = Store(self.reconcilers.wake)
        self.executor = Executor(
            self.api,
            self.lease,
            self.store,
            image=settings.image,
            policy=settings.policy,
            metrics_from=settings.metrics_from,
        )
        self.watches: Watches | None = None
        self._stop = asyncio.Event()
        self._listed: dict[Kind, float] = {}  # when the last event of a list arrived
        self._synced = False

    async def run(self) -> None:
        """Until SIGTERM or SIGINT. Raises if the operator cannot continue."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        pages = {"/healthz": self._health, "/readyz": self._ready, "/metrics": self._metrics}
        server = await http_pages.serve(self.settings.port, pages)
        port = server.sockets[0].getsockname()[1]
        where = ", ".join(self.settings.namespaces) or "all namespaces"
        log.info("operator %s for %s; health on port %d", self.settings.identity, where, port)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._until_stopped(self._initial_list())
            if self._stop.is_set():
                return
            self.reconcilers.start(self.store, self.executor)
            self.watches = Watches(self.settings.namespaces, self._on_event, renew=self.settings.watch_seconds)
            self.watches.start()
            tasks = [
                asyncio.create_task(work)
                for work in (self.lease.run(), self._relist_after_kopf(), self._supervise_watches())
            ]
            await self._stop.wait()
            for task in tasks:
                if task.done() and not task.cancelled() and (error := task.exception()):
                    raise error
        finally:
            await self.reconcilers.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.lease.release()
            if self.watches is not None:
                await self.watches.stop()
            server.close()
            await self.api.close()

    # --- watching

    async def _initial_list(self) -> None:
        """Wait for the custom resources, and list everything: nothing is decided on partial state."""
        has_warned = False
        while True:
            try:
                await self.api.request("GET", f"/apis/{GROUP}/{VERSION}", what="find the custom resources")
                await self._relist(KINDS)
                break
            except NotFound:
                if not has_warned:
                    log.warning(
                        "the custom resource definitions are not installed (deploy/helm/crds); waiting for them"
                    )
                has_warned = True
            except RetryableError as error:
                log.warning("%s", error)
            await asyncio.sleep(1.0)
        self._synced = True

    async def _relist(self, kinds: tuple[Kind, ...]) -> None:
        for kind in kinds:
            labels = JOB_LABEL if kind is PODS else ""
            for namespace in self.settings.namespaces or ("",):
                requested_at = time.monotonic()
                listing = await self.api.list(kind, namespace, labels=labels)
                only = (namespace,) if namespace else ()
                vanished = self.store.replace_listed(kind, listing.items, requested_at=requested_at, namespaces=only)
                if vanished:
                    log.info("%d %s were deleted while the operator was not watching", vanished, kind.plural)

    def _on_event(self, kind: Kind, event: str | None, item: Object) -> None:
        if event == "DELETED":
            self.store.remove(kind, item)
            return
        if event is None:
            self._listed[kind] = time.monotonic()
        self.store.put(kind, item)

    async def _relist_after_kopf(self) -> None:
        """Our own initial list covers kopf's first one; after each later one (410 Gone) we list again."""
        first: set[Kind] = set()
        while True:
            await asyncio.sleep(LIST_SETTLE_S)
            settled = [kind for kind, last in self._listed.items() if time.monotonic() - last > LIST_SETTLE_S]
            for kind in settled:
                del self._listed[kind]
            again = tuple(kind for kind in settled if kind in first)
            first.update(settled)
            if again:
                with contextlib.suppress(RetryableError):
                    await self._relist(again)

    # --- staying alive

    def _lease_changed(self, held: bool) -> None:
        if held:
            self.reconcilers.wake_all()

    async def _supervise_watches(self) -> None:
        """End the process when the watches have died; Kubernetes restarts it."""
        while True:
            await asyncio.sleep(1.0)
            if self.watches is not None and not self.watches.alive:
                self._stop.set()
                raise PermanentError(f"the watches stopped: {self.watches.error}")

    async def _until_stopped(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if task.done():
            task.result()
        else:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _health(self) -> tuple[int, str]:
        idle = time.monotonic() - self.lease.last_attempt
        if self._synced and idle > 3 * LEASE_DURATION_S:
            return 500, f"leader election has been stuck for {idle:.0f} s\n"
        if self.watches is not None and not self.watches.alive:
            return 500, "the watches stopped\n"
        return 200, "leading\n" if self.lease.held else "standing by\n"

    def _ready(self) -> tuple[int, str]:
        return (200, "ready\n") if self._synced else (503, "waiting for the custom resources\n")

    def _metrics(self) -> tuple[int, str]:
        lines = [
            "# TYPE pliant_operator_leading gauge",
            f"pliant_operator_leading {int(self.lease.held)}",
            "# TYPE pliant_operator_objects gauge",
            *(f'pliant_operator_objects{{kind="{kind.plural}"}} {self.store.count(kind)}' for kind in KINDS),
            "# TYPE pliant_operator_api_calls_total counter",
            *(
                f'pliant_operator_api_calls_total{{call="{call}"}} {count}'
                for call, count in sorted(self.api.calls.items())
            ),
        ]
        return 200, "\n".join(lines) + "\n"


def run(settings: Settings) -> None:
    async def main() -> None:
        await Operator(settings).run()

    try:
        asyncio.run(main())
    except PliantError as error:
        log.error("%s", error)
        raise
