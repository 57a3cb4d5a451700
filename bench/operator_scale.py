"""How fast the operator turns ScalePlans into Pods, and what operator and masters ask of the API server for it.

    python bench/operator_scale.py                        # 100 jobs of 50 workers
    python bench/operator_scale.py --jobs 1 --workers 1000
    python bench/operator_scale.py --quick                # 5 jobs of 20

A real API server with etcd, scheduler and controllers (``tools/kubernetes``), an operator as a process, and machines that
only pretend. The bench plays the masters, by their real code, and the kubelets (``masters``). The same Pods are also created
by a bare loop in the same run, as many requests at once: what the API server reaches, and the ratio says how close the
operator is. Requests are counted from the API server's own audit log, by the name of the account; a watch counts when it ends.

(It is not called ``operator.py`` since a script's folder is searched first: every bench would import it for Python's own.)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from harness import finish, machine, median, quantile, say, table, times

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from masters import AT_ONCE, WATCH_SECONDS, Kubelet, Master
from tests.kubernetes.fake_kubelet import FakeKubelet, running
from tests.kubernetes.harness import Kube
from tools.kubernetes.testbed import Cluster

from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, NAMESPACES, PODS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.names import ROLE_LABEL

CRDS = sorted((Path(__file__).parents[1] / "deploy" / "helm" / "crds").glob("*.yaml"))
AIMS = {"seconds_to_1000_pods": 60.0, "calls_per_pod": 10.0, "steady_lists": 0}
PODS_PER_NODE = 1000
PATIENCE = 600.0  # seconds
SINGLE_JOBS, SINGLE_ROUNDS = 10, 15  # of plans for one Pod each: more than the plans that are kept
SPACE = "bench"


class Audit:
    """The API server's log of requests, read from where it was last asked."""

    def __init__(self, log: Path) -> None:
        self._log, self._offset = log, log.stat().st_size

    def calls(self) -> dict[str, Counter[str]]:
        """Since the last time, by account: ``create pods`` -> how often."""
        found: dict[str, Counter[str]] = {"operator": Counter(), "masters": Counter()}
        with self._log.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                entry = json.loads(line)
                if (counts := found.get(entry["user"]["username"])) is not None:
                    where = entry.get("objectRef") or {}
                    counts[
                        " ".join(filter(None, (entry["verb"], where.get("resource"), where.get("subresource"))))
                    ] += 1
        return found


