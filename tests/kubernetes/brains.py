"""The Brain in the operator's namespace, as the chart deploys it: a Pod, its database on a volume that is a folder of the test.

There is no DNS in the testbed: the Service has an address that is known before. The database is read from a copy, so that nothing
of a test's own user is written where the Brain's Pod works.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import text
from tests.kubernetes.harness import OPERATOR_NAMESPACE, PATIENCE, PROJECT, VOLUMES, Testbed, run_helm

from pliant.brain.store.database import Database
from pliant.brain.store.journals import read_from
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.shards.audit import AuditRow
from pliant.master.journal.wire_batch import decode
from pliant.platforms.kubernetes.kinds import CLAIMS, PODS, Object
from pliant.testing import wait_until

NAME = "pliant-brain"
CLUSTER_IP = "10.96.77.77"
OPERATORS, BRAINS, MONITORS = (f"app.kubernetes.io/name=pliant-{part}" for part in ("operator", "brain", "monitor"))
VALUES = (
    *("brain.enabled=true", f"brain.clusterIP={CLUSTER_IP}", f"brain.address={CLUSTER_IP}:50051"),
    "brain.command={python,-m,pliant.cli}",  # the script `pliant` of a venv names the interpreter by its place on this machine
    *("brain.monitor.interval=1", "replicas=1"),
)


class InstalledBrain:
    def __init__(self, testbed: Testbed, folder: Path) -> None:
        self._testbed, self._kube = testbed, testbed.kube
        self._volume, self._copy = folder / "volume", folder / "copy"
        for path in (self._volume, self._copy):
            path.mkdir()
        self._volume.chmod(0o777)

    # --- life

    def install(self) -> None:
        """Into the release that is there, whose operators are replaced by one that knows the Brain."""
        self._kube.create(VOLUMES, self._made_volume())
        values = map("--set={}".format, VALUES)
        run_helm(self._testbed.cluster, "upgrade", "pliant", str(PROJECT / "deploy/helm"), "--reuse-values", *values)
        wait_until(self._operators_know_it, PATIENCE, "the operators of before to go")

    def remove(self) -> None:
        run_helm(self._testbed.cluster, "rollback", "pliant")
        wait_until(lambda: not self._pods(BRAINS) and not self._pods(MONITORS), PATIENCE, "the Brain's Pods to go")
        self._kube.delete(CLAIMS, NAME, OPERATOR_NAMESPACE)  # the release leaves it
        self._kube.delete(VOLUMES, NAME)

    def _made_volume(self) -> Object:
        return {
            "metadata": {"name": NAME},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": str(self._volume), "type": "Directory"},
                "claimRef": {"namespace": OPERATOR_NAMESPACE, "name": NAME},
            },
        }

    def _operators_know_it(self) -> bool:
        pods = self._pods(OPERATORS)
        return len(pods) == 1 and f"--brain={CLUSTER_IP}:50051" in pods[0]["spec"]["containers"][0]["args"]

    # --- its Pod

    def _pods(self, labels: str) -> list[Object]:
        return self._kube.list(PODS, OPERATOR_NAMESPACE, labels=labels)

    def ready_pod(self) -> Object | None:
        """The one that is active."""
        for pod in self._pods(BRAINS):
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
            if conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp"):
                return pod
        return None

    def delete_pod(self) -> str:
        """Gives its uid."""
        pod = wait_until(self.ready_pod, PATIENCE, "an active Brain")
        self._kube.delete(PODS, pod["metadata"]["name"], OPERATOR_NAMESPACE)
        return str(pod["metadata"]["uid"])

    def wait_for_another(self, uid: str) -> None:
        def is_there() -> bool:
            pod = self.ready_pod()
            return pod is not None and pod["metadata"]["uid"] != uid

        wait_until(is_there, PATIENCE, "another Brain", every=0.2)

    def report(self) -> str:
        """For a test that failed."""
        names = [pod["metadata"]["name"] for pod in self._pods("app.kubernetes.io/part-of=pliant")]
        return "\n".join(f"--- {name}\n{self._kube.logs(name, OPERATOR_NAMESPACE, tail=40)}" for name in names)

    # --- its database

    def set_quota(self, name: str, *, nodes: int) -> None:
        """In the Brain's Pod, by its user."""
        program = (
            "from pliant.brain.store import database, quotas; "
            "opened = database.Database('sqlite:////var/lib/pliant/brain/brain.db'); "
            f"quotas.set_quota(opened, quotas.StoredQuota({name!r}, nodes={nodes}), 1.0); opened.close()"
        )
        self._testbed.kubectl("exec", "-n", OPERATOR_NAMESPACE, f"deployment/{NAME}", "--", "python", "-c", program)

    @contextlib.contextmanager
    def database(self) -> Iterator[Database]:
        """As it is now."""
        file = self._copy / "brain.db"
        file.unlink(missing_ok=True)
        with (
            contextlib.closing(sqlite3.connect(f"file:{self._volume}/brain/brain.db?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(file)) as target,
        ):
            source.backup(target)
        opened = Database(f"sqlite:///{file}")
        try:
            yield opened
        finally:
            opened.close()

    def ask(self, query: str, **values: Any) -> list[Any]:
        with self.database() as database, database.reading() as connection:
            return list(connection.execute(text(query), values).all())

    def last_heard(self, namespace: str, job: str) -> float:
        return float(self._of_job("last_heard_at", namespace, job))

    def phase(self, namespace: str, job: str) -> str:
        return str(self._of_job("phase", namespace, job))

    def _of_job(self, column: str, namespace: str, job: str) -> Any:
        query = f"SELECT {column} FROM jobs WHERE namespace = :namespace AND name = :job"
        [(found,)] = self.ask(query, namespace=namespace, job=job)
        return found

    def accepted(self, namespace: str, job: str) -> int:
        """Records, by the sum of what the database has."""
        found = self.ask(
            "SELECT coalesce(sum(s.accepted), 0) FROM job_samples s JOIN jobs j ON j.id = s.job_id"
            " WHERE j.namespace = :namespace AND j.name = :job",
            namespace=namespace,
            job=job,
        )
        return int(found[0][0])

    def audit(self, namespace: str, job: str) -> list[AuditRow]:
        """Of a job whose journal is in the database."""
        [(uid,)] = self.ask(
            "SELECT uid FROM journals WHERE namespace = :namespace AND name = :job", namespace=namespace, job=job
        )
        with self.database() as database:
            stored = read_from(database, JobIdentity(namespace, job, uid))
            batches = [decode(each.number, each.is_snapshot, each.operations, each.lasting).batch for each in stored]
        return [row for batch in batches for row in batch.audit]
