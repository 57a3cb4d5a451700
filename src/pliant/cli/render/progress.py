"""The live view of a running job: a bar per dataset and a line per node."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus

NODE_STYLES = {
    NodeState.RUNNING: "green",
    NodeState.PENDING: "yellow",
    NodeState.CREATING: "yellow",
    NodeState.FAILED: "red",
    NodeState.SUCCEEDED: "blue",
}
_MAX_NODES = 12


def progress_view(status: JobStatus | None) -> RenderableType:
    if status is None:
        return Text("waiting for the master …", style="yellow")
    parts: list[RenderableType] = [_headline(status)]
    if (waiting := waiting_line(status)) is not None:
        parts.append(waiting)
    if status.datasets:
        parts.append(progress_of(status))
    parts.append(_nodes(status))
    return Group(*parts)


def _headline(status: JobStatus) -> Text:
    text = Text().append(f"{status.name}  ", style="bold")
    text.append(status.phase, style="green" if status.phase is Phase.RUNNING else "bold red")
    text.append(f"  {clock(max(0.0, status.time - status.started_at))}", style="default")
    if status.records_per_second:
        text.append(f"  {status.records_per_second:,.0f} records/s", style="default")
    if status.global_step:
        text.append(f"  step {status.global_step:,}", style="default")
    if status.master_starts > 1:
        text.append(f"  master started {status.master_starts} times", style="yellow")
    return text


def waiting_line(status: JobStatus) -> Text | None:
    """What the job waits for, if it does."""
    waiting = status.waiting
    return Text(f"waiting: {waiting.message}", style="yellow") if waiting is not None else None


def progress_of(status: JobStatus) -> Table:
    table = Table.grid(padding=(0, 1))
    for dataset in status.datasets:
        total = dataset.records_total or 1
        share = dataset.records_done / total
        left = dataset.records_total - dataset.records_done
        rate = status.records_per_second
        running = status.phase is Phase.RUNNING
        eta = f"{clock(left / rate)} left" if rate and left and running else ""
        table.add_row(
            dataset.name,
            ProgressBar(total=total, completed=dataset.records_done, width=40),
            f"{100 * share:5.1f} %",
            f"{dataset.records_done:,} of {dataset.records_total:,}",
            f"epoch {min(dataset.epochs_done + 1, dataset.epochs)}/{dataset.epochs}",
            eta,
        )
    return table


def _nodes(status: JobStatus) -> Table:
    table = Table.grid(padding=(0, 2))
    live = status.live_nodes
    for node in live[:_MAX_NODES]:
        table.add_row(
            node.name,
            Text(node.state, style=NODE_STYLES.get(node.state, "default")),
            f"{node.cpu:.1f} CPU" if node.cpu else "",
            f"{node.memory_mb:,.0f} MB" if node.memory_mb else "",
            f"{node.records_per_second:,.0f} rec/s" if node.records_per_second else "",
            f"{node.restarts} restarts" if node.restarts else "",
            f"replaces {node.replaces}" if node.replaces else "",
        )
    if len(live) > _MAX_NODES:
        table.add_row(f"… and {len(live) - _MAX_NODES} more")
    return table


def clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
