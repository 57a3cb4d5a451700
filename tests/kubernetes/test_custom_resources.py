"""What the API server itself does with an ElasticJob: refuses mistakes with useful words, fills in defaults, keeps the rest."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.kubernetes.harness import PROJECT, Space
from tests.kubernetes.operators import a_job

from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS
from pliant.spec import JobSpec

WORKER: dict[str, Any] = {"command": ["python", "train.py"], "replicas": {"min": 1, "max": 2}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"strategy": "alreduce"}, ["spec.strategy", "allreduce"]),
        ({"optimize": {"mode": "clever"}}, ["spec.optimize.mode", "manual", "cluster"]),
        ({"roles": {"worker": {**WORKER, "replicas": {"min": 1}}}}, ["spec.roles.worker.replicas.max", "Required"]),
        (
            {"roles": {"worker": {**WORKER, "replicas": {"min": -1, "max": 1}}}},
            ["replicas.min", "greater than or equal to 0"],
        ),
        ({"roles": {"worker": {**WORKER, "resources": {"memory": "lots"}}}}, ["resources.memory", "lots"]),
        ({"roles": {"worker": {**WORKER, "command": "python train.py"}}}, ["roles.worker.command", "array"]),
        ({"fault": {"grace": -3}}, ["spec.fault.grace", "greater than or equal to 0"]),
        ({"platform": {"kubernetes": {"journal": {"volume": "tape"}}}}, ["journal.volume", "emptyDir", "claim"]),
        ({"suspend": "maybe"}, ["spec.suspend", "boolean"]),
    ],
)
def test_a_mistake_is_refused_where_it_is_made(space: Space, spec: dict[str, Any], told: list[str]) -> None:
    body = {
        "apiVersion": "pliant.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "bad"},
        "spec": {"roles": {"worker": WORKER}, **spec},
    }
    done = space.kubectl("apply", "--validate=false", "-f", "-", stdin=yaml.safe_dump(body), check=False)
    assert done.returncode != 0
    for words in told:
        assert words in done.stderr
    assert space.list(ELASTIC_JOBS) == []


def test_a_field_that_does_not_exist_is_told_by_kubectl(space: Space) -> None:
    body = {
        "apiVersion": "pliant.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "bad"},
        "spec": {"roles": {"worker": WORKER}, "strategie": "none"},
    }
    done = space.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body), check=False)
    assert done.returncode != 0
    assert "strategie" in done.stderr


def test_defaults_are_those_of_the_model(space: Space) -> None:
    stored = a_job(space)["spec"]
    stored["name"] = "digits"
    assert stored["platform"]["kind"] == "kubernetes"
    described = {
        "name": "digits",
        "platform": "kubernetes",
        "roles": {"worker": {**WORKER, "replicas": {"min": 1, "max": 4}}},
    }
    assert JobSpec.from_dict(stored) == JobSpec.from_dict(described)


def test_a_whole_job_comes_back_as_it_was_sent(space: Space) -> None:
    text = (PROJECT / "examples/job.yaml").read_text()
    spec = JobSpec.from_yaml(text).to_json() | {"name": "whole"}
    spec["roles"]["worker"]["env"] = {"EMPTY": "", "TEXT": "ä = 1"}
    spec["roles"]["worker"]["template"] = {
        "spec": {"tolerations": [{"key": "x", "operator": "Exists"}], "any": {"z": [1]}}
    }
    space.create(ELASTIC_JOBS, {"metadata": {"name": "whole"}, "spec": spec})
    assert space.get(ELASTIC_JOBS, "whole")["spec"] == spec


def test_kubectl_shows_the_columns(space: Space) -> None:
    a_job(space)
    status = {"phase": "Running", "workers": "2/4", "progress": {"percent": 37.5, "eta": "4m30s"}, "goodput": 97.25}
    space.patch(ELASTIC_JOBS, "digits", {"status": status}, subresource="status")
    shown = space.kubectl("get", "ej", "digits").stdout
    for word in ("PHASE", "WORKERS", "PS", "PROGRESS%", "ETA", "GOODPUT%", "AGE", "2/4", "37.5", "4m30s", "97.25"):
        assert word in shown