class Process:
    """What the operator's process uses."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)

    def cpu(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


class Bench:
    def __init__(self, api: KubeApi, cluster: Cluster, operator: int, jobs: int, workers: int, steady: float) -> None:
        self._api, self._cluster, self._steady = api, cluster, steady
        self._audit, self._operator = Audit(cluster.audit_log), Process(operator)
        self._jobs, self._names = jobs, [f"worker-{n}" for n in range(workers)]
        self._total = jobs * workers
        self._sample: Object = {}  # a worker's Pod
        self.found: dict[str, Any] = {"jobs": jobs, "workers": workers, "pods": self._total}

    async def run(self) -> dict[str, Any]:
        await self._api.create(NAMESPACES, {"metadata": {"name": SPACE}})
        await self._start_jobs()
        self._audit.calls()
        cpu = self._operator.cpu()
        async with self._playing() as (masters, kubelet):
            await self._create(masters)
            await self._live_and_go(masters, kubelet)
            self._count_lives(self._audit.calls(), self._operator.cpu() - cpu)
            await self._one_by_one(masters)
            await self._bare()
            await self._quiet()
        self.found["operator_peak_mb"] = self._operator.peak_mb()
        return self.found

    # --- the parts

    async def _start_jobs(self) -> None:
        say(f"{self._jobs} jobs, and their masters' Pods")
        began = time.monotonic()
        await all_of(self._api.create(ELASTIC_JOBS, a_job(name, len(self._names)), SPACE) for name in self._job_names())

        async def masters() -> list[Object]:
            return (await self._api.list(PODS, SPACE, labels=f"{ROLE_LABEL}=master")).items

        async def all_there() -> bool:
            return len(await masters()) == self._jobs

        await until(all_there, "the masters")
        self.found["seconds_to_masters"] = time.monotonic() - began
        await all_of(
            self._api.patch(PODS, pod["metadata"]["name"], {"status": running(pod, n)}, SPACE, subresource="status")
            for n, pod in enumerate(await masters())
        )

    @contextlib.asynccontextmanager
    async def _playing(self) -> AsyncIterator[tuple[list[Master], Kubelet]]:
        kubeconfig = self._cluster.kubeconfig_of("masters")
        masters = [Master(kubeconfig, name, SPACE) for name in self._job_names()]
        kubelet = Kubelet(self._api, SPACE)
        try:
            await asyncio.gather(*(master.start() for master in masters))
            yield masters, kubelet
        finally:
            await kubelet.stop()
            await asyncio.gather(*(master.stop() for master in masters))

    async def _create(self, masters: list[Master]) -> None:
        say(f"{self._total} Pods by {self._jobs} ScalePlans")
        began = time.monotonic()
        await asyncio.gather(*(master.launch(self._names) for master in masters))

        async def seen(wanted: int) -> float:
            async def enough() -> bool:
                return sum(len(master.alive) for master in masters) >= wanted

            await until(enough, f"{wanted} Pods", every=0.02)
            return time.monotonic() - began

        if self._total >= 1000:
            self.found["seconds_to_1000_pods"] = await seen(1000)
        self.found["seconds_to_all_pods"] = await seen(self._total)

        async def executed() -> bool:
            plans = (await self._api.list(SCALE_PLANS, SPACE)).items
            return all((plan.get("status") or {}).get("phase") == "Succeeded" for plan in plans)

        await until(executed, "the plans to be Succeeded")
        self._sample = await self._api.get(PODS, f"job-0-{self._names[0]}", SPACE)
        self.found["pods_per_second"] = self._total / self.found["seconds_to_all_pods"]

    async def _live_and_go(self, masters: list[Master], kubelet: Kubelet) -> None:
        say("they are bound and run")
        kubelet.start()

        async def all_run() -> bool:
            return len(kubelet.running) == self._total

        began = time.monotonic()
        await until(all_run, "the Pods to run", every=0.05)
        self.found["seconds_to_running"] = time.monotonic() - began
        say("and are removed again, by as many ScalePlans")
        began = time.monotonic()
        await asyncio.gather(*(master.remove(self._names) for master in masters))

        async def all_asked() -> bool:
            return kubelet.stamped == self._total

        await until(all_asked, "the Pods to be asked to go", every=0.02)
        self.found["seconds_to_all_asked_to_go"] = time.monotonic() - began
        await asyncio.wait_for(asyncio.gather(*(master.until(lambda m: not m.alive) for master in masters)), PATIENCE)
        self.found["seconds_to_all_gone"] = time.monotonic() - began

    def _count_lives(self, calls: dict[str, Counter[str]], cpu: float) -> None:
        self.found["calls"] = {who: dict(counts.most_common()) for who, counts in calls.items()}
        for who, counts in calls.items():
            self.found[f"calls_per_pod_{who}"] = counts.total() / self._total
        self.found["calls_per_pod"] = sum(counts.total() for counts in calls.values()) / self._total
        self.found["operator_cpu_seconds"] = cpu
        self.found["operator_cpu_ms_per_pod"] = 1000 * cpu / self._total

    async def _one_by_one(self, masters: list[Master]) -> None:
        """The dearest life: a plan for one Pod, and another that removes it."""
        some = masters[:SINGLE_JOBS]
        total = len(some) * SINGLE_ROUNDS
        say(f"{total} Pods by a ScalePlan each, one after the other in {len(some)} jobs")
        waits: list[float] = []

        async def lives(master: Master) -> None:
            for number in range(SINGLE_ROUNDS):
                node = f"worker-{len(self._names) + number}"
                began = time.monotonic()
                await master.launch([node])
                await master.until(lambda m: node in m.bound)  # noqa: B023  awaited at once
                waits.append(time.monotonic() - began)
                await master.remove([node])
                await master.until(lambda m: node not in m.alive)  # noqa: B023

        await asyncio.wait_for(asyncio.gather(*(lives(master) for master in some)), PATIENCE)
        await asyncio.sleep(3.0)  # plans that are not kept are removed
        calls = self._audit.calls()
        self.found["single_pods"] = total
        self.found["single_calls"] = {who: dict(counts.most_common()) for who, counts in calls.items()}
        self.found["single_calls_per_pod"] = sum(counts.total() for counts in calls.values()) / total
        self.found["single_seconds_p50"], self.found["single_seconds_p90"] = median(waits), quantile(waits, 0.9)

    async def _bare(self) -> None:
        say(f"the same {self._total} Pods by a bare loop")
        began = time.monotonic()
        await all_of(self._api.create(PODS, bare(self._sample, f"bare-{n}"), SPACE) for n in range(self._total))
        self.found["bare_seconds"] = time.monotonic() - began
        self.found["bare_pods_per_second"] = self._total / self.found["bare_seconds"]

    async def _quiet(self) -> None:
        """Nothing happens to any job; strangers' Pods come and go, so that old resource versions are forgotten."""
        say(f"{self._steady:.0f} s in which nothing happens to the jobs")
        await asyncio.sleep(5.0)  # what is under way ends
        self._audit.calls()
        cpu, began = self._operator.cpu(), time.monotonic()
        some = min(self._total, 500)
        await all_of(self._api.delete(PODS, f"bare-{n}", SPACE, grace=0.0) for n in range(some))
        await asyncio.sleep(max(0.0, self._steady - (time.monotonic() - began)))
        lasted = time.monotonic() - began
        calls = self._audit.calls()
        self.found["steady_calls"] = {who: dict(counts) for who, counts in calls.items()}
        lists = [n for counts in calls.values() for call, n in counts.items() if call.startswith("list ")]
        self.found["steady_lists"], self.found["steady_seconds"] = sum(lists), lasted
        self.found["steady_cpu_percent"] = 100 * (self._operator.cpu() - cpu) / lasted

    def _job_names(self) -> list[str]:
        return [f"job-{n}" for n in range(self._jobs)]


