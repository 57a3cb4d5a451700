"""A job whose master does not answer, read from its files: the journal is replayed, and nothing is written.

What comes out is the state that a restarted master would begin with. For ``pliant status`` while a master is away, and
for ``pliant audit``, which needs the definitions of datasets.
"""

from __future__ import annotations

from pliant.core.end_policy import optional_datasets
from pliant.core.errors import NotAvailable, NotFound
from pliant.core.shards.audit import AuditRow, JobAudit, audit_dataset
from pliant.core.shards.queue import ShardQueue
from pliant.core.status import JobStatus
from pliant.core.status_builder import build_status
from pliant.master.clock import SystemClock
from pliant.master.job_dir import JobDir
from pliant.master.journal.store import load_from, open_read_only, read_audit
from pliant.spec import initial_state, load_spec


class JobOnDisk:
    """A job as its journal has it."""

    def __init__(self, job_dir: JobDir) -> None:
        if not job_dir.journal.exists():
            raise NotFound(
                f"the job in {job_dir.path} has no journal", hint="its master never started; check master.log"
            )
        self.spec = load_spec(job_dir.spec)
        self.state = initial_state(self.spec)
        with open_read_only(job_dir.journal) as db:
            db.execute("BEGIN")  # one state, although a master may be writing
            recovered = load_from(db)
        self.state.replay(recovered.snapshot, recovered.operations, source=f"the journal {job_dir.journal}")

    def status(self) -> JobStatus:
        """As the master would report it, but for what is only in its memory: use of resources, rates, the last seconds of steps."""
        return build_status(self.spec.name, self.state, SystemClock().now())

    def queues(self) -> list[ShardQueue]:
        return self.state.shards.queues() if self.state.shards is not None else []


def audit_of(home: JobDir) -> JobAudit:
    """The proof of a job that ran with ``audit``."""
    job = JobOnDisk(home)
    if not job.spec.audit:
        raise NotAvailable(f"job {home.name} ran without --audit", hint="run it with `pliant run --audit`")
    rows: dict[str, list[AuditRow]] = {}
    for row in read_audit(home.journal):
        rows.setdefault(row.dataset, []).append(row)
    optional = optional_datasets(job.state)
    wanted = (queue for queue in job.queues() if queue.spec.name not in optional)
    audits = [audit_dataset(queue, rows.get(queue.spec.name, [])) for queue in wanted]
    return JobAudit(job.spec.name, home.summary_file.exists(), tuple(audits))
