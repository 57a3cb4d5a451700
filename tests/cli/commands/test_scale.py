"""What `pliant scale` understands: numbers, resources, or both; anything else is refused before a master is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

from pliant.cli.app import app
from pliant.cli.commands import scale as command
from pliant.core.errors import InvalidRequest
from pliant.core.resources import RolloutMode
from pliant.handles.job_handle import RoleChange, RoleChanged


class Handle:
    name = "mine"

    def __init__(self) -> None:
        self.asked: list[RoleChange | dict[str, int]] = []

    def scale(self, wanted: Sequence[RoleChange], reason: str) -> list[RoleChanged]:
        self.asked += wanted
        return [RoleChanged(2, 2 if one.replicas is None else one.replicas, 2, in_place=False) for one in wanted]

    def assign_seats(self, seats: dict[str, int], reason: str) -> dict[str, int]:
        self.asked.append(seats)
        return seats or {"worker-0": 4, "worker-1": 4}


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    made = Handle()
    monkeypatch.setattr(command, "find_job_handle", lambda *_: made)
    return made


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("mine ps=3", [RoleChange("ps", 3)]),
        ("mine worker=4 ps=3", [RoleChange("worker", 4), RoleChange("ps", 3)]),
        ("mine --workers 6", [RoleChange("worker", 6)]),
        ("mine --role ps --replicas 3", [RoleChange("ps", 3)]),
        ("mine ps --replicas 3", [RoleChange("ps", 3)]),
        ("mine worker --cpu 2 --memory 4Gi", [RoleChange("worker", None, 2.0, 4096)]),
        ("mine --memory 0", [RoleChange("worker", None, None, 0)]),
        (
            "mine ps --cpu 500m --gpu 1 --replicas 2 --rolling",
            [RoleChange("ps", 2, 0.5, None, 1, RolloutMode.ROLLING)],
        ),
        ("mine ps=2 --cpu 1 --in-place", [RoleChange("ps", 2, 1.0, rollout=RolloutMode.IN_PLACE)]),
        ("worker --cpu 1 --job-dir here", [RoleChange("worker", None, 1.0)]),
        ("ps=3 --job-dir here", [RoleChange("ps", 3)]),
        ("mine --seats worker-0=5,worker-1=3", [{"worker-0": 5, "worker-1": 3}]),
        ("mine --seats even", [{}]),
        ("--seats even --job-dir here", [{}]),
    ],
)
def test_what_is_asked_for(handle: Handle, words: str, expected: list[Any]) -> None:
    done = CliRunner().invoke(app, ["scale", *words.split()])
    assert done.exit_code == 0, done.output
    assert handle.asked == expected
    assert "mine: " in done.output


@pytest.mark.parametrize(
    "words",
    [
        "mine",
        "mine worker",
        "mine worker ps --cpu 1",
        "mine worker --role ps --cpu 1",
        "mine --in-place",
        "mine ps=3 --rolling",
        "mine worker --cpu 1 --in-place --rolling",
        "mine worker --memory lots",
        "mine worker --cpu -1",
        "mine --workers 2 --replicas 3",
        "mine --move-off ps-1 --cpu 2",
        "mine --seats worker-0",
        "mine --seats worker-0=1,worker-0=2",
        "mine --seats worker-0=-1",
        "mine --seats worker-0=99999999",
        "mine --seats worker-0=2, --workers 3",
        "mine --seats even --workers 3",
        "mine --seats even --move-off ps-1",
        "--seats even",
        "--cpu 2",
    ],
)
def test_what_is_not_understood_is_refused(handle: Handle, words: str) -> None:
    done = CliRunner().invoke(app, ["scale", *words.split()])
    assert isinstance(done.exception, InvalidRequest) or done.exit_code == 2, done.output
    assert not handle.asked
