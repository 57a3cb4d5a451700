"""Verify that each record of each epoch of each dataset was accepted exactly once.

The job must have been started with --audit; its master then records every accepted range of records in the journal, in the
same transaction as the acceptance itself.

    pliant run --audit --name digits -- python train.py
    pliant audit digits
    pliant audit digits --json
    pliant audit digits -N team-a

Exit code: 0 if verified; 1 if not, or not yet; 2 if the job is not found or ran without --audit.
"""

from __future__ import annotations

import json
from typing import Any

import typer

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.cli.render.terminal import say
from pliant.handles.find import find_job_handle


def audit(
    name: Name = None,
    job_dir: Folder = None,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    report = handle.audit()
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        if not report["over"]:
            say(f"{report['name']} is still running; this covers the records accepted so far")
        for found in report["datasets"]:
            _print(found)
        if not report["datasets"]:
            say(f"{report['name']} has no datasets")
    raise typer.Exit(0 if report["exact"] else 1)


def _print(found: dict[str, Any]) -> None:
    epochs = f" in each of {found['epochs']} epochs" if found["epochs"] > 1 else ""
    restored = f", {found['restored']:,} before the restored position" if found["restored"] else ""
    if found["exact"]:
        say(f"{found['dataset']}: exact: {found['records_accepted']:,} records accepted{restored}, each once{epochs}")
        _print_partitions(found)
        return
    say(
        f"{found['dataset']}: NOT exact: of {found['records_expected']:,} records{epochs and ' (all epochs)'},"
        f" {found['missing']:,} missing, {found['doubled']:,} accepted more than once"
        + (f", {found['strange']:,} entries that match no shard" if found["strange"] else "")
    )
    for kind, findings in (("missing", "gaps"), ("again", "doubles"), ("strange", "strangers")):
        for finding in found[findings]:
            say(f"  {kind}: {_where(finding)}: {finding['why']}")
    _print_partitions(found)


def _print_partitions(found: dict[str, Any]) -> None:
    for part in found.get("partitions", ()):
        again = part["records_accepted"] - part["records_covered"]
        say(
            f"  partition {part['name']}: {part['records_covered']:,} of {part['records_expected']:,} records accepted"
            + (f", {again:,} accepted again" if again else "")
        )


def _where(finding: dict[str, Any]) -> str:
    start, end, begin, upto = (finding[key] for key in ("start", "shard_end", "begin", "end"))
    part = "" if (begin, upto) == (0, end - start) else f", positions [{begin}, {upto}) of it"
    return f"epoch {finding['epoch']}, records [{start}, {end}) of {finding['name']}{part}"
