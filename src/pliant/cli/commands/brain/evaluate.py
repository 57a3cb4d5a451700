"""Judge an algorithm by the jobs that were recorded, before it may plan for one.

    pliant brain evaluate --algorithm plan_job
    pliant brain evaluate --algorithm my_team.planning:OffPeak --since 30d --jobs 'vision/*'
    pliant brain evaluate --algorithm my_team.planning:OffPeak --in-process --json

Each job is replayed: at the end of every period that was measured the algorithm is asked. What it predicts is compared with what
was measured wherever the job came to have the proposed configuration later. REGRET is what its choices cost against the best
configuration that the job ever had: 10 % is a tenth of the speed.

NAME is a built-in algorithm, one that is installed, or package.module:Class, found from this folder, too. It runs in a process of
its own with the limits of the Brain, and how it fails is shown with the traceback; --in-process runs it here, for a debugger.

Exit code: 0; 1 if the algorithm failed or the database does not answer; 2 if there is no such algorithm, or no job to replay.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pliant.cli.commands.brain.options import DatabaseUrl, Dir, since
from pliant.cli.options.common import AsJson
from pliant.core.errors import NotFound


def evaluate(
    algorithm: Annotated[
        str, typer.Option("--algorithm", metavar="NAME", help="Its name, or package.module:Class.", show_default=False)
    ],
    recorded_since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only jobs that were heard of since then: 12h, 30d.")
    ] = "30d",
    pattern: Annotated[
        str, typer.Option("--jobs", metavar="PATTERN", help="Only these jobs: digits-*, team-a/*. [default: all]")
    ] = "",
    in_process: Annotated[bool, typer.Option("--in-process", help="Run it in this process, without limits.")] = False,
    algorithm_timeout: Annotated[
        float, typer.Option("--algorithm-timeout", min=0.1, max=3600, help="Seconds that it may take each time.")
    ] = 10.0,
    database: DatabaseUrl = None,
    directory: Dir = None,
    as_json: AsJson = False,
) -> None:
    begin = since(recorded_since, time.time())
    from pliant.brain.inspection import replayable_jobs
    from pliant.cli.launch.brain_database import open_database
    from pliant.cli.launch.evaluating import check_name, evaluate_jobs

    check_name(algorithm)
    with open_database(database, directory) as opened:
        jobs, skipped = replayable_jobs(opened, begin, pattern)
    if not jobs:
        raise NotFound(
            f"no job to replay: {skipped} were recorded, and none of them has a period that was measured"
            if skipped
            else "no job to replay was recorded",
            hint="look further back with --since, or name other ones with --jobs; `pliant brain jobs --all` lists them",
        )
    found = evaluate_jobs(algorithm, jobs, skipped, is_isolated=not in_process, time_limit_s=algorithm_timeout)
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        from pliant.cli.render.brain.evaluation import evaluation_view
        from pliant.cli.render.tables import table_console

        table_console().print(evaluation_view(found))
    if found.has_failed:
        raise typer.Exit(1)
