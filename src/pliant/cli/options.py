"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The job's name, or its folder. [default: newest]")]
Folder = Annotated[Path | None, typer.Option("--job-dir", help="The job's folder, if it is not below ~/.pliant/jobs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
