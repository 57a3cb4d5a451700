"""Clusters with their machines, quotas and grants, runs of algorithms, and journals of masters."""

from __future__ import annotations

from alembic import op
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
from pliant.brain.store.migrations.steps import add_missing_columns, create_missing

revision = "0002"
down_revision = "0001"

metadata = MetaData()
jobs = Table("jobs", metadata, Column("id", Id, primary_key=True))  # of 0001: others refer to it

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
    maybe_number("cpu"),
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


def upgrade() -> None:
    wants_all = Column("wants_all", Boolean, nullable=False, server_default=false())
    add_missing_columns(op.get_bind(), "jobs", [wants_all, count("samples_lost"), count("granted")])
    create_missing(op.get_bind(), metadata)
