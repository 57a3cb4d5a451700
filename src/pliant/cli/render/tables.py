"""A job as tables for people: its nodes, its datasets, what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pliant.cli.render.console import EscapingConsole, output_text
from pliant.cli.render.plans import last_plan_line
from pliant.cli.render.progress import (
    NODE_STYLES,
    clock,
    figures,
    has_bars,
    metrics_line,
    progress_of,
    waiting_line,
)
from pliant.core.job import Failure, Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.plurals import counted
from pliant.core.resources import Resources
from pliant.core.status import CheckpointStatus, DatasetStatus, JobStatus, NodeStatus, ParametersStatus, ParkedShard
from pliant.handles.job_handle import JobView

PHASE_STYLES = {
    Phase.RUNNING: "green",
    Phase.SUCCEEDED: "bold green",
    Phase.FAILED: "bold red",
    Phase.INTERRUPTED: "bold yellow",
}
MAX_PARTITIONS = 50  # of a stream, in the table for people
WIDE = 200  # columns, where the output goes to a file or another program


def table_console() -> Console:
    console = EscapingConsole()
    return console if console.is_terminal else EscapingConsole(width=WIDE)


def job_view(view: JobView) -> RenderableType:
    status = view.status
    parts: list[RenderableType] = [_headline(view)]
    if (waiting := waiting_line(status)) is not None and not view.is_over:
        parts.append(waiting)
    parts += [Text(f"warning: {message}", style="yellow") for message in status.warnings]
    if view.note:
        parts.append(Text(f"{view.note}; shown from {view.source}", style="yellow"))
    if metrics := metrics_line(status):
        parts.append(Text(metrics))
    parts += [_checkpoint(checkpoint) for checkpoint in status.checkpoints]
    parts += planning_lines(status, is_over=view.is_over)
    if has_bars(status):
        parts += [Text(), progress_of(status)]
        for dataset in status.used_datasets:
            if dataset.partitions:
                parts += [Text(), partition_table(dataset)]
            parts += [_parked(shard) for shard in dataset.parked]
    if status.nodes:
        parts += [Text(), *_roles(status), node_table(status.nodes)]
    if status.parameters is not None:
        parts += [Text(), _parameters(status.parameters), parameter_table(status.parameters)]
    if status.first_failure is not None:
        parts += [Text(), _failure(status.first_failure)]
    return Group(*parts)


def node_table(nodes: Sequence[NodeStatus]) -> Table:
    """With what each node hosts (SEATS) if there are virtual workers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    has_seats = any(node.virtual_workers for node in nodes)
    numbers = ("PID", "RESTARTS", "RECORDS", *(("SEATS",) if has_seats else ()), "CPU", "MEMORY")
    for name in ("NODE", "STATE", *numbers, "WHY"):
        table.add_column(name, justify="right" if name in numbers else "left")
    for node in nodes:
        failed = node.exit_reason not in (None, ExitReason.COMPLETED)
        why = f"{node.exit_reason}: {node.message}" if failed else node.message
        table.add_row(
            node.name,
            Text(node.state, style=NODE_STYLES.get(node.state, "default")),
            str(node.pid or ""),
            str(node.restarts),
            f"{node.records:,}",
            *((str(node.virtual_workers or ""),) if has_seats else ()),
            cpu(node),
            memory(node),
            Text(f"replaces {node.replaces}; {why}" if node.replaces else why),
        )
    return table


def partition_table(dataset: DatasetStatus) -> Table:
    """Of a stream: where each partition stands, in its own offsets."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(f"PARTITION OF {dataset.name}")
    for name in ("START", "NEXT", "END", "DONE"):
        table.add_column(name, justify="right")
    table.add_column("")
    for part in dataset.partitions[:MAX_PARTITIONS]:
        offsets = (f"{offset:,}" for offset in (part.start, part.position, part.end, part.records_done))
        table.add_row(part.name, *offsets, "closed" if part.closed else "")
    if len(dataset.partitions) > MAX_PARTITIONS:
        table.add_row(f"and {len(dataset.partitions) - MAX_PARTITIONS:,} more, see --json")
    return table


def busiest_first(status: JobStatus) -> list[NodeStatus]:
    """The live nodes."""
    return sorted(status.live_nodes, key=lambda node: (-node.cpu, node.name))


def usage_table(status: JobStatus) -> Table:
    """Of the live nodes, busiest first."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("NODE")
    table.add_column("STATE")
    for name in ("CPU", "MEMORY", "RECORDS/S", "RECORDS", "RESTARTS"):
        table.add_column(name, justify="right", no_wrap=name in ("CPU", "MEMORY"))
    for node in busiest_first(status):
        table.add_row(
            node.name,
            Text(node.state, style=NODE_STYLES.get(node.state, "default")),
            amount(node.cpu, node.cpu_limit, digits=2),
            amount(node.memory_mb, node.memory_limit_mb, unit=" MB"),
            f"{node.records_per_second:,.0f}",
            f"{node.records:,}",
            str(node.restarts),
        )
    return table


