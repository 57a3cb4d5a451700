"""Show what happened to a job: nodes that came and went and why, datasets, scaling, restarts of the master.

    pliant events
    pliant events digits -f
    pliant events digits --json --after 120

Events are numbered from 1 and never change; with --json each is one line.

Exit code: 0; 2 if there is no such job.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.cli.homes import find_job
from pliant.cli.options import AsJson, Folder, Name

if TYPE_CHECKING:
    from pliant.master.job_dir import JobDir
    from pliant.master.journal_store import EventRecord

LOOK_EVERY = 0.3  # seconds
PAGE = 1000  # events


def events(
    name: Name = None,
    job_dir: Folder = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new events until the job ends.")] = False,
    as_json: AsJson = False,
    after: Annotated[int, typer.Option("--after", min=0, metavar="N", help="Only events with a higher number.")] = 0,
) -> None:
    home = find_job(name, job_dir)
    while True:
        over = home.summary_file.exists()  # asked first: what came before the end is shown below
        after = _show_new(home, after, as_json)
        if over or not follow:
            return
        time.sleep(LOOK_EVERY)


def _show_new(home: JobDir, after: int, as_json: bool) -> int:
    """Gives the number of the last one. The journal lets readers in while the master writes."""
    from pliant.master.journal_store import read_events

    while home.journal.exists() and (found := read_events(home.journal, after=after, limit=PAGE)):
        for event in found:
            print(json.dumps(asdict(event)) if as_json else _line(event), flush=True)
        after = found[-1].number
    return after


def _line(event: EventRecord) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(event.time))
    milliseconds = int(event.time * 1000) % 1000
    return f"{event.number:>5}  {at}.{milliseconds:03}  {event.kind:<10}  {event.node:<12}  {event.message}".rstrip()
