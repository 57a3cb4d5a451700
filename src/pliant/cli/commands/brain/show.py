"""Show all that the Brain knows of one job: its description, progress, nodes and grant, and why it was planned as it is.

    pliant brain show digits
    pliant brain show team-a/digits
    pliant brain show team-a/digits --json | jq '.plans[] | {outcome, reason}'

Of the periods measured, the optimize events, the plans and the runs of algorithms that failed, the last ones are shown, newest
first.

Exit code: 0; 1 if the database does not answer; 2 if the job is not found, or the name is in several namespaces.
"""

from __future__ import annotations

import json
import time

from pliant.cli.commands.brain.options import DatabaseUrl, Dir, JobName
from pliant.cli.options.common import AsJson


def show(job: JobName, database: DatabaseUrl = None, directory: Dir = None, as_json: AsJson = False) -> None:
    from pliant.brain.inspection import job_details
    from pliant.cli.launch.brain_database import open_database

    with open_database(database, directory) as opened:
        found = job_details(opened, job)
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    from pliant.cli.render.brain.job_details import details_view
    from pliant.cli.render.tables import table_console

    table_console().print(details_view(found, time.time()))