@dataclass(frozen=True, slots=True)
class RoleUsage:
    """What the live nodes of a role use, and what they were given; 0: one of them has no limit."""

    role: str
    nodes: int
    cpu: float
    cpu_limit: float
    memory_mb: float
    memory_limit_mb: float
    records_per_second: float


def role_usages(status: JobStatus) -> list[RoleUsage]:
    live = status.live_nodes
    found = []
    for role in dict.fromkeys(node.role for node in live):
        nodes = [node for node in live if node.role == role]
        cpus, memories = [node.cpu_limit for node in nodes], [node.memory_limit_mb for node in nodes]
        found.append(
            RoleUsage(
                role,
                len(nodes),
                sum(node.cpu for node in nodes),
                sum(cpus) if all(cpus) else 0.0,
                sum(node.memory_mb for node in nodes),
                sum(memories) if all(memories) else 0.0,
                sum(node.records_per_second for node in nodes),
            )
        )
    return found


def role_table(status: JobStatus) -> Table:
    """Sums over the live nodes of each role."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("ROLE")
    for name in ("NODES", "CPU", "MEMORY", "RECORDS/S"):
        table.add_column(name, justify="right", no_wrap=name in ("CPU", "MEMORY"))
    for used in role_usages(status):
        table.add_row(
            used.role,
            str(used.nodes),
            amount(used.cpu, used.cpu_limit, digits=2),
            amount(used.memory_mb, used.memory_limit_mb, unit=" MB"),
            f"{used.records_per_second:,.0f}",
        )
    return table


def planning_lines(status: JobStatus, *, is_over: bool = False) -> list[RenderableType]:
    """Of a job that plans its own resources: the planner's state and its last plan; of others, the last change."""
    lines: list[RenderableType] = []
    planner, plan = status.planner, status.last_plan
    if planner is not None and not is_over:
        state = replace(planner, brain="").sentence(status.time)  # who plans is said before
        lines.append(Text(f"resources: {planner.planned_by} ({status.optimize}); {state}"))
        if planner.grant is not None:
            lines.append(Text(planner.grant.sentence()))
    elif planner is not None:
        planned_by = "the Brain" if planner.brain else "the job"
        lines.append(Text(f"resources: planned by {planned_by} ({status.optimize})"))
    if plan is not None and (plan.algorithm or not is_over):
        lines.append(Text(last_plan_line(plan)))
    return lines


def usage_view(status: JobStatus) -> RenderableType:
    """How far the job is, what its nodes use, and its parameter servers where there are some."""
    parts: list[RenderableType] = [_training_line(status)]
    if metrics := metrics_line(status):
        parts.append(Text(metrics))
    if status.planner is not None:
        planned = f"planner: {status.planner.sentence(status.time)}"
        last = (
            f"; {last_plan_line(status.last_plan)}" if status.last_plan is not None and not status.planner.plan else ""
        )
        parts.append(Text(planned + last))
    parts += [Text(), usage_table(status), Text(), role_table(status)]
    if status.parameters is not None:
        parts += [Text(), _parameters(status.parameters), parameter_table(status.parameters)]
    return Group(*parts)


def _training_line(status: JobStatus) -> Text:
    text = Text().append(status.name, style="bold")
    shown = figures(status)
    if (percent := status.progress.percent) is not None:
        shown.insert(0, f"{percent:.1f} %")
    if status.steps_per_second:
        shown.append(f"{status.steps_per_second:,.1f} steps/s")
    if status.eta is not None:
        shown.append(f"{clock(status.eta)} left")
    return text.append("".join(f"  {figure}" for figure in shown), style="default")


