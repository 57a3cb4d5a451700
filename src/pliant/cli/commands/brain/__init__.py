"""The Brain: one service that plans for every job of a cluster.

    pliant brain serve
    pliant brain jobs
    pliant brain monitor --platform local

Exit code: 0 success, 1 the Brain does not answer, 2 a usage error.
"""

from __future__ import annotations

import typer

from pliant.cli.commands.brain import monitor, serve
from pliant.cli.render.help_text import keep_examples

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
app.command("serve", help=keep_examples(serve.__doc__ or ""))(serve.serve)
app.command("monitor", help=keep_examples(monitor.__doc__ or ""))(monitor.monitor)


@app.callback()
def group() -> None:
    """With a callback the commands are named, also if there is only one."""
