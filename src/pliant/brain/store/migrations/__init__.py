"""How a database of an earlier release gets the tables of this one: Alembic revisions in ``versions``, run by ``migrating``."""
