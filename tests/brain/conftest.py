"""Most of what the Brain is made of needs servers or processes: these tests run beside the fast ones, not among them."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAST = ("test_administor.py", "test_processor.py", "test_circuit_breaker.py", "test_frames.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.path.name not in FAST:
            item.add_marker(pytest.mark.databases)
