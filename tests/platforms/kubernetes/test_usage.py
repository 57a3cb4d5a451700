"""What a metrics server tells of Pods."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.platforms.base import Measured
from pliant.platforms.kubernetes.usage import amount, readings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12345678n", 0.012345678),
        ("250m", 0.25),
        ("2", 2.0),
        ("64Ki", 65536.0),
        ("1e3", 1000.0),
        ("x", None),
        (None, None),
    ],
)
def test_quantities_are_read_as_the_api_writes_them(text: Any, value: float | None) -> None:
    assert amount(text) == (pytest.approx(value) if value is not None else None)


def test_only_nodes_count_and_of_a_pod_only_its_own_container() -> None:
    def pod(name: str, **containers: Any) -> Any:
        told = [{"name": key.replace("_", "-"), "usage": value} for key, value in containers.items()]
        return {"metadata": {"name": name}, "containers": told}

    used, other = {"cpu": "500m", "memory": "32Mi"}, {"cpu": "9", "memory": "9Gi"}
    pods = [pod("j-worker-0", log_shipper=other, main=used), pod("j-master", main=other), pod("j-worker-1", main={})]
    assert readings("j", [*pods, {"metadata": {"name": "j-worker-2"}}]) == [Measured("worker-0", 0.5, 32.0)]
