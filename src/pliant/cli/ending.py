"""The last words of ``pliant run``: how the job ended, and after a failure whose fault it was and what to do."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from pliant.cli.places import Place
from pliant.cli.progress import clock

_NEXT_STEPS = {
    "Error": "mend the program and run the job again; errors are forgiven up to --max-restarts times per node",
    "OOM": "give workers more (--memory), let the ceiling rise (fault.memory.ceiling), or use smaller batches",
    "Killed": "something outside killed it; see the machine's log (dmesg) and who else uses it",
    "Hang": "it was silent or made no progress; raise fault.heartbeat_timeout or fault.progress_timeout if it is slow",
}


def print_ending(console: Console, place: Place, summary: dict[str, Any]) -> None:
    phase = summary["phase"]
    style = {"Succeeded": "bold green", "Failed": "bold red"}.get(phase, "bold yellow")
    if phase == "Failed":
        _print_failure(console, summary)
    head = Text("pliant | ")
    head.append(phase, style=style)
    head.append(f" in {clock(summary['seconds'])}: {summary['reason']}")
    console.print(head)
    for dataset in summary["datasets"]:
        if phase != "Succeeded" or dataset["records_done"] or not dataset["records_total"]:  # else it was never wanted
            console.print(f"pliant | {_dataset(dataset)}", markup=False)
    for line in _evaluations(summary):
        console.print(f"pliant | {line}", markup=False)
    trouble = []
    if summary["restarts"]:
        trouble.append(f"{summary['restarts']} restarts in place")
    if summary["replacements"]:
        trouble.append(f"{summary['replacements']} nodes replaced")
    if summary["master_starts"] > 1:
        trouble.append(f"{summary['master_starts'] - 1} restarts of the master")
    if summary["stalled_seconds"] >= 0.05:
        trouble.append(f"stalled for {summary['stalled_seconds']:.1f} s")
    if trouble:
        console.print(f"pliant | survived: {', '.join(trouble)}", markup=False)
    console.print(f"pliant | {place.logs_at}", markup=False)


def _dataset(dataset: dict[str, Any]) -> str:
    total, done = dataset["records_total"], dataset["records_done"]
    text = f"dataset {dataset['name']}: {done:,} of {total:,} records"
    if dataset["complete"] and done == total and total:
        epochs = dataset["epochs"]
        text += f", each exactly once{f' in each of {epochs} epochs' if epochs > 1 else ''}"
    if dataset["parked"]:
        text += f", {len(dataset['parked'])} shards given up"
    return text


def _evaluations(summary: dict[str, Any]) -> list[str]:
    """The last, and the best if that was another."""
    found, best = summary.get("evaluations") or [], summary.get("best")
    shown = [("evaluation", found[-1])] if found else []
    if best is not None and found and best["version"] != found[-1]["version"]:
        shown.append(("best", best))
    return [
        f"{what} of version {result['version']}: "
        + ", ".join(f"{name} {value:.6g}" for name, value in result["metrics"].items())
        + (f" ({result['records']:,} records)" if result["records"] else "")
        for what, result in shown
    ]


def _print_failure(console: Console, summary: dict[str, Any]) -> None:
    failure = summary.get("first_failure")
    if not failure or not failure.get("node"):
        return
    console.print(f"pliant | first failure: {failure['node']}, {failure['kind']}: {failure['message']}", markup=False)
    for line in failure["traceback"].splitlines():
        console.print(f"  {failure['node']} | {line}", markup=False)
    console.print(f"pliant | its whole output: {failure['log']}", markup=False)
    console.print(f"pliant | what to do: {_NEXT_STEPS.get(failure['kind'], 'see the log')}", markup=False)
