"""What the Pods of a job wrote, each line prefixed with the node's name, as ``handles.program_output`` prints log files.

A task per container reads its log from the API server; lines meet in a queue, and ``show_new`` prints what is there. When
following, new Pods are read too; a connection that breaks is resumed after the last line that was read, by the time stamps
of the lines; and a container that was restarted in its Pod is read again from its beginning.
"""

from __future__ import annotations

import asyncio
import queue
import re
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import InvalidRequest, NotFound, RetryableError
from pliant.handles.job_handle import LinePrinter
from pliant.handles.kubernetes.session import Session
from pliant.handles.program_output import role_of
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import PODS, Object
from pliant.platforms.kubernetes.names import CONTAINER, MASTER_ROLE, ROLE_LABEL, job_selector, node_of

MAX_AT_ONCE = 5_000  # lines per call of ``show_new``; a program that floods does not stall the display
MAX_QUEUED = 20_000  # lines that were read and not printed yet; then reading waits
DRAIN_TIMEOUT_S = 20.0  # for the logs of an ended job to arrive
RETRY_INTERVAL_S = 0.5  # before a log whose connection broke is opened again
STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?")
# What a kubelet sends as if it were the log, of a container that was removed a moment ago.
NO_LOG = re.compile(
    r"unable to retrieve container logs for |rpc error: code = |failed to try resolving symlinks in path "
)


@dataclass(slots=True)
class LogCursor:
    """How far a log was read: each line is returned once, although a resumed log repeats up to a second of lines."""

    since: str = ""
    _skipping: bool = False

    def take(self, line: str) -> str | None:
        """The line without its time stamp; None: it was returned before."""
        stamp = STAMP.match(line)
        if stamp is None:  # the rest of a line that has a line break of another kind in it
            return None if self._skipping or NO_LOG.match(line) else line
        self._skipping = bool(self.since) and _key(stamp[1]) <= _key(self.since)
        if self._skipping:
            return None
        self.since = stamp[1]
        return line[stamp.end() :]


def _key(stamp: str) -> tuple[str, str]:
    """In order of time: the server leaves out zeros at the end of a fraction."""
    whole, _, rest = stamp.removesuffix("Z").partition(".")
    return whole, rest.ljust(9, "0")


