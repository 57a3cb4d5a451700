"""Plans and an explanation, as tests of converters and views need them."""

from __future__ import annotations

from dataclasses import replace

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.explanation import CurvePoint, Explanation
from pliant.core.planning.history import Objective
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.proposal import Prediction, Proposal

NOW = 1_800_000_000.0
FOUR = Configuration(Shape(4, 1.0, 512))
EIGHT = replace(FOUR, worker=replace(FOUR.worker, replicas=8))
PROPOSAL = Proposal("plan_job", "8 workers are twice as fast", EIGHT, Prediction(80.0, 70.0, 90.0, change_s=2.0))
KEPT = PlanRecord(
    "auto-1",
    NOW,
    PROPOSAL,
    FOUR,
    40.0,
    1.0,
    Objective.BALANCED,
    1,
    NOW + 120,
    Outcome.KEPT,
    accepted_at=NOW,
    ended_at=NOW + 30,
    achieved_rate=78.0,
    achieved_error=0.5,
    judgement="better: 78 records per second",
)
ROLLED_BACK = replace(KEPT, id="auto-2", outcome=Outcome.ROLLED_BACK, achieved_rate=31.0, judgement="worse than before")
ROLLBACK = PlanRecord(
    "auto-3",
    NOW + 60,
    Proposal("judge", "back to 4 workers", FOUR),
    EIGHT,
    31.0,
    0.5,
    Objective.BALANCED,
    2,
    NOW + 180,
    rolls_back="auto-2",
)
SERVERS = PlanRecord(
    "auto-4",
    NOW + 90,
    Proposal(
        "hot_ps",
        "ps-1 is busy",
        Configuration(Shape(2), Shape(3, 2.0, 2048, 1), 16),
        replace=("worker-1",),
        seats={"worker-0": 3},
        moves={"ps-1": 0.5},
        urgent=True,
        at_next_restart=True,
    ),
    Configuration(Shape(2), Shape(2, 2.0, 2048, 1), 16),
    0.0,
    0.0,
    Objective.CHEAPEST,
    3,
    NOW + 210,
    Outcome.ADVISED,
)
RECORDS = (KEPT, ROLLED_BACK, ROLLBACK, SERVERS)
CURVE = tuple(
    CurvePoint(workers, 10.0 * workers, 9.0 * workers, 11.0 * workers, 40.0 if workers == 4 else None)
    for workers in range(1, 9)
)
EXPLANATION = Explanation(
    PlannerState.OBSERVING,
    40.0,
    {"computing": 0.75, "waiting for data": 0.25},
    {"compute of workers": 0.9, "what workers share": 0.1},
    "computing",
    CURVE,
    {"compute of workers": 1.0, "what workers share": 0.2},
    PROPOSAL,
    "cool-down for another 12 s",
    FOUR,
)
