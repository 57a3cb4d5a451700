"""The states of a job's planner (``planner.py``), which travel to whoever shows them."""

from __future__ import annotations

from enum import StrEnum


class PlannerState(StrEnum):
    OBSERVING = "observing"
    PLANNED = "planned"  # made, and not answered yet
    PROBING = "probing"  # a try is carried out and settles
    SETTLING = "settling"
    JUDGING = "judging"  # settled: measured until it can be judged
    ROLLED_BACK = "rolled back"  # and that settles
    PAUSED = "paused"
