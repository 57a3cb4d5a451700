"""Show every plan of every job, newest first: its reason, what was predicted, what came of it; then how well algorithms predict.

    pliant brain plans
    pliant brain plans digits --since 30d
    pliant brain plans --algorithm plan_job --json | jq '.algorithms[0].median_error'

Plans that masters made by themselves are there, too. ERROR is relative to what was achieved; COVERAGE is the share of plans whose
achieved speed was inside the predicted interval. A plan that is offered was not taken up by the job's master yet.

Exit code: 0; 1 if the database does not answer; 2 if the job is not found.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pliant.cli.commands.brain.options import DatabaseUrl, Dir, since
from pliant.cli.options.common import AsJson
from pliant.cli.render.terminal import say


def plans(
    job: Annotated[str, typer.Argument(metavar="[JOB]", help="NAME or NAMESPACE/NAME. [default: all jobs]")] = "",
    made_since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only plans made since then: 12h, 30d.")
    ] = "7d",
    algorithm: Annotated[str, typer.Option("--algorithm", metavar="NAME", help="Only plans of this one.")] = "",
    database: DatabaseUrl = None,
    directory: Dir = None,
    as_json: AsJson = False,
) -> None:
    begin = since(made_since, time.time())
    from pliant.brain.inspection import list_plans, plan_json, statistics
    from pliant.cli.launch.brain_database import open_database
    from pliant.core.decoding import plain

    with open_database(database, directory) as opened:
        found = list_plans(opened, since=begin, job=job, algorithm=algorithm)
    summed = statistics(found)
    if as_json:
        print(json.dumps({"plans": [plan_json(each) for each in found], "algorithms": plain(summed)}, indent=1))
    elif found:
        from pliant.cli.render.brain.plans import plans_view
        from pliant.cli.render.tables import table_console

        table_console().print(plans_view(found, summed))
    else:
        say(f"no plan was made within {made_since}; look further back with --since")
