"""Inspect checkpoints and export models from them.

    pliant checkpoint ls my-job
    pliant checkpoint inspect my-job --verify
    pliant checkpoint export my-job --to model.safetensors

Exit code: 0 success, 1 a checkpoint is corrupt, 2 a usage error.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from pliant.checkpoint import manifest
from pliant.checkpoint.catalog import Found, StoredStep, candidates, list_steps
from pliant.checkpoint.checksums import ALGORITHM
from pliant.checkpoint.storage import Storage, open_storage
from pliant.cli.render.console import EscapingConsole
from pliant.cli.render.terminal import say
from pliant.core.errors import CorruptData, NotFound
from pliant.handles.job_dirs import find_job
from pliant.spec import load_spec

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Where = Annotated[str, typer.Argument(metavar="DIR|JOB", help="A checkpoint directory (s3://... too) or a job.")]
Step = Annotated[int | None, typer.Option(help="The step. [default: newest complete checkpoint]")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("ls")
def list_checkpoints(
    where: Where,
    verify: Annotated[bool, typer.Option(help="Read all data and verify checksums.")] = False,
    as_json: AsJson = False,
) -> None:
    """List checkpoints, including incomplete and corrupt ones and their problems. Exits 1 if none is usable."""
    storage = _place(where)
    rows = [_row(storage, stored, verify) for stored in list_steps(storage)]
    if as_json:
        print(json.dumps({"directory": storage.url, "checkpoints": rows}, indent=1))
    else:
        _print_list(storage, rows)
    if not any(row["status"] == "complete" for row in rows):
        raise typer.Exit(1)


@app.command()
def inspect(
    where: Where,
    step: Step = None,
    verify: Annotated[bool, typer.Option(help="Read all data and verify checksums.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the tensors of a checkpoint: shape, type, size, and part."""
    storage = _place(where)
    found = _choose(storage, step)
    notes = [part for part in found.parts if isinstance(part, manifest.PartNote)]
    problems = _problems(storage, notes) if verify else []
    tensors = _tensors(storage, notes)
    if as_json:
        value = {"step": found.step, "path": found.path, "world": found.world, "verified": verify and not problems}
        print(json.dumps({**value, "problems": problems, "tensors": tensors}, indent=1))
    else:
        _print_tensors(found, notes, tensors)
        for problem in problems:
            say(f"broken: {problem}")
        if verify and not problems:
            say(f"all checksums match ({sum(len(note.checksums) for note in notes)} of {ALGORITHM})")
    if problems:
        raise typer.Exit(1)


@app.command()
def export(
    where: Where,
    to: Annotated[Path, typer.Option(help="Output file; the suffix selects the format: .safetensors or .pt.")],
    step: Step = None,
    prefix: Annotated[str, typer.Option(help="Dotted path of the entry to export; '' for everything.")] = "model",
    as_json: AsJson = False,
) -> None:
    """Export the model (or another prefix) to a single file, verifying checksums."""
    from pliant.checkpoint.export import export as write  # torch takes its time

    found = _choose(_place(where), step)
    count = write(found, to, prefix)
    size = to.stat().st_size
    if as_json:
        print(json.dumps({"step": found.step, "tensors": count, "bytes": size, "file": str(to)}))
    else:
        say(f"{count} tensors of step {found.step} in {to} ({_size(size)})")


def _place(where: str) -> Storage:
    """A directory as it is; else a job's."""
    if "://" in where:
        return open_storage(where)
    folder = Path(where)
    if folder.is_dir() and not (folder / "job.yaml").exists():
        return open_storage(folder)
    job = find_job(where)
    spec = load_spec(job.spec)
    saved = spec.checkpoint.dir or str(job.path / "checkpoints")
    if "://" not in saved:
        saved = str(Path(spec.working_dir or ".") / saved)  # as its programs, which start there, understand it
    return open_storage(saved)


