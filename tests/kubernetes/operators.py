"""Operators as processes of their own, for tests on the control plane."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes.harness import PATIENCE, Space

from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, LEASES, PODS, SCALE_PLANS, SECRETS, SERVICE_ACCOUNTS, Object
from pliant.platforms.kubernetes.names import master_name
from pliant.platforms.kubernetes.outbox import as_plan

LEASE = "pliant-operator"


class OperatorProcess:
    def __init__(self, space: Space, log: Path, kubeconfig: Path | None = None, flags: Sequence[str] = ()) -> None:
        self._space, self.log = space, log
        command = [sys.executable, "-m", "pliant.operator", "--namespace", space.name, "--lease-namespace", space.name]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig or space.testbed.kubeconfig)}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--port", "0", "--image", "fake", *flags], stdout=output, stderr=output, env=environment
            )

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def leads(self) -> bool:
        return "this operator is now the leader" in self.log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def running_operator(
    space: Space, log: Path, kubeconfig: Path | None = None, flags: Sequence[str] = ()
) -> Iterator[OperatorProcess]:
    operator = OperatorProcess(space, log, kubeconfig, flags)
    try:
        yield operator
    finally:
        if operator.process.poll() is None:
            operator.end(signal.SIGKILL)


def holder(space: Space) -> str:
    lease = space.find(LEASES, LEASE)
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def a_job(space: Space, name: str = "digits", **spec: Any) -> Object:
    worker = {"command": ["python", "train.py"], "replicas": {"min": 1, "max": 4}}
    return space.create(ELASTIC_JOBS, {"metadata": {"name": name}, "spec": {"roles": {"worker": worker}, **spec}})


def masters_plan(space: Space, job: Object, sequence: int, **request: Any) -> Object:
    """As the job's master asks for it."""
    name = job["metadata"]["name"]
    asked = {"reason": "a test says so", **request}
    outbox = {"outbox": {"plans": {str(sequence): asked}}}
    space.patch(ELASTIC_JOBS, name, {"status": outbox}, subresource="status")
    return as_plan(name, sequence, asked)


def nodes_to_create(*numbers: int) -> list[Object]:
    return [{"node": f"worker-{number}", "role": "worker"} for number in numbers]


def wait_for_master(space: Space, job: str = "digits") -> Object:
    return space.wait_for(lambda: space.find(PODS, master_name(job)), f"the master's Pod of {job}")


def wait_for_phase(space: Space, phase: str, job: str = "digits") -> Object:
    def there() -> Object | None:
        found = space.get(ELASTIC_JOBS, job)
        return found if (found.get("status") or {}).get("phase") == phase else None

    return space.wait_for(there, f"phase {phase} of {job}")


def wait_for_plan(space: Space, plan: Object, phase: str) -> Object:
    def there() -> Object | None:
        found = space.find(SCALE_PLANS, plan["metadata"]["name"])
        return found if ((found or {}).get("status") or {}).get("phase") == phase else None

    return space.wait_for(there, f"phase {phase} of plan {plan['metadata']['name']}")


def kubeconfig_of(space: Space, folder: Path, account: str) -> Path:
    """With the token of a service account, and nothing else."""
    secret = space.wait_for(
        lambda: (space.get(SERVICE_ACCOUNTS, account).get("secrets") or [None])[0], "the account's token"
    )
    token = base64.b64decode(space.get(SECRETS, secret["name"])["data"]["token"]).decode()
    shown = space.testbed.kubectl("config", "view", "--raw", "--flatten", "-o", "json").stdout
    config: dict[str, Any] = json.loads(shown)
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    path = folder / f"{account}.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def node_pods(space: Space) -> set[str]:
    return {pod["metadata"]["name"] for pod in space.list(PODS) if pod["metadata"]["labels"].get("pliant.dev/node")}
