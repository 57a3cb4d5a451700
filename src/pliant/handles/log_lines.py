"""The output of a job's programs as lines, one after the other: what there is, or all that comes until the job ends."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from pliant.core.errors import NotFound
from pliant.handles.job_handle import JobHandle

POLL_INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True)
class LogLine:
    node: str
    text: str


def log_lines(
    handle: JobHandle,
    *,
    nodes: Collection[str] = (),
    tail: int | None = None,
    follow: bool = False,
    with_servers: bool = False,
) -> Iterator[LogLine]:
    """``nodes``: these alone. Without ``follow`` it is an error if one of them has no output."""
    if not follow:
        _check(handle, nodes)
    found: list[LogLine] = []
    output = handle.output(
        lambda node, text: found.append(LogLine(node, text)),
        nodes=frozenset(nodes) or None,
        tail=tail,
        follow=follow,
        with_servers=with_servers,
    )
    while True:
        over = not follow or handle.is_over()  # asked first: what came before the end is returned below
        while output.show_new():
            yield from found
            found.clear()
        if over:
            break
        time.sleep(POLL_INTERVAL_S)
    output.finish()
    yield from found


def _check(handle: JobHandle, wanted: Collection[str]) -> None:
    there = handle.nodes_with_output() if wanted else []
    for name in wanted:
        if name not in there:
            nodes = [n for n in there if n != "master"]
            close = get_close_matches(name, nodes, 1)
            known = f"known: {', '.join(nodes)}" if nodes else "no output yet"
            raise NotFound(
                f"job {handle.name} has no log for {name!r}", hint=f"did you mean {close[0]}?" if close else known
            )
