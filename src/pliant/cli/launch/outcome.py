"""How a command that followed a job to its end reports the outcome: the summary's file, JSON, and the exit code."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

from pliant.cli.options.run import RunOptions
from pliant.core.errors import InvalidRequest, PliantError
from pliant.core.summary import JobSummary
from pliant.files.atomic import write_json, write_problem


def leave(result: JobSummary, options: RunOptions) -> NoReturn:
    if options.summary is not None:
        try:
            options.summary.parent.mkdir(parents=True, exist_ok=True)
            write_json(options.summary, result.to_json())
        except OSError as error:
            how = f"job {result.name} is over ({result.phase})"
            raise PliantError(f"{how}, but --summary {options.summary} cannot be written: {error.strerror}") from None
    if options.as_json:
        print(json.dumps(result.to_json(), indent=1))
    sys.exit(result.exit_code)


def check_summary(options: RunOptions) -> None:
    """Before a launch: otherwise the error would show only after the job."""
    path = options.summary
    if path is None:
        return
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir():
        raise InvalidRequest(f"--summary {path} is a directory", hint="give the path of a file")
    if problem := write_problem(there):
        raise InvalidRequest(f"--summary {path} cannot be written: {there}: {problem}", hint="give another path")
