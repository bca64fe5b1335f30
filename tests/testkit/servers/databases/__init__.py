"""Real database servers for tests, on free loopback ports, with their data in temporary folders.

``testkit.servers.databases.fixtures`` has the pytest fixtures: ``database_settings`` gives an empty database of each
kind in turn, ``postgresql_server`` and ``mariadb_server`` the servers themselves, to be stopped and started. All tests
share the servers: whoever stops one starts it again. A test that does worse starts one of its own with
``PostgresqlServer()`` or ``MariadbServer()``.
"""

from testkit.servers.databases.mariadb import MariadbServer
from testkit.servers.databases.postgresql import PostgresqlServer
from testkit.servers.databases.server import DatabaseServer, MissingServerError
from testkit.servers.databases.tables import counting, create_tables, rows_of

__all__ = [
    "DatabaseServer",
    "MariadbServer",
    "MissingServerError",
    "PostgresqlServer",
    "counting",
    "create_tables",
    "rows_of",
]
