"""``pliant doctor --platform kubernetes``: is the cluster there, is Pliant installed in it, and may this user run jobs?

Each finding says what to do. What keeps every job from running is broken; what only some jobs need is a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import TypeAlias

from pliant.cli.doctor.check import Check
from pliant.core.errors import NotFound, PliantError
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import (
    CONFIG_MAPS,
    CRDS,
    ELASTIC_JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    SCALE_PLANS,
    SECRETS,
    STORAGE_CLASSES,
    Kind,
)
from pliant.platforms.kubernetes.timestamps import seconds_of

Checks: TypeAlias = AsyncIterator[Check]

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
OPERATOR_LEASE = "pliant-operator"
SILENCE = 60.0  # seconds without a renewal after which nobody acts; renewals come every few seconds
OLDEST = (1, 20)
INSTALL = "helm install pliant deploy/helm --namespace pliant-system --create-namespace (docs/kubernetes.md)"
NEEDED = (("create", ELASTIC_JOBS), ("get", ELASTIC_JOBS))  # without these nobody runs a job
RIGHTS: tuple[tuple[str, Kind, str, str], ...] = (
    ("create", ELASTIC_JOBS, "", "submit jobs"),
    ("get", ELASTIC_JOBS, "", "see jobs"),
    ("list", ELASTIC_JOBS, "", "list jobs"),
    ("patch", ELASTIC_JOBS, "", "scale jobs"),
    ("delete", ELASTIC_JOBS, "", "remove jobs"),
    ("create", SCALE_PLANS, "", "write a ScalePlan by hand"),
    ("create", CONFIG_MAPS, "", "send files with a job"),
    ("get", CONFIG_MAPS, "", "read job results"),
    ("get", SECRETS, "", "call a job's master: its token is in a Secret"),
    ("list", PODS, "", "find a job's Pods"),
    ("get", PODS, "log", "read logs"),
    ("create", PODS, "portforward", "call a job's master (status, scale, stop)"),
)


async def examine(context: str | None, namespace: str) -> list[Check]:
    """Everything; if the cluster cannot be reached, only that."""
    try:
        api = KubeApi.load(context=context)
    except PliantError as error:
        return [Check("kubeconfig", "broken", error.message, error.hint)]
    async with api:
        where = namespace or api.namespace
        found = [Check("kubeconfig", "ok", f"{api.server}, namespace {where}"), *[c async for c in _server(api)]]
        if any(check.state == "broken" for check in found):
            return found
        looks: tuple[Callable[[KubeApi, str], Checks], ...] = (
            _namespace,
            _definitions,
            _operator,
            _rights,
            _priorities,
            _storage,
            _metrics,
        )
        results = await asyncio.gather(*(_collect(look, api, where) for look in looks))
        return [*found, *(check for result in results for check in result)]


async def _collect(look: Callable[[KubeApi, str], Checks], api: KubeApi, namespace: str) -> list[Check]:
    name = look.__name__.strip("_")
    try:
        return [check async for check in look(api, namespace)]
    except Forbidden as error:
        return [Check(name, "warning", f"could not check: {error.message}", "ask the cluster administrator")]
    except PliantError as error:
        return [Check(name, "warning", f"could not check: {error.message}", error.hint)]


async def _server(api: KubeApi) -> Checks:
    try:
        version = await api.request("GET", "/version", what="get the version", deadline=10)
    except PliantError as error:
        hint = error.hint or "check that the cluster is up and `kubectl get pods` works from this machine"
        yield Check("API server", "broken", error.message, hint)
        return
    numbers = tuple(int("".join(filter(str.isdigit, version.get(part, "0"))) or 0) for part in ("major", "minor"))
    old = numbers < OLDEST
    hint = f"Pliant needs Kubernetes {OLDEST[0]}.{OLDEST[1]} or newer" if old else ""
    yield Check("API server", "warning" if old else "ok", str(version.get("gitVersion", "")), hint)


async def _namespace(api: KubeApi, namespace: str) -> Checks:
    if await api.find(NAMESPACES, namespace) is None:
        hint = f"`kubectl create namespace {namespace}`, or choose another with -N"
        yield Check("namespace", "broken", f"namespace {namespace} not found", hint)
    else:
        yield Check("namespace", "ok", namespace)


async def _definitions(api: KubeApi, namespace: str) -> Checks:
    from pliant.operator.crds import elastic_job, scale_plan

    for kind, ours in ((ELASTIC_JOBS, elastic_job()), (SCALE_PLANS, scale_plan())):
        name = f"kind {kind.kind}"
        try:
            there = await api.find(CRDS, kind.full_name)
        except Forbidden:
            yield await _kind_is_served(api, kind, namespace)
            continue
        if there is None:
            yield Check(name, "broken", f"{kind.full_name} is not installed", INSTALL)
        elif _fields_of(there) != _fields_of(ours):
            hint = "kubectl apply -f deploy/helm/crds (helm does not upgrade CRDs)"
            yield Check(name, "warning", "installed, but from another version of Pliant", hint)
        else:
            yield Check(name, "ok", f"{kind.full_name} {kind.version}, matches this version")


async def _kind_is_served(api: KubeApi, kind: Kind, namespace: str) -> Check:
    """For users who may not read definitions."""
    try:
        await api.list(kind, namespace)
    except NotFound:
        return Check(f"kind {kind.kind}", "broken", f"{kind.full_name} is not installed", INSTALL)
    return Check(f"kind {kind.kind}", "ok", "served; this user may not read its version")


def _fields_of(definition: dict[str, object]) -> list[str]:
    """The paths of all fields of spec and status: what versions differ in. Servers add to the rest."""
    found: list[str] = []

    def walk(schema: object, path: str) -> None:
        if isinstance(schema, dict):
            for name, inside in sorted((schema.get("properties") or {}).items()):
                found.append(f"{path}.{name}")
                walk(inside, f"{path}.{name}")
            for key in ("items", "additionalProperties"):
                walk(schema.get(key), f"{path}[]")

    versions = definition["spec"]["versions"]  # type: ignore[index]
    for version in versions:
        walk(version["schema"]["openAPIV3Schema"], version["name"])
    return [path for path in found if ".metadata" not in path]


async def _operator(api: KubeApi, namespace: str) -> Checks:
    leases = [
        lease
        for lease in (await api.list(LEASES, "", fields=f"metadata.name={OPERATOR_LEASE}")).items
        if (lease.get("spec") or {}).get("holderIdentity")
    ]
    if not leases:
        yield Check("operator", "broken", "no operator has ever run in this cluster", INSTALL)
        return
    ages = {_age(lease["spec"].get("renewTime", "")): lease for lease in leases}
    age, lease = min(ages), ages[min(ages)]
    where, holder = lease["metadata"]["namespace"], lease["spec"]["holderIdentity"]
    if age > SILENCE:
        hint = f"check `kubectl get pods -n {where}` and the operator's log"
        yield Check("operator", "broken", f"{holder} in {where} last renewed its lease {age:,.0f} s ago", hint)
    else:
        yield Check("operator", "ok", f"{holder} in {where} is the leader")


def _age(moment: str) -> float:
    return max(0.0, datetime.now(UTC).timestamp() - seconds_of(moment)) if moment else float("inf")


async def _rights(api: KubeApi, namespace: str) -> Checks:
    allowed = await asyncio.gather(
        *(api.allowed(verb, kind, namespace, subresource=subresource) for verb, kind, subresource, _ in RIGHTS)
    )
    missing = [right for right, has in zip(RIGHTS, allowed, strict=True) if not has]
    for verb, kind, subresource, purpose in missing:
        what = f"{verb} {kind.full_name}{f'/{subresource}' if subresource else ''}"
        hint = (
            f"request this permission in namespace {namespace} to {purpose}; Pliant adds it to the ClusterRole `edit`"
        )
        state = "broken" if (verb, kind) in NEEDED else "warning"
        yield Check("rights", state, f"this user may not {what}", hint)
    if not missing:
        yield Check("rights", "ok", f"this user may submit, see, scale and stop jobs in {namespace}")


async def _priorities(api: KubeApi, namespace: str) -> Checks:
    found = sorted(item["metadata"]["name"] for item in (await api.list(PRIORITY_CLASSES)).items)
    ours = [name for name in found if name.startswith("pliant-")]
    if ours:
        yield Check("priority classes", "ok", ", ".join(ours))
    else:
        others = [name for name in found if not name.startswith("system-")]
        hint = "needed only by jobs that set a priority class; the chart creates them (priorityClasses.create)"
        yield Check("priority classes", "warning", f"none from Pliant; found: {', '.join(others) or 'none'}", hint)


async def _storage(api: KubeApi, namespace: str) -> Checks:
    classes = (await api.list(STORAGE_CLASSES)).items
    names = [item["metadata"]["name"] for item in classes]
    default = [
        item["metadata"]["name"]
        for item in classes
        if (item["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
    ]
    hint = (
        "without a default, a job's journal is lost with its master's Pod unless the job sets "
        " `platform.kubernetes.journal.storage_class`"
    )
    if default:
        yield Check("storage class", "ok", f"{default[0]} is the default")
    elif names:
        yield Check("storage class", "warning", f"no default; found: {', '.join(names)}", hint)
    else:
        yield Check("storage class", "warning", "none found", hint)


async def _metrics(api: KubeApi, namespace: str) -> Checks:
    try:
        await api.request("GET", "/apis/metrics.k8s.io/v1beta1", what="query metrics.k8s.io", deadline=5)
    except PliantError:
        text = "metrics.k8s.io is not available; usage is reported by the agents instead (sufficient)"
        yield Check("metrics API", "absent", text)
    else:
        yield Check("metrics API", "ok", "metrics.k8s.io is available")
