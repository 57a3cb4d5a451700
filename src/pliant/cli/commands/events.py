"""Show the events of a job: node starts and exits with their reasons, datasets, scaling, master restarts.

    pliant events
    pliant events digits -f
    pliant events digits --json --after 120
    pliant events digits -N team-a

Events are numbered from 1 and never change; with --json each is one line.

Exit code: 0; 2 if the job is not found.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.cli.render.terminal import say
from pliant.core.printable import escaped_line
from pliant.handles.find import find_job_handle
from pliant.handles.job_handle import JobHandle

if TYPE_CHECKING:
    from pliant.core.events import EventRecord

POLL_INTERVAL_S = 0.3
PAGE = 1000  # events


def events(
    name: Name = None,
    job_dir: Folder = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new events until the job ends.")] = False,
    as_json: AsJson = False,
    after: Annotated[int, typer.Option("--after", min=0, metavar="N", help="Only events after this number.")] = 0,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    while True:
        over = handle.is_over()  # asked first: what came before the end is shown below
        after = _show_new(handle, after, as_json)
        if over or not follow:
            return
        time.sleep(POLL_INTERVAL_S)


def _show_new(handle: JobHandle, after: int, as_json: bool) -> int:
    """Returns the number of the last one."""
    while found := handle.events(after, PAGE):
        for event in found:
            say(json.dumps(event.to_json()) if as_json else escaped_line(_line(event)))
        after = found[-1].number
    return after


def _line(event: EventRecord) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(event.time))
    milliseconds = int(event.time * 1000) % 1000
    return (
        f"{event.number:>5}  {at}.{milliseconds:03}  {event.kind.value:<15}  {event.node:<12}  {event.message}".rstrip()
    )
