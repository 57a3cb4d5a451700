"""The live view of a running job: a bar for its steps or per dataset, and a line per node."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.progress import LOSS
from pliant.core.shards.datasets import ShardType
from pliant.core.status import JobStatus, Progress

NODE_STYLES = {
    NodeState.RUNNING: "green",
    NodeState.PENDING: "yellow",
    NodeState.CREATING: "yellow",
    NodeState.FAILED: "red",
    NodeState.SUCCEEDED: "blue",
}
_BAR_WIDTH = 30  # characters: with its figures, a row fits 100 columns
_MAX_NODES = 12
_MAX_METRICS = 8  # of the program's own, beside the loss


def progress_view(status: JobStatus | None) -> RenderableType:
    if status is None:
        return Text("waiting for the master …", style="yellow")
    parts: list[RenderableType] = [_headline(status)]
    if (waiting := waiting_line(status)) is not None:
        parts.append(waiting)
    if has_bars(status):
        parts.append(progress_of(status))
    parts.append(_nodes(status))
    return Group(*parts)


def _headline(status: JobStatus) -> Text:
    text = Text().append(f"{status.name}  ", style="bold")
    text.append(status.phase, style="green" if status.phase is Phase.RUNNING else "bold red")
    text.append(f"  {clock(max(0.0, status.time - status.started_at))}", style="default")
    text.append("".join(f"  {figure}" for figure in figures(status)), style="default")
    if status.master_starts > 1:
        text.append(f"  master started {status.master_starts} times", style="yellow")
    return text


def figures(status: JobStatus) -> list[str]:
    """How fast the job is and where its training stands, in a few words each."""
    found = []
    if status.records_per_second and not status.phase.is_final:
        found.append(f"{status.records_per_second:,.0f} records/s")
    if status.progress.step:
        found.append(step_text(status.progress))
    if status.progress.loss is not None:
        found.append(f"loss {status.progress.loss:.4g}")
    return found


def step_text(progress: Progress) -> str:
    return f"step {progress.step:,}" + (f" of {progress.total_steps:,}" if progress.total_steps else "")


def metrics_line(status: JobStatus) -> str:
    """The program's own metrics beside the loss, if it reported any."""
    metrics = {name: value for name, value in status.progress.metrics.items() if name != LOSS and value is not None}
    shown = [f"{name} {value:.4g}" for name, value in list(metrics.items())[:_MAX_METRICS]]
    return ", ".join(shown) + (f" and {len(metrics) - _MAX_METRICS} more" if len(metrics) > _MAX_METRICS else "")


def waiting_line(status: JobStatus) -> Text | None:
    """What the job waits for, if it does."""
    waiting = status.waiting
    return Text(f"waiting: {waiting.message}", style="yellow") if waiting is not None else None


def has_bars(status: JobStatus) -> bool:
    return bool(status.used_datasets or status.progress.total_steps)


def progress_of(status: JobStatus) -> Table:
    """A bar for the steps of a training without a dataset of its own, and one per dataset."""
    table = Table.grid(padding=(0, 1))
    progress = status.progress
    if progress.total_steps and not any(dataset.type is ShardType.TRAIN for dataset in status.used_datasets):
        table.add_row(
            "steps",
            ProgressBar(total=progress.total_steps, completed=progress.step, width=_BAR_WIDTH),
            f"{progress.percent or 0.0:5.1f} %",
            f"{progress.step:,} of {progress.total_steps:,}",
            f"{progress.records_done:,} records" if progress.records_done else "",
            f"{clock(status.eta)} left" if status.eta is not None else "",
        )
    for dataset in status.used_datasets:
        total = dataset.records_total or 1
        share = dataset.records_done / total
        left = dataset.records_total - dataset.records_done
        rate = status.records_per_second
        running = status.phase is Phase.RUNNING
        eta = f"{clock(left / rate)} left" if rate and left and running else ""
        table.add_row(
            dataset.name,
            ProgressBar(total=total, completed=dataset.records_done, width=_BAR_WIDTH),
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
