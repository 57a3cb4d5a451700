"""Resource generators make plans. In manual mode a person is the generator; automatic ones come with the Brain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pliant.core.resources import ResourcePlan, RolePlan


class ResourceGenerator(ABC):
    @abstractmethod
    def generate_plan(self, stage: str, config: Mapping[str, Any]) -> ResourcePlan | None:
        """A plan for a stage of the job (``create``, ``running``), or None to leave things as they are."""


class ManualGenerator(ResourceGenerator):
    """Turns what a person asked for into a plan: ``config`` is ``{"role": …, "replicas": …, "reason": …}``."""

    def generate_plan(self, stage: str, config: Mapping[str, Any]) -> ResourcePlan | None:
        if not config:
            return None
        reason = str(config.get("reason") or "asked for by hand")
        return ResourcePlan({str(config["role"]): RolePlan(int(config["replicas"]))}, reason)
