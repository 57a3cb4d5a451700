"""Explain the speed of a job: where the time goes, what limits it, the fitted curve, and what would be planned next.

    pliant explain
    pliant explain digits
    pliant explain digits --json
    pliant explain digits -N team-a

Where the time goes is measured of every job. The curve and the next plan are those of a job that plans its own resources
(`pliant run --auto`); why the next plan is not made yet is said with it. Of a job that has ended, the last plans are shown.

Exit code: 0; 1 if the master does not respond; 2 if the job is not found.
"""

from __future__ import annotations

import json
import time

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.handles.find import find_job_handle


def explain(
    name: Name = None,
    job_dir: Folder = None,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    found = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir)).explain()
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    from pliant.cli.render.explanation import explanation_view
    from pliant.cli.render.tables import table_console

    table_console().print(explanation_view(found, time.time()))
