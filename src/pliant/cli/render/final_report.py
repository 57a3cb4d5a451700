"""The final report of ``pliant run``: how the job ended, and after a failure what caused it and what to do."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pliant.cli.handles.job_handle import JobHandle
from pliant.cli.render.progress import clock
from pliant.core.job import Failure, Phase
from pliant.core.status import DatasetStatus, EvaluationStatus, JobStatus
from pliant.core.summary import JobSummary

_NEXT_STEPS = {
    "Error": "fix the program and run the job again; errors are forgiven up to --max-restarts times per node",
    "OOM": "request more memory (--memory), raise the limit (fault.memory.ceiling), or use smaller batches",
    "Killed": "something outside killed it; see the machine's log (dmesg) and who else uses it",
    "Hang": "it was silent or made no progress; raise fault.heartbeat_timeout or fault.progress_timeout if it is slow",
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
    for dataset in status.datasets:
        if (
            status.phase is not Phase.SUCCEEDED or dataset.records_done or not dataset.records_total
        ):  # else never wanted
            console.print(f"pliant | {_dataset(dataset)}", markup=False)
    for line in _evaluations(status):
        console.print(f"pliant | {line}", markup=False)
    if survived := _survived(summary):
        console.print(f"pliant | survived: {', '.join(survived)}", markup=False)
    console.print(f"pliant | {handle.logs_at}", markup=False)


def _survived(summary: JobSummary) -> list[str]:
    status, found = summary.status, []
    if summary.restarts:
        found.append(f"{summary.restarts} restarts in place")
    if summary.replacements:
        found.append(f"{summary.replacements} nodes replaced")
    if status.master_starts > 1:
        found.append(f"{status.master_starts - 1} restarts of the master")
    if status.stalled_seconds >= _MIN_STALL_S:
        found.append(f"stalled for {status.stalled_seconds:.1f} s")
    return found


def _dataset(dataset: DatasetStatus) -> str:
    total, done = dataset.records_total, dataset.records_done
    text = f"dataset {dataset.name}: {done:,} of {total:,} records"
    if dataset.records_restored:
        text += f" ({dataset.records_restored:,} of them before the restored position)"
    if dataset.exact and total:
        epochs = dataset.epochs
        text += f", each exactly once{f' in each of {epochs} epochs' if epochs > 1 else ''}"
    elif dataset.complete and dataset.shards_total and done >= total:  # without shards it is a total over datasets
        text += ", NOT each exactly once (`pliant audit` names them if the job was run with --audit)"
    if dataset.parked:
        text += f", {len(dataset.parked)} shards given up"
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


def _evaluation(what: str, result: EvaluationStatus) -> str:
    metrics = ", ".join(f"{name} {value:.6g}" for name, value in result.metrics.items() if value is not None)
    return f"{what} of version {result.version}: {metrics}" + (
        f" ({result.records:,} records)" if result.records else ""
    )


def _print_failure(console: Console, failure: Failure) -> None:
    if not failure.node:
        return
    console.print(f"pliant | first failure: {failure.node}, {failure.kind}: {failure.message}", markup=False)
    for line in failure.traceback.splitlines():
        console.print(f"  {failure.node} | {line}", markup=False)
    console.print(f"pliant | its whole output: {failure.log}", markup=False)
    console.print(f"pliant | what to do: {_NEXT_STEPS.get(failure.kind, 'see the log')}", markup=False)
