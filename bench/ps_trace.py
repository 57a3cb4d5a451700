"""One step across worker, servers and master, as a timeline for a browser: ``ps.py --only steps --trace FILE``.

The processes write their spans themselves (``tracing/sitecustomize.py``); here they are merged, cut to a few whole steps in the
middle of the run, and summed up. Open FILE in chrome://tracing or https://ui.perfetto.dev.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from harness import median, say, table

STEPS = 50  # of one worker, that the file shows
TRACING = Path(__file__).resolve().parent / "tracing"


def traced_environment(folder: Path) -> dict[str, str]:
    """Environment of a job whose processes write spans into this folder."""
    paths = [str(TRACING), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"BENCH_TRACE": str(folder), "PYTHONPATH": os.pathsep.join(paths)}


def write_trace(folder: Path, out: Path, step: str = "PsClient.pull") -> None:
    """Merge, cut, sum up. A step begins with a pull."""
    events: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.json")):
        events += json.loads(path.read_text())
    begins = sorted(event["ts"] for event in events if event["name"] == step)
    if len(begins) < 3:
        raise RuntimeError(f"{folder} has {len(begins)} steps; too few for a timeline")
    middle = max(0, len(begins) // 2 - STEPS // 2)
    first, last = begins[middle], begins[min(len(begins) - 1, middle + STEPS)]
    kept = [event for event in events if event["ph"] == "M" or first <= event["ts"] < last]
    for event in kept:
        if event["ph"] != "M":
            event["ts"] -= first
    out.write_text(json.dumps({"traceEvents": kept, "displayTimeUnit": "ms"}))
    _sum_up(kept)
    say(
        f"{len(kept):,} spans of {min(STEPS, len(begins))} steps in {out}: open it in chrome://tracing or ui.perfetto.dev"
    )


def _sum_up(events: list[dict[str, Any]]) -> None:
    roles = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans: dict[tuple[str, str], list[float]] = defaultdict(list)
    begun: dict[tuple[int, str, int], float] = {}
    for event in events:
        role = roles.get(event["pid"], "?").rpartition("-")[0] or "master"
        if event["ph"] == "X":
            spans[role, event["name"]].append(event["dur"])
        elif event["ph"] == "b":
            begun[event["pid"], event["name"], event["id"]] = event["ts"]
        elif event["ph"] == "e" and (at := begun.pop((event["pid"], event["name"], event["id"]), None)) is not None:
            spans[role, event["name"]].append(event["ts"] - at)
    rows = [
        (role, name, f"{len(found)}", f"{median(found) / 1000:.2f}", f"{max(found) / 1000:.2f}")
        for (role, name), found in sorted(spans.items())
    ]
    table(
        "Where the time of these steps goes (spans lie within each other)",
        ("in", "span", "calls", "ms", "longest"),
        rows,
    )
