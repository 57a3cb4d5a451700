"""``pliant resume`` and ``--resume``: a job that was stopped or interrupted, or that failed, goes on from what its journal has.

What it runs is in its folder. A command or options may be repeated with ``--resume``, and then must be the same: a journal is
read with the description that it was begun with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.cli.launch.local import start
from pliant.cli.launch.outcome import say_output
from pliant.cli.options.run import RunOptions, StartOptions
from pliant.cli.render.terminal import warn
from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.summary import JobSummary
from pliant.files.atomic import read_json
from pliant.handles.job_dirs import argument_of
from pliant.launch.job_folder import check_exists, folder_of, prepare_resume
from pliant.launch.job_spec import check_launchable, make_spec
from pliant.master.job_dir import JobDir
from pliant.spec import JobSpec, load_spec

MAX_DIFFERENCES = 5  # named in the error


def resume_command(command: list[str], options: RunOptions, changes: dict[str, Any], *, output: bool) -> JobSummary:
    """``pliant run --resume``, with or without the command."""
    if options.name is None and options.job_dir is None:
        raise InvalidRequest("--resume does not say which job", hint="give its --name or --job-dir")
    home = folder_of(options.name or "", options)
    check_exists(home)
    stored = load_spec(home.spec)
    wanted = make_spec(command, options.name or stored.name, changes, stored=stored)
    check_same(home, stored, wanted)
    return resume(home, options, output=output)


def resume(home: JobDir, options: StartOptions, *, output: bool = True) -> JobSummary:
    """Start it again, and follow it to its end (or leave it in the background); returns its summary."""
    if home.exists():
        check_launchable(load_spec(home.spec))
    result = start(prepare_resume(home, warn), options, output=output)
    native = read_json(home.path / "native.json")  # of `train` and its siblings
    if native is not None:
        say_output(native["task"], native["output"], result, options)
    return result


def check_same(home: JobDir, stored: JobSpec, wanted: JobSpec) -> None:
    """Where a command is given does not matter: the programs start where they started before."""
    before, now = stored.to_json(), wanted.replaced(working_dir=stored.working_dir).to_json()
    found = list(differences(before, now))
    if found:
        more = f"; and {len(found) - MAX_DIFFERENCES} more" if len(found) > MAX_DIFFERENCES else ""
        raise Conflict(
            f"job {argument_of(home)} was started otherwise: {'; '.join(found[:MAX_DIFFERENCES])}{more}",
            hint=f"`pliant resume {argument_of(home)}` continues it as it was started; `pliant scale` changes a running job",
        )


def differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Each as ``field was X, now Y``."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted({*before, *now}):
            yield from differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif before != now:
        yield f"{path} was {before!r}, now {now!r}"
