"""A database: its pool of connections, its transactions, its clock, and the file of SQLite."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, cast

import sqlalchemy
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    LargeBinary,
    String,
    and_,
    create_engine,
    event,
    func,
    literal,
    literal_column,
    select,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.stores.sql.database.failures import LOCKED_BY_ANOTHER, FileLostError, RetryableError, store_error
from flink_autoscaler.stores.sql.database.jdbc_url import translate

Dialect = Literal["sqlite", "postgresql", "mysql"]
T = TypeVar("T")

_SQLITE_PAGE: Final = 1 << 14
"""Bytes of a page of a new SQLite file: states are long, and take half the time in pages four times as large."""

_ATTEMPTS = 3
_STRICT = "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES'), time_zone = '+00:00'"
"""Without strictness MySQL cuts off what is too long instead of refusing it."""
_EPOCH_MS = {
    "sqlite": text("SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"),
    "postgresql": text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"),
    "mysql": text("SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)"),
}


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Address and options of a database.

    Attributes:
        url: As for JDBC or for SQLAlchemy; may hold credentials.
        username: Replaces the one in the URL.
        password: Replaces the one in the URL.
        pool_size: Connections at the same time.
        pool_timeout: Seconds to wait for a free connection.
        connect_timeout: Seconds to wait for a new connection.
        query_timeout: Seconds to wait for the answer to one statement, or for another writer.
    """

    url: str = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    pool_size: int = 10
    pool_timeout: float = 30.0
    connect_timeout: float = 10.0
    query_timeout: float = 30.0


class Fence(Protocol):
    """Keeps a daemon that is not the leader any more from writing.

    Called as the first statement of every transaction that writes, from any thread.
    """

    def check(self, connection: Connection) -> None:
        """Lock the lease, so that its token cannot change before the transaction ends.

        Raises:
            LeaseLostError: The token of this daemon is not the current one.
        """
        ...