def parameter_table(parameters: ParametersStatus) -> Table:
    """Of the servers, by seat."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("SEAT")
    table.add_column("SERVER")
    for name in ("PARTITIONS", "ROWS", "MEMORY", "IN", "OUT", "REQUESTS", "QUEUE", "APPLY S", "CPU S"):
        table.add_column(name, justify="right")
    for seat in parameters.seats:
        stats = seat.stats
        serving = seat.node if seat.address else f"{seat.node or 'no server'}, not ready"
        table.add_row(
            str(seat.seat),
            Text(serving + (", leaving" if seat.leaving else ""), style="default" if seat.address else "yellow"),
            str(seat.partitions),
            f"{stats.rows:,}",
            *(f"{amount / 1e6:,.1f} MB" for amount in (stats.bytes, stats.bytes_in, stats.bytes_out)),
            f"{stats.requests:,}",
            str(stats.queue),
            f"{stats.apply_seconds:.1f}",
            f"{stats.cpu_seconds:.1f}",
        )
    return table


def _parameters(parameters: ParametersStatus) -> Text:
    text = Text(f"parameters: iteration {parameters.iteration:,}, {parameters.examples:,} examples", style="bold")
    text.append(f"; dump of iteration {parameters.dump_iteration:,}" if parameters.dump_order else "; no dump yet")
    if parameters.stale:
        text.append(f"; {parameters.stale:,} stale gradients rejected")
    return text


def _roles(status: JobStatus) -> list[Text]:
    """What each node of a role should have, where that is said, and how far nodes that ran before have got it."""
    lines = []
    for role in status.roles:
        if role.resources == Resources() and not role.rollout:
            continue
        text = Text(f"{role.name}: {role.ready} of {role.wanted} running, {role.resources} each")
        if role.rollout:
            text.append(f"; {role.rollout} {role.rollout_done}/{role.rollout_total}", style="yellow")
        lines.append(text)
    return lines


def amount(used: float, limit: float, *, digits: int = 0, unit: str = "") -> str:
    """Used of what was asked for."""
    whole = f"{limit:g}" if digits else f"{limit:,.0f}"
    return f"{used:,.{digits}f}" + (f" of {whole}" if limit else "") + unit


def cpu(node: NodeStatus) -> str:
    if not node.cpu:
        return ""
    return f"{node.cpu:.1f}" + (f" of {node.cpu_limit:g}" if node.cpu_limit else "")


def memory(node: NodeStatus) -> str:
    if not node.memory_mb:
        return ""
    limit = f" of {node.memory_limit_mb:,.0f}" if node.memory_limit_mb else ""
    return f"{node.memory_mb:,.0f}{limit} MB"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S") if seconds else ""


def _headline(view: JobView) -> Text:
    status = view.status
    text = Text().append(f"{status.name}  ", style="bold")
    text.append(view.phase, style=PHASE_STYLES.get(view.phase, "yellow"))
    text.append(f"  {clock(status.seconds)}", style="default")
    text.append("".join(f"  {figure}" for figure in figures(status)), style="default")
    if status.master_starts > 1:
        text.append(f"  master started {status.master_starts} times", style="yellow")
    if status.reason:
        text.append(f"\n{status.reason}", style="default")
    text.append(f"\n{view.handle.where}", style="dim")
    return text


def _checkpoint(found: CheckpointStatus) -> Text:
    newest = f"of step {found.last_step:,}, {moment(found.last_time)}" if found.last_time else "none"
    text = Text(f"newest checkpoint: {newest}, in {found.directory}")
    if found.failures_in_a_row:
        since = moment(found.failing_since)
        text.append(
            f"\n{counted(found.failures_in_a_row, 'failure')} in a row since {since}, last: {found.reason}", style="red"
        )
    elif found.failures:
        text.append(f" ({counted(found.failures, 'failure')} before, last: {found.reason})", style="yellow")
    return text


def _parked(shard: ParkedShard) -> Text:
    where = f"records [{shard.start}, {shard.end}) of {shard.name}, epoch {shard.epoch}"
    return Text(f"gave up on {where}: failed {counted(shard.failures, 'time')}, last: {shard.message}", style="red")


def _failure(failure: Failure) -> Text:
    text = Text(f"first failure: {failure.node}, {failure.kind}: {failure.message}", style="red")
    for line in failure.traceback.splitlines()[-12:]:
        text.append("\n  ").append_text(Text("", style="default").append_text(output_text(line)))
    if failure.hint:
        text.append(f"\nwhat to do: {failure.hint}", style="default")
    return text
