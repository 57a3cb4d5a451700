"""Pages of output, and what a search found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pliant.handles.log_pages import LogLine, LogMatches, LogPage

MAX_NODES = 5000  # that are listed


def log_document(page: LogPage, nodes: Sequence[str]) -> dict[str, Any]:
    return {
        "node": page.node,
        "nodes": list(nodes[:MAX_NODES]),
        "lines": lines_json(page.lines),
        "before": page.before,
        "after": page.after,
        "at_start": page.at_start,
        "at_end": page.at_end,
        "note": page.note,
    }


def lines_json(lines: Sequence[LogLine]) -> list[dict[str, Any]]:
    return [_line(line) for line in lines]


def matches_document(found: LogMatches) -> dict[str, Any]:
    return {
        "matches": [{"node": match.node, **_line(match.line)} for match in found.matches],
        "complete": found.is_complete,
        "scanned_bytes": found.scanned_bytes,
    }


def _line(line: LogLine) -> dict[str, Any]:
    return {"at": line.at, "text": line.text, **({"cut": True} if line.is_cut else {})}