class Database:
    """A pool of connections to one database. Connects when first used; safe to use from several threads.

    Every error of the database, its driver or the network is raised as a :class:`StoreError` that says what to do
    and shows no credentials.

    Args:
        settings: How it is reached.
        beside: Another pool of connections to the same database, if there is one: what is noticed about the file of
            SQLite is noticed by both.

    Raises:
        ConfigError: The URL cannot be used.
    """

    def __init__(self, settings: DatabaseSettings, *, beside: Database | None = None) -> None:
        url = translate(settings.url)
        has_login = url.get_backend_name() != "sqlite"  # a file has no users; a variable may be set nevertheless
        if has_login and settings.username is not None:
            url = url.set(username=settings.username)
        if has_login and settings.password is not None:
            url = url.set(password=settings.password)
        self.dialect: Dialect = cast("Dialect", url.get_backend_name())
        self.name = _safe_name(url)
        self._turns = threading.RLock()
        self._has_begun = False
        self._patience = settings.query_timeout
        self._file: SqliteFile | None = _file(url) if beside is None else beside._file
        self._engine = _make_engine(url, settings, self._file)

    @property
    def engine(self) -> Engine:
        """The engine underneath, for migrations and for counting statements."""
        return self._engine

    @property
    def file(self) -> Path | None:
        """Path of the SQLite file; None for other databases."""
        return None if self._file is None else self._file.path

    @contextmanager
    def transaction(self, *, read_only: bool = False) -> Iterator[Connection]:
        """Give a connection in one transaction, committed at the end and rolled back when anything is raised.

        Args:
            read_only: Only reads; does not wait for writers in SQLite.

        Raises:
            StoreError: The database failed; whether a commit under way took place is not known then.
        """
        try:
            with self._turn(read_only=read_only), self._connect() as connection:
                connection.execution_options(read_only=read_only)
                with connection.begin():
                    self._has_begun = self._has_begun or not read_only
                    yield connection
        except (SQLAlchemyError, OSError, ArithmeticError, TypeError, ValueError) as error:
            # The last three are what values raise that somebody else has put into rows, on their way to this process.
            raise store_error(error, self.name) from error

    def save_journal(self) -> None:
        """Move what is in a deleted journal of SQLite, which is still open, into the file. Does not fail."""
        if self._file is not None and self._file.is_journal_lost():
            with suppress(SQLAlchemyError, sqlite3.Error, StoreError), self._turn(read_only=False):
                self._checkpoint()

    def checkpoint(self) -> None:
        """Move what SQLite has in its journal into the main file, as far as readers allow. Does not fail.

        SQLite does so by itself only once the journal is large. Until then everything would be gone with the journal,
        also all tables of a new database.
        """
        # The next one makes up for one that could not be; whether the database works is found out by other means.
        if self.dialect == "sqlite":
            with suppress(SQLAlchemyError, sqlite3.Error, OSError, StoreError), self._turn(read_only=False):
                if self._file is not None:
                    self._file.check()
                self._checkpoint()

    def _checkpoint(self) -> None:
        with closing(self._engine.raw_connection()) as connection:
            cast("sqlite3.Connection", connection.driver_connection).execute("PRAGMA wal_checkpoint").fetchall()

    def _connect(self) -> Connection:
        if self._file is not None:
            self._file.check()
        try:
            return self._engine.connect()
        except FileLostError:
            raise
        except Exception as error:
            # Drivers raise nearly anything while they log in: about certificates, ciphers or missing libraries.
            raise store_error(error, self.name) from error

    @contextmanager
    def _turn(self, *, read_only: bool) -> Iterator[None]:
        """Let writers of SQLite queue here: there they would ask again and again, in growing intervals."""
        if read_only or self.dialect != "sqlite":
            yield
            return
        if not self._turns.acquire(timeout=self._patience):
            # Whoever has the turn may itself wait for the lock of the file, which somebody else has.
            own = "another writer of this process did not end in time"
            raise StoreError(f"{self.name}: {own if self._has_begun else LOCKED_BY_ANOTHER}")
        try:
            yield
        finally:
            self._has_begun = False
            self._turns.release()

    def run(self, work: Callable[[Connection], T], *, read_only: bool = False, fence: Fence | None = None) -> T:
        """Do something in one transaction, again when the database chose it as the victim of a deadlock.

        Args:
            work: May be called up to three times, each time in a new transaction.
            read_only: As for :meth:`transaction`.
            fence: Checked first in every transaction.

        Raises:
            LeaseLostError: The fence does not let it write.
            StoreError: As for :meth:`transaction`.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(RetryableError):
                return self._run(work, read_only, fence)
        return self._run(work, read_only, fence)

    def _run(self, work: Callable[[Connection], T], read_only: bool, fence: Fence | None) -> T:
        with self.transaction(read_only=read_only) as connection:
            if fence is not None:
                fence.check(connection)
            return work(connection)

    def ping(self) -> None:
        """Make sure that the database answers.

        Raises:
            StoreError: It does not.
        """
        self.run(lambda connection: connection.execute(select(literal(1))).scalar_one(), read_only=True)

    def now_ms(self, connection: Connection) -> int:
        """Return the epoch milliseconds of the database's clock."""
        return int(connection.execute(_EPOCH_MS[self.dialect]).scalar_one())

    def now(self, connection: Connection) -> datetime:
        """Return the database's clock as it is kept in columns: without a zone, in the time zone of this process."""
        return self.local_time(self.now_ms(connection) / 1000)

    def local_time(self, at: float) -> datetime:
        """Make a time for a column of an instant in epoch seconds.

        MySQL keeps whole seconds: it rounds where MariaDB cuts off, so the fraction is cut off here.
        """
        moment = datetime.fromtimestamp(at)
        return moment.replace(microsecond=0) if self.dialect == "mysql" else moment

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _safe_name(url: URL) -> str:
    """Name a database by kind and place, without credentials."""
    if url.get_backend_name() == "sqlite":
        return f"SQLite {url.database or ':memory:'}"
    host = url.host or ", ".join(url.normalized_query.get("host", ()))
    port = f":{url.port}" if url.port else ""
    kind = {"postgresql": "PostgreSQL", "mysql": "MySQL"}[url.get_backend_name()]
    return f"{kind} '{url.database or ''}' at {host}{port}"


