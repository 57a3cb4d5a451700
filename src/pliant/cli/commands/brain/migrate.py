"""Bring the Brain's database to the schema of this release; one that does not exist is created.

    pliant brain migrate
    pliant brain migrate --check
    pliant brain migrate --database postgresql://pliant@db/pliant

`pliant brain serve` does it at its start, unless told not to (--no-migrate). --check only says what would be done. A
database of a later release is refused. Two at a time are one after the other.

Exit code: 0 if nothing is left to do, 1 if --check finds something to do or the database does not answer, 2 if it is refused.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pliant.cli.commands.brain.options import DatabaseUrl, Dir
from pliant.cli.options.common import AsJson
from pliant.cli.render.terminal import say


def migrate(
    check: Annotated[bool, typer.Option("--check", help="Only say what would be done.")] = False,
    database: DatabaseUrl = None,
    directory: Dir = None,
    as_json: AsJson = False,
) -> None:
    from pliant.brain.store import migrating
    from pliant.cli.launch.brain_database import missing_file, open_unchecked

    with open_unchecked(database, directory) as found:
        if check:
            is_new = missing_file(database, directory) is not None
            revisions = migrating.revisions() if is_new else migrating.pending_revisions(found)
        else:
            revisions = migrating.migrate(found)
        shown_url, head = found.shown_url, migrating.head()
    if as_json:
        done = {"applied": [] if check else revisions, "pending": revisions if check else []}
        print(json.dumps({"database": shown_url, "schema": head, **done}, indent=1))
    else:
        verb = "to apply" if check else "applied"
        for revision in revisions:
            say(f"{verb}: {revision} {migrating.description_of(revision)}")
        if not revisions:
            say(f"{shown_url} has schema {head}: nothing to do")
        elif check:
            say(f"{shown_url} needs `pliant brain migrate`")
    if check and revisions:
        raise typer.Exit(1)
