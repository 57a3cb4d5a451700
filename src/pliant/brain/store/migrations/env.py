"""What Alembic runs: ``migrating.migrate`` passes the connection, there is no configuration file."""

from __future__ import annotations

from alembic import context

from pliant.brain.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=context.config.attributes["is_transactional"],
    version_table="schema_revision",
)
with context.begin_transaction():
    context.run_migrations()
