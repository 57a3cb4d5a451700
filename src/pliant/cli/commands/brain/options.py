"""Options of several commands of the Brain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="PLIANT_BRAIN_DATABASE",
        help="sqlite:///FILE, postgresql://USER@HOST/NAME or mysql://USER@HOST/NAME. [default: brain.db in the folder]",
    ),
]
Dir = Annotated[
    Path | None,
    typer.Option("--dir", metavar="FOLDER", help="Folder of token, certificates and file. [default: ~/.pliant/brain]"),
]
