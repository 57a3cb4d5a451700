"""Cells and tables that several views of the Brain share."""

from __future__ import annotations

import time

from rich.table import Table

from pliant.cli.render.job_list import age


def plain_table(*heads: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold")
    return table


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else ""


def ago(seconds: float, now: float) -> str:
    return f"{age(now - seconds)} ago" if seconds else ""


def rate(value: float | None) -> str:
    return f"{value:.4g}" if value is not None else ""


def percent(share: float | None) -> str:
    return f"{100 * share:.0f} %" if share is not None else "-"
