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
JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="NAME or NAMESPACE/NAME; the newest job of that name.", show_default=False)
]


def since(written: str, now: float) -> float:
    """The time that lies so long ago."""
    from pydantic_core import PydanticCustomError  # with the spec's quantities, which bring pydantic

    from pliant.core.errors import InvalidRequest
    from pliant.spec.quantities import seconds_of

    try:
        return now - seconds_of(int(written) if written.isdecimal() else written)
    except PydanticCustomError as error:
        raise InvalidRequest(f"--since {written!r:.40}: {error.message()}", hint="for example --since 7d") from None
