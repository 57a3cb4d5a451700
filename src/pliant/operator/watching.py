"""kopf's part: the watches. Its raw events go into the store; it changes nothing in the cluster.

kopf runs in a thread with an event loop of its own, since it takes every task of its loop for its own when it ends. It keeps
its watches over lost connections, and lists again when it must (410 Gone), without reporting what was deleted meanwhile; so
after such a list (events without a type) we list once more ourselves and update the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import kopf

from pliant.operator.store import KINDS
from pliant.platforms.kubernetes.kinds import PODS, Kind, Object
from pliant.platforms.kubernetes.names import JOB_LABEL

log = logging.getLogger(__name__)

WATCH_SECONDS = 300
OnEvent = Callable[[Kind, str | None, Object], None]  # kind, type of the event (None: in a list), object


class Watches:
    def __init__(self, namespaces: Sequence[str], on_event: OnEvent, *, renew: int = WATCH_SECONDS) -> None:
        """``renew``: seconds that the server keeps one watch open; the next one resumes where it ended."""
        self._namespaces, self._on_event, self._renew = tuple(namespaces), on_event, renew
        self._loop = asyncio.get_running_loop()
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watches", daemon=True)
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join, 5.0)

    def _run(self) -> None:
        try:
            asyncio.run(
                kopf.operator(
                    registry=self._registry(),
                    settings=_settings(self._renew),
                    standalone=True,
                    clusterwide=not self._namespaces,
                    namespaces=self._namespaces,
                    stop_flag=self._stop,
                    ready_flag=self._ready,
                )
            )
        except BaseException as error:  # a supervision boundary: the main thread ends the process
            self.error = error
            log.exception("the watches stopped")

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(_login)
        for kind in KINDS:
            self._add(registry, kind)
        return registry

    def _add(self, registry: kopf.OperatorRegistry, kind: Kind) -> None:
        async def forward(event: Any, **_: Any) -> None:
            item = {**event["object"], "metadata": dict(event["object"]["metadata"])}
            with contextlib.suppress(RuntimeError):  # our loop has ended
                self._loop.call_soon_threadsafe(self._on_event, kind, event["type"], item)

        labels = {JOB_LABEL: kopf.PRESENT} if kind is PODS else None
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, labels=labels, id=kind.plural)(forward)


class NoDiffBase(kopf.DiffBaseStorage):
    """kopf deep-copies every object to diff it against the last handled version, which nothing here needs."""

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        return None

    def fetch(self, *, body: Any) -> Any:
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        raise NotImplementedError("nothing is handled by kopf, so nothing is stored")


def _login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    found = kopf.login_with_kubeconfig(**kwargs)
    if found is None and (found := kopf.login_with_service_account(**kwargs)) is not None:
        # kopf goes by the name of the API server's Service. Its address is known to every Pod and needs no cluster DNS.
        host, port = (os.environ[f"KUBERNETES_SERVICE_{what}"] for what in ("HOST", "PORT"))
        found = dataclasses.replace(found, server=f"https://{f'[{host}]' if ':' in host else host}:{port}")
    return found


def _settings(renew: int) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.scanning.disabled = True  # of CRDs and namespaces: both are known, and it would need more rights
    settings.watching.server_timeout = renew
    settings.watching.reconnect_backoff = 0.2
    settings.watching.label_selectors[PODS.plural] = JOB_LABEL  # the server sends only Pods of jobs
    return settings
