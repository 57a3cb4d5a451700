"""Assembles the commands, and turns our errors into a message and an exit code.

A command's module is imported when the command is used, so none pays for the imports of the others, and ``pliant --help``
pays for none. The help of a command is its module's docstring.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pliant import __version__
from pliant.cli.render.help_text import keep_examples
from pliant.cli.render.terminal import say
from pliant.core.errors import JobFailed, NotAvailable, PliantError, RetryableError
from pliant.handles.open_handles import close_job_handles

FAILED, USAGE_ERROR, INTERRUPTED = 1, 2, 130  # exit codes


@dataclass(frozen=True)
class Entry:
    summary: str
    extra: str = ""  # of Pliant's package, without which the module cannot be imported


COMMANDS = {
    "run": Entry("Run a program as an elastic job and wait for it to finish."),
    "submit": Entry("Submit a job to Kubernetes.", extra="kubernetes"),
    "train": Entry("Train and evaluate the model in a model file.", extra="torch"),
    "evaluate": Entry("Evaluate a trained model on data.", extra="torch"),
    "predict": Entry("Write predictions for each record.", extra="torch"),
    "zoo": Entry("Create a model file from a template.", extra="torch"),
    "status": Entry("Show the status of a job, or its result."),
    "jobs": Entry("List the jobs on this machine."),
    "logs": Entry("Show the output of a job's programs."),
    "events": Entry("Show the events of a job, one per line."),
    "top": Entry("Watch CPU, memory and records/s of each node."),
    "dashboard": Entry("Show jobs on a web page.", extra="dashboard"),
    "report": Entry("Write a job to one HTML file."),
    "plans": Entry("Show the plans of a job that plans its own resources."),
    "explain": Entry("Explain a job's speed, and what would be planned next."),
    "scale": Entry("Scale a running job: nodes per role, resources."),
    "attach": Entry("Follow a running job, as `run` does."),
    "stop": Entry("Stop a running job."),
    "resume": Entry("Continue a job that was stopped or interrupted, or that failed."),
    "audit": Entry("Verify that each record was accepted exactly once."),
    "data": Entry("Inspect and convert data files.", extra="data"),
    "checkpoint": Entry("Inspect checkpoints and export models from them.", extra="torch"),
    "master": Entry("Run a standalone master for programs started elsewhere."),
    "operator": Entry("Run the Kubernetes operator.", extra="kubernetes"),
    "brain": Entry("The Brain, which plans for all jobs of a cluster."),
    "simulate": Entry("Simulate jobs and compare how they are planned.", extra="auto"),
    "doctor": Entry("Check that this machine can run jobs."),
    "schema": Entry("Print the JSON schema of a job's YAML file."),
}


class Commands(TyperGroup):
    """The commands by name; each is imported when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(COMMANDS)}"
            ctx.fail(f"unknown command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PliantError as error:
            say(f"pliant: {error}", to_stderr=True)
            raise typer.Exit(FAILED if isinstance(error, RetryableError | JobFailed) else USAGE_ERROR) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        finally:
            close_job_handles()


class ProgramCommand(TyperCommand):
    """A command that ends in a program with arguments of its own: everything after the program is passed on to it.

    ``run -n 2 train.py --epochs 3`` passes ``--epochs`` on, as torchrun does; ``run job.yaml --workers 2`` does not, since a
    file that describes a job takes no arguments.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        values, _, _ = parser.parse_args(list(args))
        program = values.get("command") or ("",)
        ctx.allow_interspersed_args = program[0].endswith((".yaml", ".yml"))
        return list(super().parse_args(ctx, args))


class NativeCommand(TyperCommand):
    """Options may be spelled with underscores, as the original launcher has them: ``--batch_size=64``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return list(super().parse_args(ctx, [_dashed(arg) for arg in args]))


def _dashed(argument: str) -> str:
    option, equals, value = argument.partition("=")
    return option.replace("_", "-") + equals + value if option.startswith("--") else argument


_CLASSES = {"run": ProgramCommand, "train": NativeCommand, "evaluate": NativeCommand, "predict": NativeCommand}


def _load(name: str) -> Any:
    try:
        module = import_module(f"pliant.cli.commands.{name}")
    except ImportError as error:
        extra = COMMANDS[name].extra
        if not extra:
            raise
        raise NotAvailable(
            f"`pliant {name}` needs a package that is not installed: {error.name}",
            hint=f"pip install 'pliant[{extra}]'",
        ) from None
    inner = getattr(module, "app", None)
    if not isinstance(inner, typer.Typer):
        inner = _alone(name, getattr(module, name), module.__doc__ or "")
    command = typer.main.get_command(inner)
    command.name = name
    command.help = keep_examples(module.__doc__ or "")
    return command


def _alone(name: str, function: Callable[..., None], text: str) -> typer.Typer:
    inner = typer.Typer(add_completion=False, rich_markup_mode=None)
    inner.command(name, help=keep_examples(text), cls=_CLASSES.get(name))(function)
    return inner


app = typer.Typer(
    name="pliant",
    cls=Commands,
    help="Elastic deep-learning training, locally and on Kubernetes.",
    epilog="Run `pliant COMMAND --help` for options and examples. Jobs are stored in ~/.pliant/jobs (PLIANT_HOME changes this).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        say(f"pliant {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    return


def run(application: typer.Typer) -> None:
    try:
        application()
    except BrokenPipeError:
        sys.exit(FAILED)