def _file(url: URL) -> SqliteFile | None:
    """Return the file of a database; None where it has none, or one that is named in another way than by its path."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database.startswith("file:"):
        return None
    return SqliteFile(Path(url.database).absolute())


def _make_engine(url: URL, settings: DatabaseSettings, file: SqliteFile | None) -> Engine:
    """Make an engine whose connections are checked before use and never wait for ever.

    Args:
        url: With the login; the one of the settings does not count.
        settings: Pool and timeouts.
        file: Of SQLite, where it is watched.

    Raises:
        ConfigError: The driver is not installed.
    """
    backend = url.get_backend_name()
    options: dict[str, Any] = {} if backend == "sqlite" else {"isolation_level": "READ COMMITTED"}
    options |= {"pool_size": settings.pool_size, "pool_timeout": settings.pool_timeout}
    options |= {"max_overflow": 0, "pool_recycle": 1800, "pool_pre_ping": True}
    arguments = _arguments(url, settings)
    try:
        engine = create_engine(url, connect_args=arguments, hide_parameters=True, enable_from_linting=False, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError(f"the driver for this database is not installed: {error}") from error
    if backend == "sqlite":
        _prepare_sqlite(engine, file)
    elif backend == "postgresql":
        _prepare_postgresql(engine, settings.query_timeout)
    return engine


def _arguments(url: URL, settings: DatabaseSettings) -> dict[str, Any]:
    """Return what the driver is told besides the URL."""
    if url.get_backend_name() == "sqlite":
        return {"timeout": settings.query_timeout, "check_same_thread": False}
    timeout = math.ceil(settings.connect_timeout)
    if url.get_backend_name() == "postgresql":
        # libpq counts in whole seconds and takes less than two as two.
        return {"connect_timeout": max(2, timeout), "application_name": "flink-autoscaler"}
    # The driver itself would take only passwords in Latin-1.
    login = {} if url.password is None else {"password": str(url.password).encode("utf-8")}
    patience = {"read_timeout": settings.query_timeout, "write_timeout": settings.query_timeout}
    return {**login, **patience, "connect_timeout": max(1, timeout), "charset": "utf8mb4", "init_command": _STRICT}


def _prepare_sqlite(engine: Engine, file: SqliteFile | None) -> None:
    """Let SQLAlchemy begin transactions, and writing ones take the lock at once: upgrading it later may fail."""

    def do_connect(dialect: object, record: object, arguments: list[Any], parameters: dict[str, Any]) -> None:
        del dialect, record, arguments, parameters
        if file is not None:
            file.check()

    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None
        connection.text_factory = _decode
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA page_size = {_SQLITE_PAGE}")  # of a database that is to be made
        # Where the file or its folder is read-only, reading works without.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        if file is not None:
            file.opened()

    def closed(connection: sqlite3.Connection, _: object) -> None:
        del connection
        if file is not None:
            file.closed()

    def begin(connection: Connection) -> None:
        is_read_only = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if is_read_only else "BEGIN IMMEDIATE")

    event.listen(engine, "do_connect", do_connect)
    event.listen(engine, "connect", connected)
    event.listen(engine, "close", closed)
    event.listen(engine, "begin", begin)


def _decode(text: bytes) -> str:
    """Keep bytes that are not UTF-8, so that one damaged value does not hide the other rows."""
    return text.decode("utf-8", "surrogateescape")


def _prepare_postgresql(engine: Engine, query_timeout: float) -> None:
    # Imported here: the driver need not be installed for the other databases.
    from flink_autoscaler.stores.sql.database.bounded_postgresql import connect  # noqa: PLC0415

    def do_connect(dialect: object, record: object, arguments: list[Any], parameters: dict[str, Any]) -> object:
        del dialect, record, arguments
        return connect(query_timeout, parameters)

    event.listen(engine, "do_connect", do_connect)


def same_key(connection: Connection, column: Column[str], job_key: JobKey | ColumnElement[str]) -> ColumnElement[bool]:
    """Compare a job key to the letter."""
    return same_key_in(connection.dialect.name, column, job_key)


def same_key_in(dialect: str, column: Column[str], job_key: JobKey | ColumnElement[str]) -> ColumnElement[bool]:
    """Compare a job key to the letter, as SQLAlchemy's dialect of a name does.

    In MySQL a column of the Java process's own schema takes ``job`` and ``JOB``, and any column ``job`` and ``job``
    with a blank after it, for equal. The plain comparison stays for the index.
    """
    key = literal(job_key, String) if isinstance(job_key, str) else job_key
    plain = column == key
    if dialect not in ("mysql", "mariadb"):
        return plain
    stored = func.convert(column.op("USING")(literal_column("utf8mb4")))
    return and_(plain, sqlalchemy.cast(stored, LargeBinary) == sqlalchemy.cast(key, LargeBinary))


_SHARED: Final = ("-wal", "-shm")
"""What is there as long as anybody has the file open: the journal holds what is not in the file yet, and its index."""


class _Identity(NamedTuple):
    """Identity of a file, which tells it from another one with the same path."""

    device: int
    inode: int


class SqliteFile:
    """Notices that the file of a database is not the one any more that is open. Thread-safe.

    A process goes on with a file that was deleted or replaced as if nothing had happened; what it writes is gone with
    its end. Shared by all pools of connections to one file; checked before every transaction and every new connection,
    which would make an empty file where there is none.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._identity: _Identity | None = None
        self._beside: dict[str, _Identity] = {}
        self._connections = 0

    def opened(self) -> None:
        """Take note that somebody has connected: from now on it has to be this file."""
        with self._lock:
            self._connections += 1
        if self._identity is None:
            self._identity = self._find()
        self._learn_beside()

    def closed(self) -> None:
        """Take note that somebody disconnects. The last one has SQLite remove the journal."""
        with self._lock:
            self._connections -= 1
            if not self._connections:
                self._beside.clear()

    def check(self) -> None:
        """Make sure that the file and its journal are the ones that are open.

        Raises:
            FileLostError: One of them was deleted or replaced.
        """
        found = self._find()
        if found is None and self._identity is not None:
            raise FileLostError(
                f"SQLite {self.path}: its file was deleted or moved while it was in use, so nothing is written: put it"
                " back, or restart the daemon, which begins with an empty one"
            )
        if self._identity not in (None, found):
            raise FileLostError(
                f"SQLite {self.path}: its file was replaced by another one while it was in use, so nothing is written:"
                " restart the daemon to go on with the file that is there now, or put the one before back"
            )
        if lost := self._lost_beside():
            raise FileLostError(
                f"SQLite {self.path}: {' and '.join(lost)} beside its file was deleted or replaced while it was in use,"
                " so nothing is written: restart the daemon, which has saved what it could into the file itself"
            )
        self._learn_beside()

    def is_journal_lost(self) -> bool:
        """Tell whether the file is the one that is open, and its journal is gone and no other one is there yet."""
        is_same = self._identity is not None and self._find() == self._identity
        return is_same and bool(self._lost_beside()) and self._find(_SHARED[0]) is None

    def _lost_beside(self) -> list[str]:
        with self._lock:
            known = list(self._beside.items())
        return [f"{self.path.name}{suffix}" for suffix, identity in known if self._find(suffix) != identity]

    def _learn_beside(self) -> None:
        with self._lock:
            for suffix in _SHARED:
                # Only while somebody has it open is it sure to stay.
                if suffix not in self._beside and self._connections and (found := self._find(suffix)):
                    self._beside[suffix] = found

    def _find(self, suffix: str = "") -> _Identity | None:
        try:
            found = os.stat(f"{self.path}{suffix}")
        except OSError:
            return None
        return _Identity(found.st_dev, found.st_ino)
