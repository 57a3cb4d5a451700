"""Show every plan of a job that plans its own resources: its reason, what was predicted, and what came of it.

    pliant plans
    pliant plans digits
    pliant plans digits --json | jq '.plans[] | {id, outcome, achieved_rate}'
    pliant plans digits -N team-a

A plan is kept, rolled back (it was worse than before), refused, expired, superseded (by a person, or by something urgent),
advised (only shown), or under way. Works on a running job and on one that has ended.

Exit code: 0; 2 if the job is not found.
"""

from __future__ import annotations

import json
import time

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.handles.find import find_job_handle


def plans(
    name: Name = None,
    job_dir: Folder = None,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    found = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir)).plans()
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    from pliant.cli.render.plans import plans_view
    from pliant.cli.render.tables import table_console

    table_console().print(plans_view(found, time.time()))
