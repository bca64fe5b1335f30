"""Real database servers for tests, on free loopback ports, with their data in temporary folders.

``testkit.servers.databases.fixtures`` has the pytest fixtures: ``database_settings`` gives an empty SQLite file, and a
test or class marked ``@every_database`` an empty database of each kind in turn, ``postgresql_server`` and
``mariadb_server`` the servers themselves, to be stopped and started. All tests share the servers: whoever stops one
starts it again. A test that does worse starts one of its own with ``PostgresqlServer()`` or ``MariadbServer()``.

Contracts are for every database, and what rests on how one locks, compares, counts time, measures texts or changes
tables. What our own code makes of rows is tried with SQLite alone.
"""

import pytest

from testkit.servers.databases.mariadb import MariadbServer
from testkit.servers.databases.postgresql import PostgresqlServer
from testkit.servers.databases.server import DatabaseServer, MissingServerError
from testkit.servers.databases.tables import counting, create_tables, rows_of

every_database = pytest.mark.every_database

__all__ = [
    "DatabaseServer",
    "MariadbServer",
    "MissingServerError",
    "PostgresqlServer",
    "counting",
    "create_tables",
    "every_database",
    "rows_of",
]
