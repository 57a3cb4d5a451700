"""Options of checkpoints, which set the ``checkpoint`` section of the job's spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pliant.core.errors import InvalidRequest
from pliant.launch.intervals import interval

Every = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-every",
        metavar="10m | 100steps",
        help="Interval of checkpoints: a time (90s, 10m, 1h30m) or a number of steps.",
    ),
]
OnFailure = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-on-failure",
        metavar="warn | fail",
        help="If checkpoints cannot be written: warn, or fail the job. [default: warn]",
    ),
]


@dataclass(frozen=True)
class CheckpointOptions:
    """Of ``pliant run``; a program with a ``Trainer`` takes them as its defaults."""

    checkpoint_dir: Annotated[
        str | None,
        typer.Option(metavar="DIR | URL", help="Checkpoint directory of a Trainer. [default: the job's directory]"),
    ] = None
    checkpoint_every: Every = None
    checkpoint_on_failure: OnFailure = None

    def changes(self) -> dict[str, Any]:
        """Of the section ``checkpoint``; the directory as it was given."""
        section: dict[str, Any] = interval(self.checkpoint_every) if self.checkpoint_every is not None else {}
        if self.checkpoint_dir is not None:
            section["dir"] = self.checkpoint_dir
        if self.checkpoint_on_failure is not None:
            section["on_failure"] = failure_mode(self.checkpoint_on_failure)
        return {"checkpoint": section} if section else {}


def failure_mode(text: str) -> str:
    if text not in ("warn", "fail"):
        raise InvalidRequest(f"--checkpoint-on-failure is {text!r}; allowed: warn, fail")
    return text
