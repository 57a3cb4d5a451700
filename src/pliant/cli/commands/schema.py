"""Print the JSON schema of a job's YAML file, for editors that check and complete while you type.

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
        bool, typer.Option("--structural", help="As an OpenAPI v3 structural schema, which Kubernetes takes.")
    ] = False,
) -> None:
    from pliant.spec import json_schema, structural_schema

    print(json.dumps(structural_schema() if structural else json_schema(), indent=2))
