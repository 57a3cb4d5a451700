"""The Brain: one service that plans for every job of a cluster.

    pliant brain serve
    pliant brain jobs
    pliant brain show digits
    pliant brain plans --since 1d
    pliant brain quota set vision --cpu 64 --memory 256Gi
    pliant brain evaluate --algorithm plan_job
    pliant brain token digits --out digits-token
    pliant brain migrate --check
    pliant brain monitor --platform local

All but `serve` and `monitor` read the Brain's database and folder, and work whether a Brain runs or not.

Exit code: 0 success, 1 the Brain or its database does not answer, 2 a usage error.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import typer

from pliant.cli.commands.brain import evaluate, jobs, migrate, monitor, plans, quota, serve, show, token
from pliant.cli.render.help_text import keep_examples

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def _add(name: str, module: ModuleType, function: Callable[..., None]) -> None:
    app.command(name, help=keep_examples(module.__doc__ or ""))(function)


_add("serve", serve, serve.serve)
_add("migrate", migrate, migrate.migrate)
_add("jobs", jobs, jobs.jobs)
_add("show", show, show.show)
_add("plans", plans, plans.plans)
app.add_typer(quota.app, name="quota", help=keep_examples(quota.__doc__ or ""))
_add("evaluate", evaluate, evaluate.evaluate)
_add("token", token, token.token)
_add("monitor", monitor, monitor.monitor)


@app.callback()
def group() -> None:
    """With a callback the commands are named, also if there is only one."""
