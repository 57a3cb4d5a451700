"""What the Brain knows, in one SQL database: SQLite, PostgreSQL, or MariaDB and MySQL.

``database`` has the connection, ``tables`` the schema of this release, ``migrations`` how a database gets there. Everything else is
functions of a ``Database``, one module per subject, which the service calls from threads.
"""
