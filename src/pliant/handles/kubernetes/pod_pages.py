"""Pages of what a Pod wrote, and a search in it, as ``handles.log_pages`` has them for files.

The API server returns the last lines of a log, or those since a second, so a page begins at the end, and cursors are the time
stamps of lines. What a Pod wrote before its last restart is not in them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from pliant.core.errors import InvalidRequest, NotFound
from pliant.handles.kubernetes.pod_output import STAMP, LogCursor, label_of, starts_of
from pliant.handles.kubernetes.session import Session
from pliant.handles.log_pages import MAX_LINES, MAX_MATCHES, LogLine, LogMatch, LogMatches, LogPage, shown_line
from pliant.platforms.kubernetes.kinds import PODS, Object
from pliant.platforms.kubernetes.names import CONTAINER, job_selector

MAX_SEARCHED_LINES = 20_000  # of a Pod: its last ones
BEGINNING = "0"  # the cursor of a node that had written nothing
NO_WAY_BACK = "older lines: kubectl logs"


async def read_pod_page(session: Session, job: str, node: str, *, after: str, lines: int) -> LogPage:
    lines = min(max(1, lines), MAX_LINES)
    after = "" if after == BEGINNING else after
    if after and not STAMP.fullmatch(after):
        raise InvalidRequest("not a place in this output", hint="pass a cursor of an earlier page")
    pod = (await _pods(session, job)).get(node)
    if pod is None:
        raise NotFound(f"job {job} has no Pod for {node[:100]!r} any more")
    found: list[LogLine] = []
    cursor = LogCursor(after)
    async for line in _lines(session, pod, tail=None if after else lines, since=after):
        text = cursor.take(line)
        if text is not None:
            found.append(shown_line(cursor.since, text))
        if len(found) == lines:
            break
    whole = not after and len(found) < lines
    before = found[0].at if found else after
    note = "" if whole or after else NO_WAY_BACK
    return LogPage(node, tuple(found), before, cursor.since, True, len(found) < lines or not after, note)


async def search_pods(session: Session, job: str, text: str, *, node: str) -> LogMatches:
    wanted = text.casefold()
    if not wanted:
        raise InvalidRequest("nothing to search for", hint="pass at least one character")
    matches: list[LogMatch] = []
    scanned, complete = 0, True
    for name, pod in (await _pods(session, job)).items():
        if (node and name != node) or (not node and name == "master"):
            continue
        cursor, count = LogCursor(), 0
        async for line in _lines(session, pod, tail=MAX_SEARCHED_LINES, since=""):
            scanned, count = scanned + len(line), count + 1
            shown = cursor.take(line)
            if shown is not None and wanted in shown.casefold():
                matches.append(LogMatch(name, shown_line(cursor.since, shown)))
        complete = complete and count < MAX_SEARCHED_LINES
    return LogMatches(tuple(matches[-MAX_MATCHES:]), complete and len(matches) <= MAX_MATCHES, scanned)


async def _lines(session: Session, pod: Object, *, tail: int | None, since: str) -> AsyncIterator[str]:
    if starts_of(pod) is None:
        return
    name = pod["metadata"]["name"]
    try:
        async for line in session.api.logs(
            name, session.namespace, container=CONTAINER, tail=tail, since=since, timestamps=True
        ):
            yield line
    except (NotFound, InvalidRequest):
        return  # it is gone, or its container does not run yet


async def _pods(session: Session, job: str) -> dict[str, Object]:
    """By node; of several the newest."""
    listing = await session.api.list(PODS, session.namespace, labels=job_selector(job))
    found = sorted(listing.items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    return {label_of(pod): pod for pod in found}
