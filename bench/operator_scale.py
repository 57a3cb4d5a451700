"""How fast the operator turns ScalePlans into Pods, and what it asks of the API server for it.

    python bench/operator_scale.py             # 100 jobs of 50 workers
    python bench/operator_scale.py --quick     # 5 jobs of 20

A real API server, scheduler and controllers (``tools/kubernetes``), an operator as a process, and nodes that only pretend. The
bench plays the masters: it creates jobs, then one ScalePlan per job, and patches the status of Pods as kubelets would. The
same Pods are also created by a bare client in the same run: no operator can be faster, and the ratio says how close it is.
Requests are counted from the server's audit log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from harness import finish, machine, say, table, times

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.kubernetes.fake_kubelet import FakeKubelet
from tests.kubernetes.harness import Kube
from tools.kubernetes.testbed import Cluster

from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, NAMESPACES, PODS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.names import JOB_LABEL, MADE_BY_LABEL, MADE_BY_MASTER, ROLE_LABEL

CRDS = sorted((Path(__file__).parents[1] / "deploy" / "helm" / "crds").glob("*.yaml"))
AT_ONCE = 32  # requests of the bench itself; of the bare client as well
PODS_PER_NODE = 1000
STEADY = 30.0  # seconds of doing nothing
PATIENCE = 300.0  # seconds
SPACE = "bench"


class Run:
    """The bench as a client of the cluster."""

    def __init__(self, api: KubeApi, audit: Path) -> None:
        self.api, self._audit, self._turn = api, audit, asyncio.Semaphore(AT_ONCE)

    async def all(self, *calls: Any) -> list[Any]:
        async def one(call: Any) -> Any:
            async with self._turn:
                return await call

        return await asyncio.gather(*(one(call) for call in calls))

    async def until(self, happened: Any, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE:g} s for {what}")
            await asyncio.sleep(0.1)

    def requests(self, agents: tuple[str, ...], since: int) -> Counter[str]:
        """What clients of these names asked since an offset of the log: ``create pods`` -> how often."""
        counts: Counter[str] = Counter()
        for entry in self._entries(since):
            if entry["userAgent"].startswith(agents) and entry["user"]["username"] == "operator":
                where = entry.get("objectRef") or {}
                counts[" ".join(filter(None, (entry["verb"], where.get("resource"), where.get("subresource"))))] += 1
        return counts

    def offset(self) -> int:
        return self._audit.stat().st_size

    def _entries(self, since: int) -> Iterator[dict[str, Any]]:
        with self._audit.open("rb") as file:
            file.seek(since)
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)


def a_job(name: str, workers: int) -> Object:
    role = {"replicas": {"min": 1, "max": workers, "wanted": workers}, "command": ["python", "train.py"]}
    options = {"image": "localhost/nothing:1"}
    return {
        "metadata": {"name": name},
        "spec": {"roles": {"worker": role}, "platform": {"kind": "kubernetes", "kubernetes": options}},
    }


def a_plan(job: Object, sequence: int, **changes: Any) -> Object:
    name = job["metadata"]["name"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": name, "uid": job["metadata"]["uid"]}
    return {
        "metadata": {
            "name": f"{name}-plan-{sequence}",
            "labels": {JOB_LABEL: name, MADE_BY_LABEL: MADE_BY_MASTER},
            "ownerReferences": [owner],
        },
        "spec": {"job": name, "sequence": sequence, "reason": "the bench says so", **changes},
    }


def bare(pod: Object, name: str) -> Object:
    """The same Pod, belonging to nobody."""
    return {"metadata": {"name": name, "labels": {"bench": "bare"}}, "spec": pod["spec"]}


async def measure(run: Run, kubelet: FakeKubelet, operator: psutil.Process, jobs: int, workers: int) -> dict[str, Any]:
    api, total = run.api, jobs * workers
    found: dict[str, Any] = {"jobs": jobs, "workers": workers, "pods": total}

    say(f"{jobs} jobs, and their masters")
    began = time.monotonic()
    made = await run.all(*(api.create(ELASTIC_JOBS, a_job(f"job-{n}", workers), SPACE) for n in range(jobs)))

    async def masters() -> list[Object]:
        return (await api.list(PODS, SPACE, labels=f"{ROLE_LABEL}=master")).items

    async def all_masters() -> bool:
        return len(await masters()) == jobs

    await run.until(all_masters, "the masters")
    found["seconds_to_masters"] = time.monotonic() - began
    await run.all(*(asyncio.to_thread(kubelet.run, pod) for pod in await masters()))

    say(f"{total} Pods by {jobs} ScalePlans")
    start, cpu = run.offset(), operator.cpu_times()
    began = time.monotonic()
    names = [f"worker-{n}" for n in range(workers)]
    create = [{"node": node, "role": "worker", "resources": {"cpu": "100m", "memory": "64Mi"}} for node in names]
    await run.all(*(api.create(SCALE_PLANS, a_plan(job, 1, create=create), SPACE) for job in made))

    async def count() -> int:
        return len((await api.list(PODS, SPACE, labels=f"{ROLE_LABEL}=worker")).items)

    async def thousand() -> bool:
        return await count() >= min(1000, total)

    await run.until(thousand, "a thousand Pods")
    found["seconds_to_1000_pods"] = (time.monotonic() - began) * 1000 / min(1000, total)

    async def all_plans() -> bool:
        plans = (await api.list(SCALE_PLANS, SPACE)).items
        return sum((plan.get("status") or {}).get("phase") == "Succeeded" for plan in plans) == jobs

    await run.until(all_plans, "the plans")
    found["seconds_to_all_pods"] = time.monotonic() - began
    assert await count() == total

    say("their whole lives: they run, and are removed again")
    pods = (await api.list(PODS, SPACE, labels=f"{ROLE_LABEL}=worker")).items
    await run.all(*(asyncio.to_thread(kubelet.run, pod) for pod in pods))
    kubelet.obey_deletions(SPACE, labels=f"{ROLE_LABEL}=worker")
    remove = [{"node": node, "grace": 1} for node in names]
    removal = time.monotonic()
    await run.all(*(api.create(SCALE_PLANS, a_plan(job, 2, remove=remove), SPACE) for job in made))

    async def none_left() -> bool:
        return await count() == 0

    await run.until(none_left, "the Pods to go")
    found["seconds_to_remove_all"] = time.monotonic() - removal
    used = operator.cpu_times()
    calls = run.requests(("python-httpx2", "kopf"), start)
    found["calls"] = dict(calls.most_common())
    found["calls_per_pod"] = calls.total() / total
    found["operator_cpu_seconds"] = used.user + used.system - cpu.user - cpu.system
    found["operator_cpu_ms_per_pod"] = 1000 * found["operator_cpu_seconds"] / total
    found["operator_memory_mb"] = operator.memory_info().rss / 2**20

    say(f"{STEADY:.0f} s in which nothing happens")
    await asyncio.sleep(5.0)  # what is under way ends
    start, cpu = run.offset(), operator.cpu_times()
    await asyncio.sleep(STEADY)
    quiet, used = run.requests(("python-httpx2", "kopf"), start), operator.cpu_times()
    found["steady_calls"] = dict(quiet)
    found["steady_lists"] = sum(n for call, n in quiet.items() if call.startswith("list "))
    found["steady_cpu_percent"] = 100 * (used.user + used.system - cpu.user - cpu.system) / STEADY

    say(f"the same {total} Pods by a bare client")
    began = time.monotonic()
    await run.all(*(api.create(PODS, bare(pods[n % len(pods)], f"bare-{n}"), SPACE) for n in range(total)))
    found["bare_seconds"] = time.monotonic() - began
    return found


def start_operator(cluster: Cluster, folder: Path) -> subprocess.Popen[bytes]:
    """As an account that may do everything, but with a name of its own in the audit log."""
    with (folder / "operator.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pliant.operator", "--port", "0", "--lease-namespace", "default"],
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig_of("operator"))}, stdout=log, stderr=log,
        )  # fmt: skip


async def bench(cluster: Cluster, kubelet: FakeKubelet, operator: psutil.Process, options: Any) -> dict[str, Any]:
    async with KubeApi.load(cluster.kubeconfig) as api:
        await api.create(NAMESPACES, {"metadata": {"name": SPACE}})
        run = Run(api, cluster.audit_log)
        return await measure(run, kubelet, operator, options.jobs, options.workers)


def main() -> None:
    parser = argparse.ArgumentParser(description="The operator, with many jobs and many Pods.")
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="5 jobs of 20 workers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.jobs, options.workers = 5, 20
    nodes = -(-options.jobs * (2 * options.workers + 1) // PODS_PER_NODE)
    with Cluster.up(manifests=CRDS) as cluster:
        kube = Kube(cluster.kubeconfig)
        process = start_operator(cluster, cluster.run.folder)
        try:
            with FakeKubelet(kube, nodes=nodes, cpu="4096", memory="64Ti", pods=2 * PODS_PER_NODE) as kubelet:
                found = asyncio.run(bench(cluster, kubelet, psutil.Process(process.pid), options))
        except BaseException:
            say((cluster.run.folder / "operator.log").read_text()[-3000:])
            raise
        finally:
            process.kill()
            process.wait()
            kube.close()
    show(found)
    finish({**found, "machine": machine()}, options.json)


def show(found: dict[str, Any]) -> None:
    seconds = found["seconds_to_all_pods"]
    rows = [
        ("masters of all jobs created", f"{found['seconds_to_masters']:.1f} s", ""),
        ("1,000 Pods created, from the first ScalePlan on", f"{found['seconds_to_1000_pods']:.1f} s", "< 60 s"),
        (f"all {found['pods']:,} Pods created, plans Succeeded", f"{seconds:.1f} s", ""),
        ("the same Pods by a bare client", f"{found['bare_seconds']:.1f} s", times(seconds, found["bare_seconds"])),
        ("all Pods removed", f"{found['seconds_to_remove_all']:.1f} s", ""),
        ("operator's requests per life of a Pod", f"{found['calls_per_pod']:.2f}", "< 10"),
        ("operator's CPU per life of a Pod", f"{found['operator_cpu_ms_per_pod']:.1f} ms", ""),
        ("operator's memory", f"{found['operator_memory_mb']:.0f} MB", ""),
        ("full lists while nothing happens", f"{found['steady_lists']}", "0"),
        ("operator's CPU while nothing happens", f"{found['steady_cpu_percent']:.1f} %", ""),
    ]
    table(f"operator, {found['jobs']} jobs x {found['workers']} workers", ("", "measured", "bound, or ratio"), rows)


if __name__ == "__main__":
    main()
