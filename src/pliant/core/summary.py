"""What stays of a job: its last status and what follows from it, as the JSON file that people and scripts read.

The master writes it once the job is over (``master/summary.py``); where there is no master's, one is made of the last status
that is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pliant.core.errors import CorruptData
from pliant.core.job import Phase
from pliant.core.memory_advice import memory_advice
from pliant.core.planning.plan_record import PlanRecord
from pliant.core.status import JobStatus
from pliant.core.status_json import status_from_json, status_to_json

EXIT_CODES = {Phase.SUCCEEDED: 0, Phase.STOPPED: 130, Phase.INTERRUPTED: 130}  # 1 for all others

Metrics = Mapping[str, float | None]  # None: not a finite number


@dataclass(frozen=True, slots=True)
class JobSummary:
    status: JobStatus
    restarts: int = 0  # of programs, in place
    replacements: int = 0  # of nodes
    metrics: Metrics = field(default_factory=dict)  # last values: the program's own, and of the latest evaluation
    evaluation: Metrics = field(default_factory=dict)  # the latest
    master_parts: Mapping[str, object] = field(default_factory=dict)  # which components the job's spec asked for
    plans: tuple[PlanRecord, ...] = ()  # of a job that plans its own resources, oldest first
    left_out: tuple[str, ...] = ()  # keys that were too large to keep

    @property
    def name(self) -> str:
        return self.status.name

    @property
    def phase(self) -> Phase:
        return self.status.phase

    @property
    def reason(self) -> str:
        return self.status.reason

    @property
    def exit_code(self) -> int:
        """Of a command that followed the job to its end."""
        return exit_code(self.phase)

    @property
    def seconds(self) -> float:
        """From start to end."""
        status = self.status
        return max(0.0, status.ended_at - status.started_at) if status.started_at and status.ended_at else 0.0

    @property
    def records_done(self) -> int:
        return sum(dataset.records_done for dataset in self.status.datasets) or self.status.progress.records_done

    def to_json(self) -> dict[str, Any]:
        return {
            "best": None,
            **status_to_json(self.status),
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "records_done": self.records_done,
            "average_records_per_second": round(self.records_done / self.seconds, 1) if self.seconds else 0.0,
            "restarts": self.restarts,
            "replacements": self.replacements,
            "memory_advice": [advice.to_json() for advice in memory_advice(self.status)],
            "master_parts": dict(self.master_parts),
            "metrics": dict(self.metrics),
            "evaluation": dict(self.evaluation),
            **({"plans": [plan.to_json() for plan in self.plans]} if self.plans else {}),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobSummary:
        """Raises ``CorruptData``."""
        try:
            return cls._read(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptData(
                f"the summary is corrupt, or of another version: {type(error).__name__}: {error}"
            ) from None

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> JobSummary:
        return cls(
            status_from_json(value),
            restarts=value.get("restarts", 0),
            replacements=value.get("replacements", 0),
            metrics=dict(value.get("metrics", {})),
            evaluation=dict(value.get("evaluation", {})),
            master_parts=dict(value.get("master_parts", {})),
            plans=tuple(PlanRecord.from_json(plan) for plan in value.get("plans", ())),
            left_out=tuple(value.get("left_out", ())),
        )


def exit_code(phase: Phase) -> int:
    return EXIT_CODES.get(phase, 1)
