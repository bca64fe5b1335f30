"""The version of a database's schema: what it is, and how it becomes the one that this version needs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Inspector, inspect, text

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.migrations import OLDEST_WAY_BACK, REVISIONS, VERSION_TABLE
from flink_autoscaler.stores.sql.tables import METADATA

HEAD: Final = REVISIONS[-1]
LOCK_TIMEOUT: Final = 60.0

_LOCK_POLL: Final = 0.1
_REVISION: Final = re.compile(r"[\w, ]*\w")
# Any number will do that nobody else uses: PostgreSQL knows such locks by number, per database.
_POSTGRESQL_LOCK: Final = 0x666C_696E_6B61_7331
# MySQL knows them by name, for the whole server; 64 characters at most.
_MYSQL_LOCK: Final = "CONCAT('flink_autoscaler_schema_', MD5(DATABASE()))"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Revision of a database's schema, compared with the one that this version needs.

    Attributes:
        current: Its revision; None where there is none yet. Several, which alembic allows, are listed with commas;
            what is no revision is in quotes.
        head: The revision that this version needs.
        missing: Names of tables, and of columns as ``table.column``, that are not there.
    """

    current: str | None
    head: str
    missing: tuple[str, ...]

    @property
    def is_newer(self) -> bool:
        """True when this version does not know the schema's revision yet."""
        return not self.is_damaged and self.current is not None and self.current not in REVISIONS

    @property
    def is_damaged(self) -> bool:
        """True when the stored revision is no name of any."""
        return self.current is not None and _REVISION.fullmatch(self.current) is None

    @property
    def can_be_upgraded(self) -> bool:
        """True when an upgrade knows where to begin."""
        return not self.is_newer and not self.is_damaged

    @property
    def is_current(self) -> bool:
        """True when the daemon can use the schema."""
        return self.current == self.head and not self.missing

    @property
    def problem(self) -> str | None:
        """Problem, as a sentence without a full stop; None without any."""
        if self.is_newer:
            return (
                f"the schema has revision {self.current} and this version knows up to {self.head}: a newer"
                " flink-autoscaler has upgraded it; install that version, or have it go back with flink-autoscaler db"
                f" downgrade {self.head}, or restore a backup of the database"
            )
        if self.is_damaged:
            return (
                f"{VERSION_TABLE} holds {self.current} where the revision of the schema belongs: restore a backup of"
                " the database, or, if no newer version has worked with it, delete that row and run flink-autoscaler"
                " db upgrade"
            )
        if self.current is None:
            return f"there is no schema of flink-autoscaler yet (missing: {', '.join(self.missing) or VERSION_TABLE})"
        if self.current != self.head:
            return f"the schema has revision {self.current} and this version needs {self.head}"
        return f"the schema lacks {', '.join(self.missing)}" if self.missing else None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Schema before and after an upgrade or a downgrade."""

    before: SchemaStatus
    after: SchemaStatus


def status(database: Database) -> SchemaStatus:
    """Compare the schema with the one that is needed. Reads only.

    Raises:
        StoreError: The database could not be read.
    """
    with database.transaction(read_only=True) as connection:
        return _status(connection)


def upgrade(database: Database, *, lock_timeout: float = LOCK_TIMEOUT) -> SchemaChange:
    """Create and change what is missing; keeps all rows, and does nothing when the schema is current.

    Safe when several processes do it at the same time: one works, the others wait and find it done. In MySQL, where
    creating a table cannot be undone, an upgrade that was interrupted is finished by the next one.

    Args:
        database: The database.
        lock_timeout: Seconds to wait for another process that upgrades the same database. In SQLite it is the time
            that any writer waits for another.

    Raises:
        ConfigError: The schema is newer than this version, or of no revision that can be read.
        StoreError: The database failed or forbade it, a table with one of our names is something else, or another
            process has been upgrading for too long.
    """
    with _alone(database, lock_timeout) as connection:
        before = _status(connection)
        if not before.can_be_upgraded:
            raise ConfigError(before.problem)
        if before.is_current:
            return SchemaChange(before, before)
        _migrate(connection)
        after = _status(connection)
        if after.problem:
            raise StoreError(f"{after.problem}, which an upgrade cannot repair; restore a backup of the database")
        return SchemaChange(before, after)


def downgrade(database: Database, revision: str, *, lock_timeout: float = LOCK_TIMEOUT) -> SchemaChange:
    """Let an older version work with the database again; keeps all rows, and does nothing when it can already.

    What newer versions have added stays where it is, and counts again after the next upgrade.

    Args:
        database: The database.
        revision: The newest one that the older version knows.
        lock_timeout: As for :func:`upgrade`.

    Raises:
        ConfigError: There is no such revision, no way back to it, or the schema is not newer than it.
        StoreError: The database failed or forbade it, or another process has been upgrading for too long.
    """
    _require_way_back(revision)
    with _alone(database, lock_timeout) as connection:
        before = _status(connection)
        if not before.can_be_upgraded:
            raise ConfigError(before.problem)
        if before.current is None or before.current < revision:
            raise ConfigError(f"the schema has revision {before.current or 'none'}, which is older than {revision}")
        if before.current == revision:
            return SchemaChange(before, before)
        _run_migrations(connection, revision)
        return SchemaChange(before, _status(connection))


def require_current(database: Database, *, upgrades_at_start: bool | None = None) -> None:
    """Make sure that the daemon can work with the schema.

    Args:
        database: The database.
        upgrades_at_start: Whether to upgrade instead of complaining; None does so only in SQLite, where nobody else
            uses the file and no grants are needed.

    Raises:
        ConfigError: The schema is missing or older, and somebody has to upgrade it; or it is newer, or damaged.
        StoreError: The database could not be read.
    """
    found = status(database)
    if not found.can_be_upgraded:
        raise ConfigError(found.problem)
    if found.is_current:
        return
    if upgrades_at_start is None:
        upgrades_at_start = database.dialect == "sqlite"
    if not upgrades_at_start:
        raise ConfigError(f"{found.problem}; run flink-autoscaler db upgrade")
    upgrade(database)


def _status(connection: Connection) -> SchemaStatus:
    inspector = inspect(connection)
    return SchemaStatus(_revision(connection, inspector), HEAD, tuple(_missing(inspector)))


def _revision(connection: Connection, inspector: Inspector) -> str | None:
    if not inspector.has_table(VERSION_TABLE):
        return None
    found = connection.scalars(text(f"SELECT version_num FROM {VERSION_TABLE}")).all()  # noqa: S608 - a constant
    return ", ".join(sorted(map(_revision_name, found))) or None


def _revision_name(found: object) -> str:
    """Return a revision as it is, and anything else in quotes, so that it can be seen."""
    return found if isinstance(found, str) and _REVISION.fullmatch(found) else repr(found)


def _missing(inspector: Inspector) -> Iterator[str]:
    found = {
        table: {column["name"] for column in columns} for (_, table), columns in inspector.get_multi_columns().items()
    }
    for table in METADATA.sorted_tables:
        if table.name not in found:
            yield table.name
        else:
            yield from (f"{table.name}.{each.name}" for each in table.columns if each.name not in found[table.name])


def _require_way_back(revision: str) -> None:
    """Raise :class:`ConfigError` unless the schema can go back to a revision."""
    possible = [each for each in REVISIONS if each >= OLDEST_WAY_BACK]
    if revision not in possible:
        raise ConfigError(f"there is no way back to revision '{revision}', only to {', '.join(possible)}")


def _migrate(connection: Connection) -> None:
    _run_migrations(connection, "head")
    # A table that was dropped although the revision is the newest: without this, no upgrade would bring it back.
    METADATA.create_all(connection)


def _run_migrations(connection: Connection, target: str) -> None:
    """Run those from the present revision to another one, or to ``head``."""
    # Imported here: the daemon looks at the schema at every start and hardly ever changes it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "flink_autoscaler.stores.sql:migrations")
    (command.upgrade if target == "head" else command.downgrade)(config, target)


@contextmanager
def _alone(database: Database, timeout: float) -> Iterator[Connection]:
    """Give a connection in a transaction while no other process upgrades the same database."""
    if database.dialect == "mysql":
        # Two connections: creating a table commits, and the lock has to outlast the last commit.
        with database.transaction() as guard, _mysql_lock(guard, timeout), database.transaction() as connection:
            yield connection
        return
    # SQLite has one writer at a time anyway: a transaction that writes begins by waiting for the others.
    with database.transaction() as connection:
        if database.dialect == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            _wait_for(connection, f"SELECT pg_try_advisory_xact_lock({_POSTGRESQL_LOCK})", timeout)
        yield connection


@contextmanager
def _mysql_lock(connection: Connection, timeout: float) -> Iterator[None]:
    _wait_for(connection, f"SELECT GET_LOCK({_MYSQL_LOCK}, 0)", timeout)
    try:
        yield
    finally:
        connection.execute(text(f"SELECT RELEASE_LOCK({_MYSQL_LOCK})"))


def _wait_for(connection: Connection, lock: str, timeout: float) -> None:
    """Ask for a lock again and again: how long a statement may wait is up to the server and the driver."""
    deadline = time.monotonic() + timeout
    while not connection.scalar(text(lock)):
        if time.monotonic() > deadline:
            raise StoreError(f"another process has been upgrading the schema for {timeout:g} s; try again later")
        time.sleep(_LOCK_POLL)
