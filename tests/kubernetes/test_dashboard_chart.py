"""The chart with the dashboard on a real API server: its certificate is kept by upgrades, and its account may do what it must."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from tests.kubernetes.harness import Space
from tests.kubernetes.test_brain_chart import Release, secret
from tests.kubernetes.test_chart import helm

from pliant.platforms.kubernetes.kinds import DEPLOYMENTS, SERVICES

__all__ = ["helm"]

NAME = "pliant-dashboard"
VALUES = ("brain.enabled=false", "dashboard.enabled=true")
READS = (
    ("list", "elasticjobs.pliant.dev"),
    ("list", "pods"),
    ("get", "pods", "--subresource=log"),
    ("create", "pods", "--subresource=portforward"),
    ("get", "secrets"),
    ("get", "configmaps"),
)
FORBIDDEN = (
    ("list", "secrets"),
    ("create", "pods"),
    ("delete", "pods"),
    ("create", "pods", "--subresource=exec"),
    ("delete", "elasticjobs.pliant.dev"),
    ("patch", "elasticjobs.pliant.dev"),
)


@pytest.fixture
def release(helm: str, space: Space) -> Iterator[Release]:
    made = Release(helm, space)
    made.run("install", *VALUES)
    yield made
    made.uninstall()


def test_an_upgrade_keeps_the_certificate_until_there_are_other_host_names(release: Release, space: Space) -> None:
    before = secret(space, f"{NAME}-tls")
    notes = release.run("upgrade", *VALUES)
    assert f"svc/{NAME} 8470" in notes
    assert secret(space, f"{NAME}-tls") == before
    release.run("upgrade", *VALUES, "dashboard.allowedHosts={dash.example}")
    after = secret(space, f"{NAME}-tls")
    assert after["tls.crt"] != before["tls.crt"]
    release.run("upgrade", *VALUES, "dashboard.allowedHosts={dash.example}")
    assert secret(space, f"{NAME}-tls") == after
    assert space.find(DEPLOYMENTS, NAME)
    assert space.get(SERVICES, NAME)["spec"]["ports"][0]["port"] == 8470


def test_its_account_reads_and_changes_jobs_only_where_that_is_allowed(release: Release, space: Space) -> None:
    who = f"--as=system:serviceaccount:{space.name}:{NAME}"

    def may(*words: str) -> bool:
        return space.kubectl("auth", "can-i", *words, who, check=False).stdout.strip() == "yes"

    for words in READS:
        space.wait_for(partial(may, *words), f"the right to {' '.join(words)}")
    for words in FORBIDDEN:
        assert not may(*words), words
    release.run("upgrade", *VALUES, "dashboard.allowControl=true")
    space.wait_for(lambda: may("patch", "elasticjobs.pliant.dev"), "the right to patch ElasticJobs")
    assert not may("delete", "elasticjobs.pliant.dev")