def _choose(storage: Storage, step: int | None) -> Found:
    found = [one for one in candidates(storage.url, memory=False) if step is None or one.step == step]
    if not found:
        what = "complete checkpoint" if step is None else f"complete checkpoint of step {step}"
        raise NotFound(
            f"no {what} in {storage.url}", hint="list all checkpoints and their problems with `pliant checkpoint ls`"
        )
    return found[0]


def _row(storage: Storage, stored: StoredStep, verify: bool) -> dict[str, Any]:
    notes = stored.cuts[0] if stored.cuts else stored.partial
    problems = list(stored.problems)
    status = stored.status
    if verify and stored.cuts and (damage := _problems(storage, notes)):
        problems, status = problems + damage, "broken"
    if status == "incomplete":
        problems = [f"{len(notes)} of {notes[0].of} parts present" if notes else "no complete part"]
    return {
        "step": stored.step,
        "status": status,
        "parts": len(notes),
        "world": notes[0].world if notes else None,
        "bytes": sum(note.bytes for note in notes),
        "time": max((note.time for note in notes), default=None),
        "path": f"{storage.url}/{manifest.step_folder(stored.step)}",
        "problems": problems,
    }


def _problems(storage: Storage, notes: list[manifest.PartNote]) -> list[str]:
    found = []
    for note in notes:
        try:
            manifest.check(memoryview(storage.open(note.path)), note, f"{storage.url}/{note.path}")
        except CorruptData as error:
            found.append(error.message)
        except FileNotFoundError:
            found.append(f"{storage.url}/{note.path} is missing")
    return found


def _tensors(storage: Storage, notes: list[manifest.PartNote]) -> list[dict[str, Any]]:
    """Each once, with the parts that it is in."""
    index: dict[str, tuple[str, tuple[int, ...]]] = {}
    parts: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    for note in notes:
        layout = manifest.read_layout(storage, note)
        about = manifest.own_metadata(layout)
        if note.part == 0:
            index = manifest.tensor_index(about, note.path)
        for entry in layout.entries:
            name, _, _ = manifest.slice_of(entry.name, about, note.path)
            parts.setdefault(name, []).append(note.part)
            sizes[name] = sizes.get(name, 0) + entry.nbytes
    return [
        {"name": name, "dtype": dtype, "shape": shape, "bytes": sizes.get(name, 0), "parts": parts.get(name, [])}
        for name, (dtype, shape) in index.items()
    ]


def _print_list(storage: Storage, rows: list[dict[str, Any]]) -> None:
    console = EscapingConsole()
    if not rows:
        console.print(f"no checkpoints in {storage.url}")
        return
    table = Table("step", "status", "size", "parts", "taken", title=storage.url, title_justify="left", box=None)
    for row in rows:
        taken = datetime.fromtimestamp(row["time"]).strftime("%Y-%m-%d %H:%M:%S") if row["time"] else ""
        table.add_row(str(row["step"]), row["status"], _size(row["bytes"]), str(row["parts"]), taken)
    console.print(table)
    for row in rows:
        for problem in row["problems"]:
            console.print(f"step {row['step']}: {problem}", soft_wrap=True)


def _print_tensors(found: Found, notes: list[manifest.PartNote], tensors: list[dict[str, Any]]) -> None:
    console = EscapingConsole()
    console.print(f"step {found.step}, taken by {found.world} workers, {found.path}", soft_wrap=True)
    table = Table("tensor", "type", "shape", "size", "parts", box=None)
    for tensor in tensors:
        shape = "x".join(map(str, tensor["shape"])) or "scalar"
        table.add_row(
            tensor["name"], tensor["dtype"], shape, _size(tensor["bytes"]), ",".join(map(str, tensor["parts"]))
        )
    console.print(table)
    total = sum(tensor["bytes"] for tensor in tensors)
    console.print(f"{len(tensors)} tensors, {_size(total)} in {len(notes)} parts")


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
