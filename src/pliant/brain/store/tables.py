"""The schema of this release, as SQLAlchemy tables; ``migrations`` brings a database to it, and a test compares the two.

A job has nodes, samples (of itself and of its nodes), periods, plans, grants, optimize events and runs of algorithms; a cluster has
machines and observed nodes; a journal belongs to the job of the same identity, but is there before the job's first report.

- A sample has a ``resolution``: seconds that it stands for (``resolutions.py``); 0 is as it was reported. One that stands for
  several (``samples``) has their means, of memory their maximum, and the counters of the last of them.
- ``job_samples.accepted`` is how many records more were accepted than at the sample before: over all resolutions of a job they add
  up to ``jobs.records``, whatever was rolled up.
- ``plans`` has the Brain's offers and the plans that masters made, of an offer (``offer`` is its id) or by themselves.
- A time of 0, and an empty text: not yet, or unknown.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    UniqueConstraint,
    false,
)

from pliant.brain.store.column_types import (
    TABLE_OPTIONS,
    Blob,
    Count,
    Id,
    Name,
    Number,
    count,
    document,
    maybe_number,
    name,
    number,
    sentence,
    word,
)

metadata = MetaData()

owners = Table(
    "owners",
    metadata,
    Column("name", Name, primary_key=True),
    number("first_heard_at"),
    number("last_heard_at"),
    **TABLE_OPTIONS,
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    name("namespace"),
    name("name"),
    name("uid"),
    # its description
    name("owner"),
    name("quota"),
    count("priority"),
    Column("is_preemptible", Boolean, nullable=False, server_default=false()),
    word("mode"),
    word("platform"),
    document("algorithms"),
    # its fingerprint
    word("strategy"),
    name("command"),
    name("program"),
    name("stem"),
    count("dataset_records"),
    # its reports
    word("phase"),
    count("session"),
    count("sequence"),
    count("reports_lost"),
    Column("wants_all", Boolean, nullable=False, server_default=false()),  # the master is to say everything again
    count("samples_lost"),  # by the master, in its present session
    count("granted"),  # number of the last grant that the job keeps to
    number("first_heard_at"),
    number("last_heard_at"),
    number("started_at"),
    number("ended_at"),
    Column("is_replaced", Boolean, nullable=False, server_default=false()),  # by another job of the same name
    number("pruned_at"),  # only what it taught is left since then
    # its last sample
    number("sampled_at"),
    count("records"),
    count("step"),
    number("rate"),
    count("running"),
    count("waiting"),
    document("history"),
    # what it taught: NULL until it ends
    document("taught_configuration"),
    maybe_number("taught_ended"),
    Column("taught_succeeded", Boolean, nullable=True),
    maybe_number("taught_rate"),
    maybe_number("taught_worker_memory_mb"),
    maybe_number("taught_server_memory_mb"),
    UniqueConstraint("namespace", "name", "uid", name="uq_jobs_identity"),
    Index("ix_jobs_command", "strategy", "command"),
    Index("ix_jobs_program", "strategy", "program"),
    Index("ix_jobs_ended_at", "ended_at"),
    **TABLE_OPTIONS,
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", Id, ForeignKey("jobs.id", name="fk_nodes_job"), nullable=False),
    name("name"),
    word("role"),
    word("state"),
    number("cpu"),
    count("memory_mb"),
    count("gpu"),
    name("host"),
    number("created_at"),
    number("started_at"),
    number("ended_at"),
    sentence("exit_reason"),
    UniqueConstraint("job_id", "name", name="uq_nodes_name"),
    **TABLE_OPTIONS,
)

node_samples = Table(
    "node_samples",
    metadata,
    Column("node_id", Id, ForeignKey("nodes.id", name="fk_node_samples_node"), primary_key=True, autoincrement=False),
    Column("resolution", SmallInteger, primary_key=True, autoincrement=False),
    Column("time", Number, primary_key=True),
    number("cpu"),
    number("throttled"),
    number("memory_mb"),
    count("records"),
    Column("samples", Integer, nullable=False, server_default="1"),
    sqlite_with_rowid=False,
    **TABLE_OPTIONS,
)

job_samples = Table(
    "job_samples",
    metadata,
    Column("job_id", Id, ForeignKey("jobs.id", name="fk_job_samples_job"), primary_key=True, autoincrement=False),
    Column("resolution", SmallInteger, primary_key=True, autoincrement=False),
    Column("time", Number, primary_key=True),
    count("records"),
    count("accepted"),
    count("step"),
    number("rate"),
    number("running"),
    number("waiting"),
    Column("samples", Integer, nullable=False, server_default="1"),
    sqlite_with_rowid=False,
    **TABLE_OPTIONS,
)

periods = Table(
    "periods",
    metadata,
    Column("job_id", Id, ForeignKey("jobs.id", name="fk_periods_job"), primary_key=True, autoincrement=False),
    Column("number", Count, primary_key=True, autoincrement=False),
    document("configuration"),
    number("began"),
    number("ended"),
    number("rate"),
    number("error"),
    count("samples"),
    number("data"),
    number("compute"),
    number("peers"),
    **TABLE_OPTIONS,
)

optimize_events = Table(
    "optimize_events",
    metadata,
    Column("id", Name, primary_key=True),
    Column("job_id", Id, ForeignKey("jobs.id", name="fk_optimize_events_job"), nullable=False),
    word("kind"),
    sentence("reason"),
    number("raised_at"),
    number("ended_at"),
    word("outcome"),
    Index("ix_optimize_events_job", "job_id", "raised_at"),
    **TABLE_OPTIONS,
)

plans = Table(
    "plans",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", Id, ForeignKey("jobs.id", name="fk_plans_job"), nullable=False),
    Column("offer", Name, nullable=True),  # NULL: the master planned it by itself
    Column("plan", Name, nullable=True),  # of the master; NULL: it has made none of the offer yet
    name("event"),
    name("algorithm"),
    sentence("reason"),
    document("proposal"),
    maybe_number("predicted_rate"),
    maybe_number("predicted_low"),
    maybe_number("predicted_high"),
    count("base_version"),
    number("made_at"),
    number("sent_at"),
    number("expires_at"),
    # what the master made of it
    number("planned_at"),
    number("plan_expires_at"),
    word("outcome"),
    document("before_configuration"),
    number("before_rate"),
    number("before_error"),
    word("objective"),
    maybe_number("accepted_at"),
    maybe_number("ended_at"),
    maybe_number("achieved_rate"),
    maybe_number("achieved_error"),
    sentence("judgement"),
    name("rolls_back"),
    UniqueConstraint("offer", name="uq_plans_offer"),
    UniqueConstraint("job_id", "plan", name="uq_plans_plan"),
    Index("ix_plans_made_at", "made_at"),
    **TABLE_OPTIONS,
)

leases = Table(
    "leases",
    metadata,
    Column("name", Name, primary_key=True),
    name("holder"),
    count("term"),
    number("expires_at"),
    **TABLE_OPTIONS,
)

clusters = Table(
    "clusters",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    name("name"),
    sentence("monitor"),
    number("observed_at"),
    UniqueConstraint("name", name="uq_clusters_name"),
    **TABLE_OPTIONS,
)

machines = Table(
    "machines",
    metadata,
    Column(
        "cluster_id", Id, ForeignKey("clusters.id", name="fk_machines_cluster"), primary_key=True, autoincrement=False
    ),
    Column("name", Name, primary_key=True),
    number("cpu"),
    number("memory_mb"),
    count("gpu"),
    number("free_cpu"),
    number("free_memory_mb"),
    count("free_gpu"),
    number("used_cpu"),
    number("used_memory_mb"),
    Column("is_ready", Boolean, nullable=False, server_default=false()),
    **TABLE_OPTIONS,
)

observed_nodes = Table(
    "observed_nodes",
    metadata,
    Column(
        "cluster_id",
        Id,
        ForeignKey("clusters.id", name="fk_observed_nodes_cluster"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("namespace", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    name("job"),
    word("role"),
    word("phase"),
    name("machine"),
    number("cpu"),
    number("memory_mb"),
    count("gpu"),
    number("used_cpu"),
    number("used_memory_mb"),
    Index("ix_observed_nodes_job", "namespace", "job"),
    **TABLE_OPTIONS,
)

quotas = Table(
    "quotas",
    metadata,
    Column("name", Name, primary_key=True),
    maybe_number("cpu"),  # NULL: no limit
    maybe_number("memory_mb"),
    Column("gpu", Count, nullable=True),
    Column("nodes", Count, nullable=True),
    Column("weight", Number, nullable=False, server_default="1"),
    number("changed_at"),
    **TABLE_OPTIONS,
)

grants = Table(
    "grants",
    metadata,
    Column("job_id", Id, ForeignKey("jobs.id", name="fk_grants_job"), primary_key=True, autoincrement=False),
    Column("number", Count, primary_key=True, autoincrement=False),
    document("limit_configuration"),
    Column("is_unlimited", Boolean, nullable=False, server_default=false()),
    sentence("reason"),
    number("grace_s"),
    number("made_at"),
    **TABLE_OPTIONS,
)

algorithm_runs = Table(
    "algorithm_runs",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", Id, ForeignKey("jobs.id", name="fk_algorithm_runs_job"), nullable=False),
    name("event"),
    name("algorithm"),
    number("began_at"),
    number("took_s"),
    word("outcome"),
    sentence("detail"),
    name("offer"),
    Index("ix_algorithm_runs_job", "job_id", "began_at"),
    **TABLE_OPTIONS,
)

journals = Table(
    "journals",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    name("namespace"),
    name("name"),
    name("uid"),
    name("writer"),
    count("fence"),
    count("last_number"),
    count("snapshot_number"),
    number("opened_at"),
    number("written_at"),
    UniqueConstraint("namespace", "name", "uid", name="uq_journals_identity"),
    **TABLE_OPTIONS,
)

journal_batches = Table(
    "journal_batches",
    metadata,
    Column(
        "journal_id",
        Id,
        ForeignKey("journals.id", name="fk_journal_batches_journal"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("number", Count, primary_key=True, autoincrement=False),
    Column("is_snapshot", Boolean, nullable=False, server_default=false()),
    word("digest"),
    number("written_at"),
    **TABLE_OPTIONS,
)

journal_chunks = Table(
    "journal_chunks",
    metadata,
    Column("journal_id", Id, primary_key=True, autoincrement=False),
    Column("number", Count, primary_key=True, autoincrement=False),
    Column("kind", SmallInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("data", Blob, nullable=False),
    ForeignKeyConstraint(
        ["journal_id", "number"],
        ["journal_batches.journal_id", "journal_batches.number"],
        name="fk_journal_chunks_batch",
    ),
    **TABLE_OPTIONS,
)
