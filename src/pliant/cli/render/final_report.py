"""The final report of ``pliant run``: how the job ended, and after a failure what caused it and what to do."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pliant.cli.render.console import output_text
from pliant.cli.render.plans import summed_up
from pliant.cli.render.progress import clock, metrics_line, step_text
from pliant.core.job import Failure, Phase
from pliant.core.memory_advice import memory_advice
from pliant.core.plurals import counted
from pliant.core.status import DatasetStatus, EvaluationStatus, JobStatus
from pliant.core.summary import JobSummary
from pliant.handles.job_handle import JobHandle

_NEXT_STEPS = {
    "Error": "fix the program and rerun; each node is restarted up to --max-restarts times",
    "OOM": "request more memory (--memory), raise the limit (fault.memory.ceiling), or use smaller batches",
    "Killed": "an external process killed it; check the machine's log (dmesg) and its other users",
    "Hang": "no heartbeat or no progress; if it is just slow, raise fault.heartbeat_timeout or fault.progress_timeout",
}
_STYLES = {Phase.SUCCEEDED: "bold green", Phase.FAILED: "bold red"}
_MIN_STALL_S = 0.05  # shorter stalls are not worth a word


def print_final_report(console: Console, handle: JobHandle, summary: JobSummary) -> None:
    status = summary.status
    if status.phase is Phase.FAILED and status.first_failure is not None:
        _print_failure(console, status.first_failure)
    head = Text("pliant | ")
    head.append(status.phase, style=_STYLES.get(status.phase, "bold yellow"))
    head.append(f" in {clock(summary.seconds)}: {status.reason}")
    console.print(head)
    for dataset in status.used_datasets:
        if (
            status.phase is not Phase.SUCCEEDED or dataset.records_done or not dataset.records_total
        ):  # else never wanted
            console.print(f"pliant | {_dataset(dataset)}")
    if training := _training(status):
        console.print(f"pliant | {training}")
    for line in _evaluations(status):
        console.print(f"pliant | {line}")
    for styled in _checkpoints(status):
        console.print(styled)
    for advice in memory_advice(status):
        console.print(f"pliant | {advice.sentence()}")
    if summary.plans:
        console.print(f"pliant | resources: {summed_up(summary.plans)}; see `pliant plans {handle.argument}`")
    if survived := _survived(summary):
        console.print(f"pliant | survived: {', '.join(survived)}")
    console.print(f"pliant | {handle.logs_at}")


def _survived(summary: JobSummary) -> list[str]:
    status, found = summary.status, []
    if summary.restarts:
        found.append(f"{counted(summary.restarts, 'restart')} in place")
    if summary.replacements:
        found.append(f"{counted(summary.replacements, 'node')} replaced")
    if status.master_starts > 1:
        found.append(counted(status.master_starts - 1, "master restart"))
    if status.stalled_seconds >= _MIN_STALL_S:
        found.append(f"stalled for {status.stalled_seconds:.1f} s")
    return found


def _training(status: JobStatus) -> str:
    """What the programs reported of their steps, if they did."""
    progress = status.progress
    if not progress.step:
        return ""
    parts = [f"training: {step_text(progress)}"]
    if progress.records_done and not status.used_datasets:
        parts.append(f"{progress.records_done:,} records")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4g}")
    return ", ".join([*parts, *filter(None, [metrics_line(status)])])


def _dataset(dataset: DatasetStatus) -> str:
    total, done = dataset.records_total, dataset.records_done
    text = f"dataset {dataset.name}: {done:,} of {total:,} records"
    if dataset.records_restored:
        text += f" ({dataset.records_restored:,} of them before the restored checkpoint)"
    if dataset.exact and total:
        epochs = dataset.epochs
        text += f", each exactly once{f' in each of {epochs} epochs' if epochs > 1 else ''}"
    elif dataset.complete and dataset.shards_total and done >= total:  # without shards it is a total over datasets
        text += ", NOT each exactly once (`pliant audit` names them if the job was run with --audit)"
    if dataset.parked:
        text += f", gave up on {counted(len(dataset.parked), 'shard')}"
    return text


def _evaluations(status: JobStatus) -> list[str]:
    """The last, and the best if that was another."""
    if not status.evaluations:
        return []
    last, best = status.evaluations[-1], status.best
    shown = [_evaluation("evaluation", last)]
    if best is not None and best.version != last.version:
        shown.append(_evaluation("best", best))
    return shown


def _checkpoints(status: JobStatus) -> list[Text]:
    """Where the newest one is; and what must not be overlooked, that it is not the last that was to be written."""
    lines = []
    for found in status.checkpoints:
        newest = f"of step {found.last_step:,}" if found.last_time else "none"
        failed = f" ({counted(found.failures, 'checkpoint')} failed)" if found.failures else ""
        lines.append(Text(f"pliant | newest checkpoint: {newest}, in {found.directory}{failed}"))
        if found.failures_in_a_row:
            what = f"warning: the last checkpoint could not be written to {found.directory}: {found.reason}"
            lines.append(Text(f"pliant | {what}", style="bold yellow"))
            if found.hint:
                lines.append(Text(f"pliant | what to do: {found.hint}", style="yellow"))
    return lines


def _evaluation(what: str, result: EvaluationStatus) -> str:
    metrics = ", ".join(f"{name} {value:.6g}" for name, value in result.metrics.items() if value is not None)
    return f"{what} of version {result.version}: {metrics}" + (
        f" ({result.records:,} records)" if result.records else ""
    )


def _print_failure(console: Console, failure: Failure) -> None:
    if not failure.node:
        return
    console.print(f"pliant | first failure: {failure.node}, {failure.kind}: {failure.message}")
    for line in failure.traceback.splitlines():
        console.print(Text(f"  {failure.node} | ").append_text(output_text(line)))
    if failure.traceback or not failure.hint:  # else its program had no part in it
        console.print(f"pliant | full output: {failure.log}")
    console.print(f"pliant | what to do: {failure.hint or _NEXT_STEPS.get(failure.kind, 'see the log')}")
