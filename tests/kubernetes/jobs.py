"""A job on a real cluster, under someone who wishes it ill.

Its journal lies on a claim whose volume is a folder of the test, and its workers have another folder of the test mounted
at ``/shared``: by a file there a test lets them go on, and there they write down each record that they did. So a job
waits for its test, however slow the machine is, and at the end the master's word is held against the workers'.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from tests.kubernetes.harness import PATIENCE, VOLUMES, Space

from pliant.core.events import EventKind, EventRecord
from pliant.core.shards.audit import AuditRow
from pliant.master.journal.store import read_audit, read_events
from pliant.platforms.kubernetes.kinds import (
    CONFIG_MAPS,
    ELASTIC_JOBS,
    EVENTS,
    PODS,
    SCALE_PLANS,
    Object,
)
from pliant.platforms.kubernetes.names import (
    SUMMARY_KEY,
    claim_name,
    files_name,
    job_selector,
    master_name,
    node_of,
    pod_name,
    summary_name,
    worker_selector,
)
from pliant.platforms.kubernetes.plans import status_of
from pliant.platforms.kubernetes.pods import merged
from pliant.testing.traces import Record, accepted_records, read_traces

SHARED = "/shared"
LONG = 2 * PATIENCE  # seconds; for what takes several Pods one after the other


class ClusterJob:
    """An ElasticJob and what became of it."""

    def __init__(
        self,
        space: Space,
        folder: Path,
        command: Sequence[str],
        *,
        workers: str | int = 2,
        name: str = "job",
        files: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        role: Mapping[str, Any] | None = None,
        kubernetes: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        journal: str = "claim",
        storage_class: str = "",
    ) -> None:
        """``storage_class``: of the volume for the claim, where the cluster has one."""
        self.space, self.name = space, name
        self.shared, self.volume = folder / "shared", folder / "journal"
        for path in (self.shared, self.volume, self.shared / "traces"):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)
        least, _, most = str(workers).partition(":")
        worker = {
            "replicas": {"min": int(least), "max": int(most or least)},
            "command": list(command),
            "env": dict(env or {}),
            "resources": {"memory": 256},  # no limit of CPU: Python would start for ten seconds with a tenth of one
            **(role or {}),
        }
        worker["template"] = merged(_shared_folder(self.shared), worker.get("template", {}))
        options = {"journal": {"volume": journal}, **(kubernetes or {})}
        more = dict(spec or {})
        fault = {"grace": 2, **more.pop("fault", {})}
        platform = {"kind": "kubernetes", "kubernetes": options}
        self.spec: Object = {"roles": {"worker": worker}, "platform": platform, "audit": True, "fault": fault, **more}
        if journal == "claim" or storage_class:
            space.kube.create(VOLUMES, _volume(space.name, name, self.volume, storage_class))
        if files:
            space.create(CONFIG_MAPS, {"metadata": {"name": files_name(name)}, "data": dict(files)})

    def submit(self) -> ClusterJob:
        self.space.create(ELASTIC_JOBS, {"metadata": {"name": self.name}, "spec": self.spec})
        return self

    # --- looking

    def object(self) -> Object:
        return self.space.get(ELASTIC_JOBS, self.name)

    def status(self) -> Object:
        return status_of(self.object())

    def pods(self, role: str = "worker") -> list[Object]:
        """Those that are not on their way out."""
        labels = worker_selector(self.name) if role == "worker" else job_selector(self.name)
        return [pod for pod in self.space.list(PODS, labels) if not pod["metadata"].get("deletionTimestamp")]

    def nodes(self, phase: str = "Running") -> list[str]:
        return sorted(node_of(pod) for pod in self.pods() if pod["status"].get("phase") == phase)

    def pod(self, node: str) -> Object:
        return self.space.get(PODS, pod_name(self.name, node))

    def master(self) -> Object:
        return self.space.get(PODS, master_name(self.name))

    def find_master(self) -> Object | None:
        return self.space.find(PODS, master_name(self.name))

    def plans(self) -> list[Object]:
        return self.space.list(SCALE_PLANS)

    def ends(self) -> list[tuple[str, str]]:
        """Of nodes and their programs, as the master saw them: who, and why."""
        found = [event for event in self.events() if event.kind in (EventKind.EXIT, EventKind.ENDED)]
        return [(event.node, event.facts["exit_reason"]) for event in found]

    def told(self) -> str:
        """What Kubernetes' events say about the job and its Pods."""
        return "\n".join(f"{event['reason']}: {event.get('message', '')}" for event in self.space.list(EVENTS))

    def summary(self) -> dict[str, Any]:
        """The master's last word; it writes it after it has told the phase."""

        def written() -> str | None:
            found = self.space.find(CONFIG_MAPS, summary_name(self.name)) or {}
            return (found.get("data") or {}).get(SUMMARY_KEY)

        summary: dict[str, Any] = json.loads(self.wait_for(written, "the summary"))
        return summary

    @property
    def journal(self) -> Path:
        return self.volume / self.name / "journal.db"

    def events(self) -> list[EventRecord]:
        """As the master wrote them down."""
        return read_events(self.journal, limit=100_000)

    def audit(self) -> list[AuditRow]:
        return read_audit(self.journal)

    def report(self) -> str:
        """For a test that failed."""
        space = self.space
        lines = [json.dumps(self.status(), indent=1), space.kubectl("get", "pods,scaleplans", "-o", "wide").stdout]
        lines += [self.told()[-4000:]]
        if self.journal.exists():
            lines += [f"{event.node}: {event.kind}: {event.message}" for event in self.events()[-60:]]
        for pod in space.list(PODS):
            name = pod["metadata"]["name"]
            lines += [f"--- {name}", space.logs(name, tail=25)]
        return "\n".join(lines)

    # --- waiting

    def wait_for(self, happened: Callable[[], Any], what: str, timeout: float = LONG) -> Any:
        try:
            return self.space.wait_for(happened, what, timeout)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def wait_for_phase(self, *phases: str) -> Object:
        return dict(
            self.wait_for(
                lambda: status if (status := self.status()).get("phase") in phases else None, f"phase {phases}"
            )
        )

    def wait_for_workers(self, count: int) -> list[str]:
        """Until exactly so many run; gives their names."""

        def running() -> list[str] | None:
            nodes = self.nodes()
            return nodes if len(nodes) == count and len(self.pods()) - len(self.nodes("Failed")) == count else None

        return list(self.wait_for(running, f"{count} workers"))

    def wait_for_condition(self, kind: str, reason: str) -> Object:
        """Until it holds, for this reason."""

        def found() -> Object | None:
            conditions = self.status().get("conditions") or []
            return next(
                (c for c in conditions if (c["type"], c["status"], c["reason"]) == (kind, "True", reason)), None
            )

        return dict(self.wait_for(found, f"the condition {kind} ({reason})"))

    def wait_for_plan(self, name: str, *phases: str) -> Object:
        def ended() -> Object | None:
            status = status_of(self.space.get(SCALE_PLANS, name))
            return status if status.get("phase") in phases else None

        return dict(self.wait_for(ended, f"plan {name} to be {phases}"))

    # --- hurting

    def delete_pod(self, node: str) -> None:
        self.space.delete(PODS, pod_name(self.name, node))

    def delete_master(self, *, grace: float | None = None) -> str:
        """Gives the uid of the one that goes."""
        uid = str(self.master()["metadata"]["uid"])
        self.space.delete(PODS, master_name(self.name), grace=grace)
        return uid

    def condition(self, kind: str) -> Object | None:
        """None: the operator has not stated it."""
        found = self.status().get("conditions") or ()
        return next((dict(entry) for entry in found if entry["type"] == kind), None)

    def wait_for_another_master(self, uid: str) -> None:
        def is_there() -> bool:
            found = self.find_master()
            return found is not None and found["metadata"]["uid"] != uid and _ready(found)

        self.wait_for(is_there, "another master that serves")


