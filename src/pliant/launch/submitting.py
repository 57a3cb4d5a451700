"""Creating a job in a cluster: the files first, then the ElasticJob, which from then on owns them.

In that order no Pod of the job ever starts without its files, and whatever fails on the way leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import time

from pliant.core.errors import Conflict, NotFound, PliantError, RetryableError
from pliant.handles.kubernetes.job_handle import INSTALL, KubernetesJob
from pliant.handles.kubernetes.session import Session
from pliant.launch.manifest import Submission
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.elastic_job_status import is_over, phase_of
from pliant.platforms.kubernetes.kinds import CONFIG_MAPS, ELASTIC_JOBS, NAMESPACES, PODS, SECRETS, Object
from pliant.platforms.kubernetes.names import (
    files_name,
    job_selector,
    master_name,
    owner_reference,
    summary_name,
)

REMOVAL = 180.0  # seconds for the Pods of a job that is replaced to go
POLL_INTERVAL_S = 0.5  # seconds


def submit(session: Session, submission: Submission, *, overwrite: bool = False) -> KubernetesJob:
    return KubernetesJob(session, session.run(_submit(session.api, session.namespace, submission, overwrite)))


async def _submit(api: KubeApi, namespace: str, submission: Submission, overwrite: bool) -> Object:
    name = submission.name
    existing = await api.find(ELASTIC_JOBS, name, namespace)
    if existing is not None:
        _check_replaceable(existing, namespace, overwrite)
        await _remove(api, namespace, existing)
    files = submission.files_map()
    await api.delete(CONFIG_MAPS, files_name(name), namespace)  # of a submission that broke off
    if files is not None:
        await api.create(CONFIG_MAPS, files, namespace)
    try:
        job = await _create(api, namespace, submission.elastic_job())
    except PliantError:
        if files is not None:
            await api.delete(CONFIG_MAPS, files_name(name), namespace)
        raise
    if files is not None:
        owned = {"metadata": {"ownerReferences": [owner_reference(job)]}}
        await api.patch(CONFIG_MAPS, files_name(name), owned, namespace)
    return job


def _check_replaceable(job: Object, namespace: str, overwrite: bool) -> None:
    name, phase = job["metadata"]["name"], phase_of(job)
    if not is_over(job):
        raise Conflict(
            f"job {name} is still active in namespace {namespace} ({phase})",
            hint=f"choose another --name, or run `pliant stop {name} -N {namespace}`",
        )
    if not overwrite:
        raise Conflict(
            f"job {name} already exists in namespace {namespace}; it has ended ({phase})",
            hint="choose another --name, or --overwrite to replace it",
        )


async def _create(api: KubeApi, namespace: str, body: Object) -> Object:
    try:
        return await api.create(ELASTIC_JOBS, body, namespace)
    except NotFound as error:
        if await api.find(NAMESPACES, namespace) is None:
            hint = f"`kubectl create namespace {namespace}`, or choose another with -N"
            raise NotFound(f"namespace {namespace} not found", hint=hint) from None
        raise NotFound(f"ElasticJob is not installed in the cluster: {error.message}", hint=INSTALL) from None


async def _remove(api: KubeApi, namespace: str, job: Object) -> None:
    """With all that it owns: its successor's objects have the same names."""
    name = job["metadata"]["name"]
    await api.delete(ELASTIC_JOBS, name, namespace, uid=job["metadata"]["uid"])
    until = time.monotonic() + REMOVAL
    while await _left(api, namespace, name):
        if time.monotonic() > until:
            raise RetryableError(
                f"job {name} was deleted, but its Pods still exist",
                hint=f"check `kubectl get pods -n {namespace} -l {job_selector(name)}` and try again",
            )
        await asyncio.sleep(POLL_INTERVAL_S)


async def _left(api: KubeApi, namespace: str, name: str) -> bool:
    owned = (
        (ELASTIC_JOBS, name),
        (SECRETS, master_name(name)),
        (CONFIG_MAPS, master_name(name)),
        (CONFIG_MAPS, summary_name(name)),
        (CONFIG_MAPS, files_name(name)),
    )
    for kind, owned_name in owned:
        if await api.find(kind, owned_name, namespace) is not None:
            return True
    return bool((await api.list(PODS, namespace, labels=job_selector(name))).items)


def next_steps(name: str, namespace: str) -> str:
    return (
        f"job {name} was submitted to namespace {namespace}\n"
        f"  pliant attach {name} -N {namespace}\n"
        f"  pliant status {name} -N {namespace} --watch\n"
        f"  pliant logs {name} -N {namespace} -f\n"
        f"  pliant stop {name} -N {namespace}"
    )
