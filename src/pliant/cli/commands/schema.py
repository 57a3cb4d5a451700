"""Print the JSON schema of a job's YAML file, for editors with validation and completion.

    pliant schema > pliant-job.schema.json
    pliant schema --structural

Exit code: 0.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    structural: Annotated[
        bool, typer.Option("--structural", help="Print an OpenAPI v3 structural schema for Kubernetes.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Accepted for consistency; the output is always JSON.")
    ] = False,
) -> None:
    from pliant.spec import json_schema, structural_schema

    print(json.dumps(structural_schema() if structural else json_schema(), indent=2))
