"""How a command that followed a job to its end reports the outcome: the summary's file, JSON, and the exit code."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

from pliant.cli.options.run import FollowOptions
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest, PliantError
from pliant.core.job import Phase
from pliant.core.summary import JobSummary
from pliant.files.atomic import write_output, write_problem


def leave(result: JobSummary, options: FollowOptions) -> NoReturn:
    if options.summary is not None:
        try:
            options.summary.parent.mkdir(parents=True, exist_ok=True)
            write_output(options.summary, json.dumps(result.to_json(), indent=1) + "\n")
        except OSError as error:
            how = f"job {result.name} has ended ({result.phase})"
            raise PliantError(f"{how}, but --summary {options.summary} cannot be written: {error.strerror}") from None
    if options.as_json:
        print(json.dumps(result.to_json(), indent=1))
    sys.exit(result.exit_code)


def say_output(task: str, output: str, result: JobSummary, options: FollowOptions) -> None:
    """Where the result of native training is."""
    if result.phase is Phase.SUCCEEDED and output and not options.quiet:
        what = "predictions are" if task == "predict" else "the model is"
        say(f"pliant | {what} in {output}", to_stderr=options.as_json)


def check_summary(options: FollowOptions) -> None:
    """Before a launch: otherwise the error would show only after the job."""
    path = options.summary
    if path is None:
        return
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir():
        raise InvalidRequest(f"--summary {path} is a directory", hint="pass the path of a file")
    if path.exists() and not path.is_file():
        return  # a device or a pipe: nothing is created beside it
    if problem := write_problem(there):
        raise InvalidRequest(f"--summary {path} cannot be written: {there}: {problem}", hint="choose another path")
