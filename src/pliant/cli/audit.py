"""Prove that each record of each epoch of each dataset was accepted exactly once.

The job must have been run with --audit; its master then notes every accepted range of records in the journal, in the
same transaction as the acceptance itself.

    pliant run --audit --name digits -- python train.py
    pliant audit digits
    pliant audit digits --json

Exit code: 0 if each was, once; 1 if not, or not yet; 2 if there is no such job or it was run without --audit.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from pliant.cli.homes import find_job
from pliant.cli.options import AsJson, Folder, Name
from pliant.core.errors import NotAvailable

if TYPE_CHECKING:
    from pliant.master.audit import DatasetAudit, Finding


def audit(name: Name = None, job_dir: Folder = None, as_json: AsJson = False) -> None:
    from pliant.master.audit import audit_dataset
    from pliant.master.journal_store import read_audit
    from pliant.master.offline import JobOnDisk

    home = find_job(name, job_dir)
    job = JobOnDisk(home)
    if not job.spec.audit:
        raise NotAvailable(f"job {home.path.name} was run without --audit", hint="run it with `pliant run --audit`")
    rows: dict[str, list[Any]] = {}
    for row in read_audit(home.journal):
        rows.setdefault(row.dataset, []).append(row)
    audits = [audit_dataset(queue, rows.get(queue.spec.name, [])) for queue in job.queues()]
    exact = all(found.exact for found in audits)
    over = home.summary_file.exists()
    if as_json:
        datasets = [{**asdict(found), "exact": found.exact} for found in audits]
        print(json.dumps({"name": job.spec.name, "over": over, "exact": exact, "datasets": datasets}, indent=1))
    else:
        if not over:
            print(f"{job.spec.name} is not over; this is how far it is")
        for found in audits:
            _print(found)
        if not audits:
            print(f"{job.spec.name} had no datasets")
    raise typer.Exit(0 if exact else 1)


def _print(found: DatasetAudit) -> None:
    epochs = f" in each of {found.epochs} epochs" if found.epochs > 1 else ""
    if found.exact:
        print(f"{found.dataset}: exact: {found.records_accepted:,} records accepted, each once{epochs}")
        return
    print(
        f"{found.dataset}: NOT exact: of {found.records_expected:,} records{epochs and ' (all epochs)'},"
        f" {found.missing:,} missing, {found.doubled:,} accepted again"
        + (f", {found.strange:,} entries that fit no shard" if found.strange else "")
    )
    for kind, findings in (("missing", found.gaps), ("again", found.doubles), ("strange", found.strangers)):
        for finding in findings:
            print(f"  {kind}: {_where(finding)}: {finding.why}")


def _where(finding: Finding) -> str:
    size = finding.shard_end - finding.start
    part = "" if (finding.begin, finding.end) == (0, size) else f", positions [{finding.begin}, {finding.end}) of it"
    return f"epoch {finding.epoch}, records [{finding.start}, {finding.shard_end}) of {finding.name}{part}"
