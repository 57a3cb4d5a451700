"""The one client of the Kubernetes API: JSON in and out, typed errors, deadlines, and watches that miss nothing.

``KubeApi`` is used by the platform (in the master), by the operator and by the CLI. It adds three things to plain requests:

- Errors are of Pliant's tree (``errors``): what passes by itself is a ``RetryableError``, a missing right is named.
- Each call has a deadline. What may be sent twice is tried again until then, with back-off, or as late as the server asks.
  A ``create`` with a fixed name may be sent twice too: at worst it ends as ``AlreadyExists``, which says that it is there.
- ``follow`` is a list and then a watch: with bookmarks it resumes after a lost connection, and if that
  is too long ago (410 Gone) it lists again, compares, and also reports what vanished meanwhile.

Configuration is found as kubectl finds it: ``KUBECONFIG``, else inside a Pod its service account, else ``~/.kube/config``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx2 as httpx
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from pliant.core.errors import NotFound, PermanentError, RetryableError
from pliant.core.nodes.fault_policy import Backoff
from pliant.platforms.kubernetes.errors import ApiUnavailable, Gone, error_of
from pliant.platforms.kubernetes.kinds import Kind, Object

log = logging.getLogger(__name__)
logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line per request would drown what a master has to say

DEADLINE = 30.0  # seconds for a call with all its tries
TRY_SECONDS = 15.0  # for one of them
WATCH_SECONDS = 240  # the server ends a watch after this; the next one resumes there
PAGE = 500  # objects per page of a list
RETRIES = Backoff(0.2, 2.0, 5.0)
RECONNECTS = Backoff(0.1, 2.0, 10.0)
# A peer that vanished (power loss, a cut cable) is noticed after half a minute, also by a watch on which nothing happens.
KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (
            ("TCP_KEEPIDLE", 15),
            ("TCP_KEEPINTVL", 5),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 30_000),
        )
        if hasattr(socket, name)
    ),
]
MERGE, APPLY, JSON_PATCH = (
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
)


@dataclass(frozen=True, slots=True)
class Listing:
    items: list[Object]
    resource_version: str  # to watch from


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """As the API server sends it. A bookmark has an object with nothing but its resource version."""

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    object: Object

    @property
    def resource_version(self) -> str:
        return str(self.object["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class Change:
    """One object is there, or not any more; ``object`` is its last known state."""

    object: Object
    gone: bool = False


@dataclass(slots=True)
class Follower:
    """What a ``follow`` has seen so far: after a re-list, what is not in it any more is gone."""

    known: dict[str, Object] = field(default_factory=dict)  # by uid
    version: str = ""  # empty: list first
    relists: int = 0

    def listed(self, listing: Listing) -> list[Change]:
        there = {item["metadata"]["uid"]: item for item in listing.items}
        gone = [Change(item, gone=True) for uid, item in self.known.items() if uid not in there]
        new = [
            Change(item)
            for uid, item in there.items()
            if uid not in self.known or _version(self.known[uid]) != _version(item)
        ]
        self.known, self.version, self.relists = there, listing.resource_version, self.relists + 1
        return [*gone, *new]

    def seen(self, event: WatchEvent) -> Change | None:
        self.version = event.resource_version
        if event.type == "BOOKMARK":
            return None
        uid = event.object["metadata"]["uid"]
        if event.type == "DELETED":
            self.known.pop(uid, None)
            return Change(event.object, gone=True)
        self.known[uid] = event.object
        return Change(event.object)


def _version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


class KubeApi:
    """``async with KubeApi.load() as api: await api.get(PODS, "x", "default")``."""

    def __init__(self, server: str, *, context: ssl.SSLContext | None, auth: httpx.Auth | None, namespace: str) -> None:
        self.server = server.rstrip("/")
        self.ssl = context  # None: plain HTTP
        self.namespace = namespace  # of the configuration
        self.calls: Counter[str] = Counter()  # "create pods" -> how often, tries included
        self._auth = auth
        self._http = httpx.AsyncClient(
            base_url=self.server,
            auth=auth,
            timeout=httpx.Timeout(TRY_SECONDS),
            transport=httpx.AsyncHTTPTransport(
                verify=context if context is not None else True,
                trust_env=False,
                limits=httpx.Limits(max_connections=64, max_keepalive_connections=32),
                socket_options=KEEPALIVE,
            ),
            trust_env=False,
        )

    @classmethod
    def load(cls, kubeconfig: str | Path | None = None, *, context: str | None = None) -> KubeApi:
        """By the file given, else as kubectl finds its configuration."""
        try:
            config = _find_config(kubeconfig, context)
            user = config.user or User()
            encrypted = config.cluster.server.startswith("https")
            verify = verify_cluster(config.cluster, user, config.abs_file) if encrypted else None
            return cls(config.cluster.server, context=verify, auth=user_auth(user), namespace=config.namespace)
        except (ConfigError, KeyError, OSError, ValueError) as error:
            raise PermanentError(
                f"no usable Kubernetes configuration: {error}",
                hint="set KUBECONFIG to the file that kubectl uses and check that `kubectl get pods` works",
            ) from error

    async def __aenter__(self) -> KubeApi:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    # --- one object

    async def get(self, kind: Kind, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        return await self.request(
            "GET", path_of(kind, namespace, name, subresource), what=_what("get", kind, namespace)
        )

    async def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """As ``get``; None if it is not there."""
        try:
            return await self.get(kind, name, namespace)
        except NotFound:
            return None

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        named = bool(body["metadata"].get("name"))
        path, what = path_of(kind, namespace), _what("create", kind, namespace)
        return await self.request("POST", path, whole, what=what, idempotent=named)

    async def replace(
        self, kind: Kind, body: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Write what was read; ``Outdated`` if another was faster."""
        path = path_of(kind, namespace, body["metadata"]["name"], subresource)
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        return await self.request("PUT", path, whole, what=_what("update", kind, namespace, subresource))

    async def patch(
        self, kind: Kind, name: str, patch: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """A merge patch: null removes a field, a list is replaced. With ``metadata.resourceVersion`` it may be Outdated."""
        path, what = path_of(kind, namespace, name, subresource), _what("patch", kind, namespace, subresource)
        return await self.request("PATCH", path, patch, what=what, content_type=MERGE)

    async def apply(
        self, kind: Kind, body: Mapping[str, Any], namespace: str = "", *, manager: str, subresource: str = ""
    ) -> Object:
        """Server-side apply, by force: the fields in ``body`` are ``manager``'s from now on."""
        path = path_of(kind, namespace, body["metadata"]["name"], subresource)
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        query = {"fieldManager": manager, "force": "true"}
        what = _what("patch", kind, namespace, subresource)
        return await self.request("PATCH", path, whole, what=what, query=query, content_type=APPLY)

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, grace: float | None = None, uid: str = ""
    ) -> bool:
        """Have it removed with all that it owns, in the background; False: it was not there (any more).

        ``grace``: seconds, rounded up; 0 forces. ``uid``: only this very one, not a later one of the same name.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = int(-(-grace // 1))
        if uid:
            options["preconditions"] = {"uid": uid}
        path, what = path_of(kind, namespace, name), _what("delete", kind, namespace)
        try:
            await self.request("DELETE", path, options, what=what)
        except NotFound:
            return False
        return True

    # --- many

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        """All of a namespace (none given: of the cluster), page by page."""
        what = _what("list", kind, namespace)
        query = _filter(labels, fields)
        items: list[Object] = []
        after = ""
        while True:
            page = {"limit": str(PAGE), **({"continue": after} if after else {})}
            try:
                answer = await self.request("GET", path_of(kind, namespace), what=what, query={**query, **page})
            except Gone:
                if not after:
                    raise
                items, after = [], ""  # the list took so long that its snapshot was compacted: from the beginning
                continue
            items += answer.get("items") or []
            after = answer["metadata"].get("continue") or ""
            if not after:
                return Listing(items, answer["metadata"]["resourceVersion"])

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        since: str,
        labels: str = "",
        fields: str = "",
        seconds: int = WATCH_SECONDS,
    ) -> AsyncIterator[WatchEvent]:
        """Events after a resource version, bookmarks included; ends when the server ends it. Raises ``Gone``."""
        query = {
            **_filter(labels, fields),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
        }
        what = _what("watch", kind, namespace)
        async with self._stream(path_of(kind, namespace), query, what=what, silence=seconds + TRY_SECONDS) as lines:
            async for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise error_of(
                        status.get("code", 500), status.get("reason", ""), status.get("message", ""), what=what
                    )
                yield WatchEvent(event["type"], event["object"])

    async def follow(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        follower: Follower | None = None,
        seconds: int = WATCH_SECONDS,
    ) -> AsyncIterator[Change]:
        """What is there, and then each change, for ever. Only what is permanent (a missing right) ends it.

        ``follower`` may hold what is known already: then only differences from that are reported.
        """
        state, failures = follower or Follower(), 0
        filters: dict[str, Any] = {"labels": labels, "fields": fields}
        while True:
            problem = "it ended immediately"
            try:
                if not state.version:
                    for change in state.listed(await self.list(kind, namespace, **filters)):
                        yield change
                began, silent = time.monotonic(), True
                async for event in self.watch(kind, namespace, since=state.version, seconds=seconds, **filters):
                    failures, silent = 0, False
                    change_seen = state.seen(event)
                    if change_seen is not None:
                        yield change_seen
                if not silent or time.monotonic() - began > 1.0:
                    failures = 0
                    continue  # it lasted as long as it was meant to
            except Gone as error:
                state.version, problem = "", error.message
                failures += 1
                if failures == 1:
                    log.info("the watch of %s is too old; listing again", kind.plural)
                    continue
            except RetryableError as error:
                problem = error.message
            delay = RECONNECTS.delay(failures) * random.uniform(0.5, 1.0)
            failures += 1
            log.warning("the watch of %s broke, retrying in %.1f s: %s", kind.plural, delay, problem)
            await asyncio.sleep(delay)

    # --- the rest

    async def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        tail: int | None = None,
        follow: bool = False,
        previous: bool = False,
        limit_bytes: int | None = None,
        since: str = "",
        timestamps: bool = False,
    ) -> AsyncIterator[str]:
        """The lines that a container wrote; ``since`` a time in RFC 3339, of which the server takes whole seconds."""
        query = {
            **({"container": container} if container else {}),
            **({"tailLines": str(tail)} if tail is not None else {}),
            **({"follow": "true"} if follow else {}),
            **({"previous": "true"} if previous else {}),
            **({"limitBytes": str(limit_bytes)} if limit_bytes else {}),
            **({"sinceTime": since} if since else {}),
            **({"timestamps": "true"} if timestamps else {}),
        }
        path, what = f"/api/v1/namespaces/{namespace}/pods/{pod}/log", f"get pods/log in {namespace}"
        async with self._stream(path, query, what=what, silence=None if follow else TRY_SECONDS) as lines:
            async for line in lines:
                yield line

    async def allowed(self, verb: str, kind: Kind, namespace: str = "", *, subresource: str = "") -> bool:
        """Whether this account has the right to do that."""
        attributes = {"verb": verb, "group": kind.group, "resource": kind.plural, "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": {**attributes, "subresource": subresource}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await self.request("POST", path, review, what="check the user's own permissions")
        return bool(answer["status"].get("allowed"))

    async def authorization(self) -> dict[str, str]:
        """The headers that sign a request, for those who open a connection of their own (port-forward)."""
        if self._auth is None:
            return {}
        flow = self._auth.async_auth_flow(httpx.Request("GET", f"{self.server}/version"))
        try:
            signed = await anext(flow)
        finally:
            await flow.aclose()
        return {"Authorization": signed.headers["Authorization"]} if "Authorization" in signed.headers else {}

    async def request(
        self,
        method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        what: str,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        idempotent: bool = True,
        deadline: float = DEADLINE,
    ) -> Object:
        """One call, tried again until the deadline where that can do no harm."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", **({"Content-Type": content_type} if content is not None else {})}
        until, tries = time.monotonic() + deadline, 0
        while True:
            try:
                return await self._try(method, path, content, headers, query, what, until)
            except ApiUnavailable as error:
                delay = max(error.retry_after, RETRIES.delay(tries) * random.uniform(0.5, 1.0))
                if (error.sent and not idempotent) or time.monotonic() + delay >= until:
                    raise
                tries += 1
                log.info("try %d: %s", tries + 1, error.message)
                await asyncio.sleep(delay)

    async def _try(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None,
        what: str,
        until: float,
    ) -> Object:
        self.calls[what.partition(" in ")[0]] += 1
        try:
            async with asyncio.timeout(max(0.1, min(TRY_SECONDS, until - time.monotonic()))):
                answer = await self._http.request(method, path, content=content, headers=headers, params=query)
        except (httpx.TransportError, TimeoutError) as error:
            raise self._unreachable(what, error) from error
        except ConfigError as error:
            raise PermanentError(f"cannot {what}: {error}", hint="check the user in the kubeconfig") from error
        if answer.is_error:
            raise _refusal(answer, what)
        try:
            found: Object = answer.json()
        except ValueError as error:
            raise ApiUnavailable(f"cannot {what}: the response of {self.server} is not JSON") from error
        return found

    @contextlib.asynccontextmanager
    async def _stream(
        self, path: str, query: Mapping[str, str], *, what: str, silence: float | None
    ) -> AsyncIterator[AsyncIterator[str]]:
        self.calls[what.partition(" in ")[0]] += 1
        timeout = httpx.Timeout(TRY_SECONDS, read=silence)
        try:
            async with self._http.stream("GET", path, params=query, timeout=timeout) as answer:
                if answer.is_error:
                    await answer.aread()
                    raise _refusal(answer, what)
                yield answer.aiter_lines()
        except httpx.TransportError as error:
            raise self._unreachable(what, error) from error

    def _unreachable(self, what: str, error: Exception) -> ApiUnavailable:
        sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        detail = str(error) or type(error).__name__
        return ApiUnavailable(f"cannot {what}: the API server at {self.server} does not respond ({detail})", sent=sent)


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    return "/".join(part for part in (f"{root}{inside}/{kind.plural}", name, subresource) if part)


