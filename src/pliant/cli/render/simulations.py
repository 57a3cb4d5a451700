"""The measures of a simulation as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from pliant.sim.report.page import COLUMNS, SHARING_COLUMNS, measure_row, sharing_row
from pliant.sim.run import ScenarioRun


def measures_table(run: ScenarioRun) -> Table:
    return _table(COLUMNS, [measure_row(measures) for measures in run.measures.values()])


def sharing_table(run: ScenarioRun) -> Table:
    """How jobs shared a quota."""
    return _table(SHARING_COLUMNS, [sharing_row(measures) for measures in run.measures.values()])


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, (name, _) in enumerate(columns):
        table.add_column(name.upper(), justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    return table
