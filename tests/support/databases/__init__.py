"""Real database servers for tests, on free loopback ports, with their data in temporary folders.

``databases.fixtures`` has the pytest fixtures: ``database_settings`` gives an empty database of each kind in turn,
``postgresql_server`` and ``mariadb_server`` the servers themselves, to be stopped and started. All tests share the
servers: whoever stops one starts it again. A test that does worse starts one of its own with ``PostgresqlServer()``
or ``MariadbServer()``.
"""

from databases.mariadb import MariadbServer
from databases.postgresql import PostgresqlServer
from databases.server import DatabaseServer, MissingServerError
from databases.tables import counting, create_tables, rows_of

__all__ = [
    "DatabaseServer",
    "MariadbServer",
    "MissingServerError",
    "PostgresqlServer",
    "counting",
    "create_tables",
    "rows_of",
]