async def all_of(calls: Iterable[Awaitable[Any]]) -> None:
    """All of them, so many at once."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[Any]) -> None:
        async with turn:
            await call

    await asyncio.gather(*(one(call) for call in calls))


async def until(happened: Callable[[], Awaitable[bool]], what: str, every: float = 0.5) -> None:
    deadline = time.monotonic() + PATIENCE
    while not await happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE:g} s for {what}")
        await asyncio.sleep(every)


def a_job(name: str, workers: int) -> Object:
    role = {"replicas": {"min": 1, "max": workers, "wanted": workers}, "command": ["python", "train.py"]}
    options = {"image": "localhost/nothing:1"}
    return {
        "metadata": {"name": name},
        "spec": {"roles": {"worker": role}, "platform": {"kind": "kubernetes", "kubernetes": options}},
    }


def bare(pod: Object, name: str) -> Object:
    """The same Pod, belonging to nobody."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {"metadata": {"name": name, "labels": {"bench": "bare"}}, "spec": spec}


def start_operator(cluster: Cluster, log: Path) -> subprocess.Popen[bytes]:
    """As an account that may do everything, but with a name of its own in the audit log."""
    command = [sys.executable, "-m", "pliant.operator", "--port", "0", "--lease-namespace", "default"]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig_of("operator"))}
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "--watch-seconds", str(WATCH_SECONDS)], env=environment, stdout=output, stderr=output
        )


