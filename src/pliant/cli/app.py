"""Puts the commands together, and turns our errors into a line for people and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pliant import __version__
from pliant.cli import run as run_command
from pliant.core.errors import PliantError

app = typer.Typer(
    name="pliant",
    help="Elastic deep-learning training that bends and does not break.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        print(f"pliant {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    return


app.command(
    "run", help=run_command.__doc__, context_settings={"allow_extra_args": False, "ignore_unknown_options": False}
)(run_command.run)


def run(application: typer.Typer) -> None:
    try:
        application()
    except PliantError as error:
        print(f"pliant: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(1)