class PodOutput:
    def __init__(
        self,
        session: Session,
        job: str,
        printer: LinePrinter,
        *,
        nodes: frozenset[str] | None = None,
        hidden_roles: frozenset[str] = frozenset(),
        tail: int | None = None,
        follow: bool = False,
    ) -> None:
        self._session = session
        self._api: KubeApi = session.api
        self._job = job
        self._printer = printer
        self._nodes = nodes
        self._hidden_roles = hidden_roles
        self._tail = tail
        self._lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._readers: dict[tuple[str, int], asyncio.Task[None]] = {}  # by uid of the Pod and starts of its container
        self._over = False
        self._work: Future[None] = session.start(self._follow() if follow else self._read_all())

    def show_new(self) -> bool:
        if self._work.done():
            self._work.result()  # raises what ended it, such as a missing permission
        return self._show(MAX_AT_ONCE)

    def fileno(self) -> int:
        return -1

    def finish(self) -> None:
        """The job is over: what is still arriving is printed."""
        self._over = True
        while not self._work.done() or not self._lines.empty():
            if not self._show(MAX_AT_ONCE):
                try:
                    self._work.result(timeout=0.1)
                except TimeoutError:
                    continue
        self._work.result()

    def _show(self, max_lines: int) -> bool:
        for shown in range(max_lines):
            try:
                node, line = self._lines.get_nowait()
            except queue.Empty:
                return shown > 0
            self._printer(node, line)
        return True

    # --- on the session's event loop

    async def _read_all(self) -> None:
        for pod in await self._pods():
            if (starts := starts_of(pod)) is None:
                continue
            if starts > 0:
                await self._copy(pod, previous=True)
            await self._copy(pod)

    async def _follow(self) -> None:
        watch = asyncio.create_task(self._watch())
        try:
            while not self._over:
                done, _ = await asyncio.wait({watch}, timeout=0.1)
                if done:
                    watch.result()
            for pod in await self._pods():
                self._begin(pod)
            if self._readers:
                await asyncio.wait(self._readers.values(), timeout=DRAIN_TIMEOUT_S)
        finally:
            for task in (watch, *self._readers.values()):
                task.cancel()
            await asyncio.gather(watch, *self._readers.values(), return_exceptions=True)

    async def _watch(self) -> None:
        labels = job_selector(self._job)
        async for change in self._api.follow(PODS, self._session.namespace, labels=labels):
            if not change.gone:
                self._begin(change.object)

    async def _pods(self) -> list[Object]:
        listing = await self._api.list(PODS, self._session.namespace, labels=job_selector(self._job))
        found = [pod for pod in listing.items if self._wanted(pod)]
        return sorted(found, key=lambda pod: (len(label_of(pod)), label_of(pod)))

    def _wanted(self, pod: Object) -> bool:
        label = label_of(pod)
        if self._nodes is not None:
            return label in self._nodes
        return label != MASTER_ROLE and role_of(label) not in self._hidden_roles

    def _begin(self, pod: Object) -> None:
        starts = starts_of(pod)
        if starts is None or not self._wanted(pod):
            return
        key = (str(pod["metadata"]["uid"]), starts)
        if key not in self._readers:
            self._readers[key] = asyncio.create_task(self._read(pod, starts))

    async def _read(self, pod: Object, starts: int) -> None:
        """One run of a container, to its end."""
        cursor, tail = LogCursor(), self._tail
        while True:
            try:
                lines = self._api.logs(
                    pod["metadata"]["name"],
                    self._session.namespace,
                    container=CONTAINER,
                    follow=True,
                    tail=tail,
                    since=cursor.since,
                    timestamps=True,
                )
                async for line in lines:
                    tail = None
                    if (text := cursor.take(line)) is not None:
                        await self._put(pod, text)
            except NotFound:
                return
            except (RetryableError, InvalidRequest):
                pass  # of the connection, or the container does not run yet
            now = await self._api.find(PODS, pod["metadata"]["name"], self._session.namespace)
            if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"] or starts_of(now) != starts:
                return
            if has_ended(now):
                return
            await asyncio.sleep(RETRY_INTERVAL_S)

    async def _copy(self, pod: Object, *, previous: bool = False) -> None:
        lines = self._api.logs(
            pod["metadata"]["name"],
            self._session.namespace,
            container=CONTAINER,
            tail=self._tail,
            previous=previous,
        )
        try:
            async for line in lines:
                if not NO_LOG.match(line):
                    await self._put(pod, line)
        except (NotFound, InvalidRequest):
            return  # it is gone, or was never there

    async def _put(self, pod: Object, line: str) -> None:
        while self._lines.qsize() > MAX_QUEUED:
            await asyncio.sleep(0.05)
        self._lines.put((label_of(pod), line))


def label_of(pod: Object) -> str:
    """The node, or ``master``."""
    labels: dict[str, Any] = pod["metadata"].get("labels") or {}
    return node_of(pod) or str(labels.get(ROLE_LABEL) or MASTER_ROLE)


def starts_of(pod: Object) -> int | None:
    """How often the container was started again; None: it was never started."""
    state = _container(pod)
    if state is None or not ({"running", "terminated"} & (state.get("state") or {}).keys() or state.get("lastState")):
        return None
    return int(state.get("restartCount", 0))


def has_ended(pod: Object) -> bool:
    state = _container(pod)
    return state is None or "terminated" in (state.get("state") or {})


def _container(pod: Object) -> Object | None:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return next((status for status in statuses if status["name"] == CONTAINER), None)