class ReadingClusterJob(ClusterJob):
    """Workers read a dataset, do a few shards each, and go on when the test opens the gate.

    ``before`` is what their programs do first, in Python.
    """

    def __init__(
        self,
        space: Space,
        folder: Path,
        *,
        size: int = 600,  # more than what the first workers have taken ahead: there must be some left for later ones
        shard_size: int = 4,
        pace: float = 0.01,
        before: str = "",
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.size = size
        program = ("-c", f"{before}\nfrom pliant.testing.reader import main\nmain()")
        command = ("python", *(program if before else ("-m", "pliant.testing.reader")))
        given = {
            "READ": json.dumps({"train": {"size": size, "shard_size": shard_size}}),
            "PACE": str(pace),
            "TRACE": f"{SHARED}/traces",
            "GATE": f"{SHARED}/gate",
            **(env or {}),
        }
        super().__init__(space, folder, command, env=given, **options)

    def submit(self) -> ReadingClusterJob:
        super().submit()
        return self

    def open_gate(self) -> None:
        (self.shared / "gate").touch()

    def wait_until_all_work(self, nodes: Sequence[str]) -> None:
        """Until each has written down a record."""
        traces = self.shared / "traces"
        self.wait_for(
            lambda: all(any(file.stat().st_size for file in traces.glob(f"{node}.*")) for node in nodes),
            f"records of {nodes}",
        )

    def finish(self) -> Object:
        """Let them go on, wait for the end, and check that each record was accepted once."""
        self.open_gate()
        status = self.wait_for_phase("Succeeded", "Failed", "Stopped")
        assert status["phase"] == "Succeeded", self.report()
        self.assert_each_record_once()
        return status

    def assert_each_record_once(self) -> None:
        counts = accepted_records(read_traces(self.shared / "traces"), self.audit())
        expected: set[Record] = {("train", 0, "train", record) for record in range(self.size)}
        assert counts.keys() == expected, self.report()
        assert set(counts.values()) == {1}


def process_of(pod: str, words: str) -> psutil.Process | None:
    """The process of a Pod, as the machine sees it; None: it has none now. A kubelet tells each container its Pod's name."""
    for process in psutil.process_iter():
        try:
            if words in " ".join(process.cmdline()) and process.environ().get("HOSTNAME") == pod:
                return process
        except psutil.Error:
            continue
    return None


def _ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _shared_folder(path: Path) -> Object:
    mount = {"name": "shared", "mountPath": SHARED}
    volume = {"name": "shared", "hostPath": {"path": str(path), "type": "Directory"}}
    return {"spec": {"volumes": [volume], "containers": [{"name": "main", "volumeMounts": [mount]}]}}


def _volume(namespace: str, job: str, path: Path, storage_class: str) -> Object:
    """A folder of this machine, which all nodes of the testbed can reach, for one claim."""
    return {
        "metadata": {"name": f"{namespace}-{job}", "labels": {"test": namespace}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(path), "type": "Directory"},
            "claimRef": {"namespace": namespace, "name": claim_name(job)},
            **({"storageClassName": storage_class} if storage_class else {}),
        },
    }
