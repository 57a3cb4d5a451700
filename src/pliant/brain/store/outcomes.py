"""What masters say of their plans, joined to the offers that they were made of."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, tuple_, update

from pliant.brain.store.report_rows import Row
from pliant.brain.store.tables import plans
from pliant.brain.store.upserts import portions


def store_outcomes(connection: Connection, rows: Sequence[Row]) -> None:
    """Rows of ``report_rows.plan_row`` with their ``job_id``. A plan is one row: that of its offer, if the job had that offer."""
    last = {(row["job_id"], row["plan"]): row for row in rows}
    by_plan: dict[tuple[int, str], int] = {}
    for keys in portions(last):
        of_plan = select(plans.c.id, plans.c.job_id, plans.c.plan).where(tuple_(plans.c.job_id, plans.c.plan).in_(keys))
        by_plan |= {(row.job_id, row.plan): row.id for row in connection.execute(of_plan)}
    by_offer: dict[str, Row] = {}
    for offers in portions({row["offer"] for row in last.values() if row["offer"]}):
        of_offer = select(plans.c.id, plans.c.job_id, plans.c.offer, plans.c.plan).where(plans.c.offer.in_(offers))
        by_offer |= {row["offer"]: dict(row) for row in connection.execute(of_offer).mappings()}
    for key, row in last.items():
        offered = by_offer.get(row["offer"] or "")
        is_mine = offered is not None and offered["job_id"] == row["job_id"] and offered["plan"] in (None, row["plan"])
        changes = {name: value for name, value in row.items() if name not in ("offer", "job_id")}
        if key in by_plan:
            connection.execute(update(plans).where(plans.c.id == by_plan[key]).values(**changes))
        elif offered is not None and is_mine:
            connection.execute(update(plans).where(plans.c.id == offered["id"]).values(**changes))
            offered["plan"] = row["plan"]
        else:  # planned by the master, or of an offer that is not in this database: it was restored, or made it up
            offer = row["offer"] if offered is None else None
            connection.execute(insert(plans).values(**{**row, "offer": offer, "made_at": row["planned_at"]}))
            if offer:
                by_offer[offer] = {"id": 0, "job_id": row["job_id"], "offer": offer, "plan": row["plan"]}
