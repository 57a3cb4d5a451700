"""Quotas and what is used of them: ``pliant brain quota``."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from pliant.brain.inspection import QuotaRow
from pliant.brain.store.quotas import StoredQuota
from pliant.cli.render.brain.parts import plain_table
from pliant.spec.quantities import write_memory


def quota_table(rows: Sequence[QuotaRow]) -> Table:
    table = plain_table("QUOTA", "CPU", "MEMORY", "GPU", "NODES", "JOBS", "", right=("JOBS",))
    for row in rows:
        quota, use = row.quota or StoredQuota(row.name), row.use
        note = "" if row.quota is not None else "does not exist: no limit" if row.name else "jobs without a quota"
        table.add_row(
            Text(row.name or "-"),
            _used(f"{use.cpu:g}", f"{quota.cpu:g}" if quota.cpu is not None else None),
            _used(_memory(use.memory_mb), _memory(quota.memory_mb) if quota.memory_mb is not None else None),
            _used(str(use.gpu), str(quota.gpu) if quota.gpu is not None else None),
            _used(str(use.nodes), str(quota.nodes) if quota.nodes is not None else None),
            str(use.jobs),
            Text(note, style="dim"),
        )
    return table


def limits_text(quota: StoredQuota) -> str:
    limits = (
        f"{quota.cpu:g} CPU" if quota.cpu is not None else "",
        f"{_memory(quota.memory_mb)} of memory" if quota.memory_mb is not None else "",
        f"{quota.gpu} GPU" if quota.gpu is not None else "",
        f"{quota.nodes} nodes" if quota.nodes is not None else "",
    )
    return ", ".join(limit for limit in limits if limit) or "no limit"


def _used(used: str, limit: str | None) -> str:
    return f"{used} of {limit}" if limit is not None else used


def _memory(megabytes: float) -> str:
    return str(write_memory(round(megabytes)))