def _what(verb: str, kind: Kind, namespace: str, subresource: str = "") -> str:
    """In the words of RBAC, so that a refusal names the missing right."""
    resource = f"{kind.full_name}/{subresource}" if subresource else kind.full_name
    return f"{verb} {resource} in {namespace}" if namespace else f"{verb} {resource}"


def _filter(labels: str, fields: str) -> dict[str, str]:
    return {**({"labelSelector": labels} if labels else {}), **({"fieldSelector": fields} if fields else {})}


def _refusal(answer: httpx.Response, what: str) -> Exception:
    try:
        status = answer.json()
    except ValueError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    message = status.get("message") or answer.text[:500] or answer.reason_phrase
    try:
        retry_after = float(answer.headers.get("Retry-After", 0))
    except ValueError:  # a date; our own back-off will do
        retry_after = 0.0
    return error_of(answer.status_code, status.get("reason", ""), message, what=what, retry_after=retry_after)


def _find_config(kubeconfig: str | Path | None, context: str | None) -> SingleConfig:
    if kubeconfig or os.environ.get("KUBECONFIG"):
        # kubectl allows several files, of which we take the first that is there
        names = [str(kubeconfig)] if kubeconfig else os.environ["KUBECONFIG"].split(os.pathsep)
        found = KubeConfig.from_file(next((name for name in names if Path(name).expanduser().is_file()), names[0]))
    else:
        found = KubeConfig.from_env()
    config = found.get(context)
    assert config is not None  # with no default it raises
    return config
