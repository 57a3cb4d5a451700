"""Jobs, their nodes, samples, periods and plans, and the lease of the active Brain."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
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
from pliant.brain.store.migrations.steps import create_missing

revision = "0001"
down_revision = None

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
    number("first_heard_at"),
    number("last_heard_at"),
    number("started_at"),
    number("ended_at"),
    Column("is_replaced", Boolean, nullable=False, server_default=false()),
    number("pruned_at"),
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
    Column("offer", Name, nullable=True),
    Column("plan", Name, nullable=True),
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


def upgrade() -> None:
    create_missing(op.get_bind(), metadata)
