"""The algorithm of docs/automatic-resources.md, as a team would write it."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pliant.core.planning import registry
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, NodeView
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.planner import Planner, PlannerSettings

PAGE = Path(__file__).parents[3] / "docs" / "automatic-resources.md"
NIGHT, DAY = 23 * 3600.0, 12 * 3600.0


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of that team is installed."""
    [code] = re.findall(r"^```python algorithm\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    module = ModuleType("off_peak_package")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    entry = EntryPoint("off_peak", f"{module.__name__}:OffPeak", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == registry.GROUP else [])


def plan_at(now: float, workers: int) -> Any:
    planner = Planner(PlannerSettings(algorithms=("off_peak",)))
    history = JobHistory(
        JobKind.QUEUE,
        Configuration(Shape(workers)),
        Bounds(RoleBounds(1, 8)),
        nodes=(NodeView("worker-0", "worker"),),
    )
    step = planner.next_step(history, now)
    return planner.apply(step.method, now, step.arguments) if step is not None else None


def test_it_plans_as_the_page_says(documented: None) -> None:
    assert "off_peak" in registry.algorithm_names()
    made = plan_at(NIGHT, 4)
    assert isinstance(made, ResourcePlan)
    assert made.roles["worker"].replicas == 8
    assert made.reason == "it is 23:00 UTC: 8 workers"
    less = plan_at(DAY, 8)
    assert isinstance(less, ResourcePlan)
    assert less.roles["worker"].replicas == 4
    assert not isinstance(plan_at(DAY, 4), ResourcePlan)
