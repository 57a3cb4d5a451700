"""What Pods take up of an edited job, and what is told to have no effect."""

from __future__ import annotations

from typing import Any

from tests.operator.builders import job

from pliant.operator.edits import effective_spec, ineffective_fields
from pliant.operator.job_spec import spec_of
from pliant.platforms.kubernetes.pods import merged
from pliant.platforms.kubernetes.traits import uses_tls
from pliant.spec import JobSpec

FIRST = spec_of(job())


def edited(**changes: Any) -> JobSpec:
    return spec_of({**job(), "spec": merged(job()["spec"], changes)})


def test_where_and_how_pods_run_is_taken_up_and_what_runs_in_them_is_not() -> None:
    template = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}
    now = edited(
        strategy="allreduce",
        security={"tls": False},
        roles={"worker": {"command": ["false"], "env": {"A": "2"}, "template": template}},
        platform={"kubernetes": {"image": "mine:2", "priority_class": "high", "shared_claim": "other"}},
    )
    made = effective_spec(FIRST, now)
    assert (made.platform.kubernetes.image, made.platform.kubernetes.priority_class) == ("mine:2", "high")
    assert made.roles["worker"].template == template
    assert (made.strategy, uses_tls(made), made.platform.kubernetes.shared_claim) == (FIRST.strategy, True, None)
    assert (made.roles["worker"].command, made.roles["worker"].env) == (("python", "train.py"), {})
    told = ineffective_fields(FIRST, now)
    for field in ("strategy", "roles.worker.command", "roles.worker.env", "platform.kubernetes.shared_claim"):
        assert field in told
    assert "image" not in told


def test_numbers_resources_and_suspend_are_the_masters_to_take_up() -> None:
    now = edited(suspend=True, roles={"worker": {"replicas": {"max": 9, "wanted": 7}, "resources": {"cpu": 2}}})
    assert ineffective_fields(FIRST, now) == ""
    assert ineffective_fields(FIRST, FIRST) == ""
