"""List quotas and what is used of them, or change them: what the jobs that name a quota may have together.

    pliant brain quota
    pliant brain quota set vision --cpu 64 --memory 256Gi
    pliant brain quota set vision --gpu 8 --nodes none
    pliant brain quota remove vision
    pliant run --auto --brain local --quota vision -- python train.py

A running Brain applies a change within seconds: jobs are granted more or less, and those that have more than is granted give it
back. A quota that jobs name and that does not exist limits nothing.

Exit code: 0; 1 if the database does not answer; 2 if the quota is not found or an amount is not valid.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Annotated

import typer

from pliant.cli.commands.brain.options import DatabaseUrl, Dir
from pliant.cli.options.common import AsJson
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest, NotFound

NO_LIMIT = "none"
MAX_COUNT = 1_000_000  # of GPUs or nodes

app = typer.Typer(add_completion=False, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The quota's name.", show_default=False)]


@app.callback(invoke_without_command=True)
def quota(context: typer.Context, database: DatabaseUrl = None, directory: Dir = None, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is not None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
        if given:
            raise InvalidRequest(
                "options come after the command", hint="such as: pliant brain quota remove NAME --json"
            )
        return
    from pliant.brain.inspection import quota_rows
    from pliant.cli.launch.brain_database import open_database

    with open_database(database, directory) as opened:
        rows = quota_rows(opened)
    if as_json:
        print(json.dumps([row.to_json() for row in rows], indent=1))
    elif rows:
        from pliant.cli.render.brain.quotas import quota_table
        from pliant.cli.render.tables import table_console

        table_console().print(quota_table(rows))
    else:
        say("no quotas; create one with `pliant brain quota set NAME --cpu 64`")


@app.command("set")
def set_quota(
    name: Name,
    cpu: Annotated[str | None, typer.Option("--cpu", metavar="CORES", help="Cores: 64, 500m; none: no limit.")] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="AMOUNT", help="Memory: 64Gi, 512Mi; none: no limit.")
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="N", help="GPUs; none: no limit.")] = None,
    nodes: Annotated[str | None, typer.Option("--nodes", metavar="N", help="Nodes; none: no limit.")] = None,
    database: DatabaseUrl = None,
    directory: Dir = None,
    as_json: AsJson = False,
) -> None:
    """Set limits of a quota; those that are not given stay as they are. A quota that does not exist is created."""
    from pliant.spec.quantities import cpu_cores, memory_mb  # brings pydantic

    asked: dict[str, tuple[str, str | None, Callable[[str], float]]] = {
        "cpu": ("--cpu", cpu, cpu_cores),
        "memory_mb": ("--memory", memory, lambda written: memory_mb(int(written) if written.isdecimal() else written)),
        "gpu": ("--gpu", gpu, _whole),
        "nodes": ("--nodes", nodes, _whole),
    }
    changes = {
        field: _amount(option, written, read) for field, (option, written, read) in asked.items() if written is not None
    }
    if not changes:
        raise InvalidRequest("no limit is given", hint=f"for example: pliant brain quota set {name} --cpu 64")
    from pliant.brain.store.quotas import change_quota
    from pliant.cli.launch.brain_database import open_database
    from pliant.core.decoding import plain

    with open_database(database, directory) as opened:
        changed = change_quota(opened, name, changes, time.time())
    if as_json:
        print(json.dumps(plain(changed), indent=1))
        return
    from pliant.cli.render.brain.quotas import limits_text

    say(f"quota {name}: {limits_text(changed)}")


@app.command("remove")
def remove_quota(name: Name, database: DatabaseUrl = None, directory: Dir = None, as_json: AsJson = False) -> None:
    """Remove a quota: jobs that name it are not limited any more."""
    from pliant.brain.store import quotas
    from pliant.cli.launch.brain_database import open_database

    with open_database(database, directory) as opened:
        if not quotas.remove_quota(opened, name):
            raise NotFound(f"quota {name} not found", hint="list quotas with: pliant brain quota")
    if as_json:
        print(json.dumps({"removed": name}))
    else:
        say(f"removed quota {name}: jobs that name it are not limited any more")


def _amount(option: str, written: str, read: Callable[[str], float]) -> float | None:
    """None: no limit."""
    from pydantic_core import PydanticCustomError

    if written == NO_LIMIT:
        return None
    try:
        return read(written)
    except (PydanticCustomError, ValueError) as error:
        allowed = error.message() if isinstance(error, PydanticCustomError) else f"allowed: {error}"
        raise InvalidRequest(f"{option} {written!r:.40}: {allowed}, or {NO_LIMIT}") from None


def _whole(written: str) -> int:
    if not written.isascii() or not written.isdecimal() or len(written) > 9 or int(written) > MAX_COUNT:
        raise ValueError(f"a whole number up to {MAX_COUNT:,}")
    return int(written)
