"""A job as HTML, for the cells of a notebook. Whatever a job, a node or a program says is text: everything is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from pliant.core.job import Phase
from pliant.core.printable import escaped_line
from pliant.core.status import JobStatus, NodeStatus

MAX_NODES = 12
MAX_TEXT = 500  # characters of one message
_COLOURS = {Phase.SUCCEEDED: "#1a7f37", Phase.FAILED: "#cf222e", Phase.RUNNING: "#0969da"}
_TABLE = "border-collapse:collapse;font-size:90%"


def job_html(status: JobStatus, note: str = "") -> str:
    parts = [_headline(status), _progress(status)]
    said = [*(f"warning: {text}" for text in status.warnings), note]
    if status.waiting is not None:
        said.append(f"waiting: {status.waiting.message}")
    if status.phase.is_final:
        said.append(status.reason)
    if status.first_failure is not None and status.phase is Phase.FAILED:
        failure = status.first_failure
        said += [f"first failure: {failure.node}, {failure.kind}: {failure.message}", failure.hint]
    parts += [f"<div>{text(line)}</div>" for line in said if line]
    live = status.live_nodes
    if live:
        parts.append(_table(("node", "state", "records/s", "restarts", "replaces"), map(_node, live[:MAX_NODES])))
    if len(live) > MAX_NODES:
        parts.append(f"<div>… and {len(live) - MAX_NODES} more nodes</div>")
    return f"<div>{''.join(parts)}</div>"


def jobs_html(statuses: Iterable[JobStatus]) -> str:
    return _table(("job", "phase", "progress", "workers", "seconds", "reason"), map(_job, statuses))


def text(value: object) -> str:
    """As text of one line, whatever it is."""
    shown = escaped_line(str(value))
    return html.escape(shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 1]}…", quote=True)


def _headline(status: JobStatus) -> str:
    colour = _COLOURS.get(status.phase, "#9a6700")
    figures = [f"{status.seconds:.0f} s"]
    progress = status.progress
    if progress.step:
        figures.append(f"step {progress.step:,}" + (f" of {progress.total_steps:,}" if progress.total_steps else ""))
    if progress.loss is not None:
        figures.append(f"loss {progress.loss:.4g}")
    if status.records_per_second and not status.phase.is_final:
        figures.append(f"{status.records_per_second:,.0f} records/s")
    if status.eta is not None and not status.phase.is_final:
        figures.append(f"{status.eta:.0f} s left")
    return (
        f'<div><b>{text(status.name)}</b> <span style="color:{colour}">{text(status.phase.value)}</span>'
        f" {text(', '.join(figures))}</div>"
    )


def _progress(status: JobStatus) -> str:
    percent = status.progress.percent
    if percent is None:
        return ""
    return f'<div><progress max="100" value="{percent:.1f}"></progress> {percent:.1f} %</div>'


def _node(node: NodeStatus) -> Sequence[str]:
    rate = f"{node.records_per_second:,.0f}" if node.records_per_second else ""
    return node.name, node.state.value, rate, str(node.restarts or ""), node.replaces


def _job(status: JobStatus) -> Sequence[str]:
    percent, role = status.progress.percent, status.role("worker")
    workers = f"{role.present} of {role.wanted}" if role is not None else ""
    shown = f"{percent:.0f} %" if percent is not None else ""
    return status.name, status.phase.value, shown, workers, f"{status.seconds:.0f}", status.reason


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f"<th>{text(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table style="{_TABLE}"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'