async def bench(cluster: Cluster, operator: int, options: argparse.Namespace) -> dict[str, Any]:
    async with KubeApi.load(cluster.kubeconfig) as api:
        return await Bench(api, cluster, operator, options.jobs, options.workers, options.steady).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=50, help="of each job")
    parser.add_argument("--steady", type=float, default=30.0, help="seconds in which nothing happens")
    parser.add_argument("--quick", action="store_true", help="5 jobs of 20 workers")
    parser.add_argument("--rounds", type=int, default=1, choices=(1,), help="there is one: it takes minutes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.jobs, options.workers = 5, 20
    nodes = -(-options.jobs * (2 * options.workers + 1) // PODS_PER_NODE)
    with Cluster.up(manifests=CRDS) as cluster:
        kube, log = Kube(cluster.kubeconfig), cluster.run.folder / "operator.log"
        process = start_operator(cluster, log)
        try:
            with FakeKubelet(kube, nodes=nodes, cpu="4096", memory="64Ti", pods=2 * PODS_PER_NODE):
                found = asyncio.run(bench(cluster, process.pid, options))
        except BaseException:
            say(log.read_text()[-3000:])
            raise
        finally:
            process.kill()
            process.wait()
            kube.close()
    show(found)
    finish({**found, "aims": AIMS, "machine": machine()}, options.json)


def show(found: dict[str, Any]) -> None:
    seconds = found["seconds_to_all_pods"]
    thousand = found.get("seconds_to_1000_pods")
    rows = [
        ("masters' Pods and all they need created", f"{found['seconds_to_masters']:.1f} s", ""),
        (
            "1,000 Pods created",
            f"{thousand:.1f} s" if thousand else "fewer were made",
            verdict("seconds_to_1000_pods", thousand),
        ),
        (f"all {found['pods']:,} created, {found['pods_per_second']:.0f} a second", f"{seconds:.1f} s", ""),
        (
            f"the same by a bare loop, {found['bare_pods_per_second']:.0f} a second",
            f"{found['bare_seconds']:.1f} s",
            f"operator {times(seconds, found['bare_seconds'])}",
        ),
        ("all asked to go, from the plans on", f"{found['seconds_to_all_asked_to_go']:.1f} s", ""),
        ("all gone", f"{found['seconds_to_all_gone']:.1f} s", ""),
        (
            "requests per life of a Pod",
            f"{found['calls_per_pod']:.2f}",
            verdict("calls_per_pod", found["calls_per_pod"]),
        ),
        (
            "  of the operator, of the masters",
            f"{found['calls_per_pod_operator']:.2f}, {found['calls_per_pod_masters']:.2f}",
            "",
        ),
        (
            "requests per life, a plan for each Pod",
            f"{found['single_calls_per_pod']:.2f}",
            verdict("calls_per_pod", found["single_calls_per_pod"]),
        ),
        (
            "such a plan to its Pod bound, p50, p90",
            f"{found['single_seconds_p50']:.2f}, {found['single_seconds_p90']:.2f} s",
            "",
        ),
        (
            f"full lists in {found['steady_seconds']:.0f} quiet seconds",
            f"{found['steady_lists']}",
            verdict("steady_lists", found["steady_lists"]),
        ),
        ("operator's CPU for all lives", f"{found['operator_cpu_seconds']:.1f} s", ""),
        ("  per life of a Pod", f"{found['operator_cpu_ms_per_pod']:.1f} ms", ""),
        ("operator's CPU in the quiet seconds", f"{found['steady_cpu_percent']:.1f} %", ""),
        ("operator's memory, at most", f"{found['operator_peak_mb']:.0f} MB", ""),
    ]
    table(f"operator, {found['jobs']} jobs x {found['workers']} workers", ("", "measured", "aim, or ratio"), rows)


def verdict(aim: str, value: float | None) -> str:
    if value is None:
        return ""
    bound = AIMS[aim]
    kept = value == 0 if bound == 0 else value < bound
    return f"{'0' if bound == 0 else f'< {bound:g}'}: {'reached' if kept else 'MISSED'}"


if __name__ == "__main__":
    main()
