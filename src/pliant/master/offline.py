"""A job whose master does not answer, read from its files: the journal is replayed, and nothing is written.

What comes out is the state that a restarted master would begin with. For ``pliant status`` while a master is away, and
for ``pliant audit``, which needs the definitions of datasets.
"""

from __future__ import annotations

import sqlite3
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pliant.core.errors import NotAvailable, NotFound
from pliant.core.shard_queue import ShardQueue
from pliant.master.app import Master
from pliant.master.audit import audit_dataset
from pliant.master.components import Components
from pliant.master.job_dir import JobDir
from pliant.master.journal_store import AuditRow, SqliteStore, read_audit
from pliant.master.stats import MemoryStats
from pliant.master.status import job_status
from pliant.rpc import pliant_pb2 as pb


class _ReadOnlyStore(SqliteStore):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=10)
        self._db.execute("BEGIN")  # one state, although a master may be writing


class JobOnDisk(Master):
    """The state machines of a job, as its journal has them."""

    def __init__(self, job_dir: JobDir) -> None:
        if not job_dir.journal.exists():
            raise NotFound(f"the job in {job_dir.path} has no journal", hint="its master never started; see master.log")
        super().__init__(job_dir)
        store = _ReadOnlyStore(job_dir.journal)
        try:
            recovered = store.load()
        finally:
            store.close()
        self._make_machines()
        self._replay(recovered)

    def status(self) -> pb.JobStatus:
        """As the master would tell it, but for what is only in its memory: CPU, memory, records per second."""
        parts = SimpleNamespace(
            name=self.spec.name,
            clock=self._clock,
            job=self._machines["job"],
            stats=MemoryStats(self._clock),
            component_names=lambda: [name for name in self._machines if name != "job"],
            nodes=self._shell("nodes", "book"),
            shards=self._shell("shards", "book"),
            rendezvous=self._shell("rendezvous", "machine"),
            parameters=None,  # only a living master is in touch with its parameter servers
            training=self._shell("training", "book"),
        )
        return job_status(cast(Components, parts))

    def queues(self) -> list[ShardQueue]:
        shards = self._machines.get("shards")
        return list(shards.queues()) if shards is not None else []

    def _shell(self, name: str, attribute: str) -> Any:
        machine = self._machines.get(name)
        return SimpleNamespace(**{attribute: machine}) if machine is not None else None


def audit_of(home: JobDir) -> dict[str, Any]:
    """The proof of a job that ran with ``audit``, as JSON values: what ``pliant audit --json`` prints."""
    job = JobOnDisk(home)
    if not job.spec.audit:
        raise NotAvailable(f"job {home.path.name} was run without --audit", hint="run it with `pliant run --audit`")
    rows: dict[str, list[AuditRow]] = {}
    for row in read_audit(home.journal):
        rows.setdefault(row.dataset, []).append(row)
    wanted = (queue for queue in job.queues() if not queue.never_wanted)
    audits = [audit_dataset(queue, rows.get(queue.spec.name, [])) for queue in wanted]
    return {
        "name": job.spec.name,
        "over": home.summary_file.exists(),
        "exact": all(found.exact for found in audits),
        "datasets": [{**asdict(found), "exact": found.exact} for found in audits],
    }
