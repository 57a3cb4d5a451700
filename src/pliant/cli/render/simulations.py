"""The measures of a simulation as a table."""

from __future__ import annotations

from rich.table import Table

from pliant.sim.report.page import COLUMNS, measure_row
from pliant.sim.run import ScenarioRun


def measures_table(run: ScenarioRun) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, (name, _) in enumerate(COLUMNS):
        table.add_column(name.upper(), justify="left" if number == 0 else "right")
    for measures in run.measures.values():
        table.add_row(*measure_row(measures))
    return table
