"""A database: its pool of connections, its transactions and its clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeVar, cast

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.database.engines import make_engine
from flink_autoscaler.stores.sql.database.failures import is_retryable, store_error
from flink_autoscaler.stores.sql.database.jdbc_url import translate

Dialect = Literal["sqlite", "postgresql", "mysql"]
T = TypeVar("T")

_ATTEMPTS = 3
_EPOCH_MS = {
    "sqlite": "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
    "postgresql": "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    "mysql": "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)",
}


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How a database is reached.

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


class Database:
    """A pool of connections to one database. Connects when first used; safe to use from several threads.

    Every error of the database, its driver or the network is raised as a :class:`StoreError` that says what to do
    and shows no credentials.

    Raises:
        ConfigError: The URL cannot be used.
    """

    def __init__(self, settings: DatabaseSettings) -> None:
        url = translate(settings.url)
        has_login = url.get_backend_name() != "sqlite"  # a file has no users; a variable may be set nevertheless
        if has_login and settings.username is not None:
            url = url.set(username=settings.username)
        if has_login and settings.password is not None:
            url = url.set(password=settings.password)
        self.dialect: Dialect = cast("Dialect", url.get_backend_name())
        self.name = _safe_name(url)
        self._turns = threading.RLock()
        self._patience = settings.query_timeout
        self._engine = make_engine(
            url,
            pool_size=settings.pool_size,
            pool_timeout=settings.pool_timeout,
            connect_timeout=settings.connect_timeout,
            query_timeout=settings.query_timeout,
        )

    @property
    def engine(self) -> Engine:
        """The engine underneath, for migrations and for counting statements."""
        return self._engine

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
                    yield connection
        except (SQLAlchemyError, OSError, UnicodeError) as error:
            raise store_error(error, self.name) from error

    def _connect(self) -> Connection:
        try:
            return self._engine.connect()
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
            raise StoreError(f"{self.name}: another writer of this process did not end in time")
        try:
            yield
        finally:
            self._turns.release()

    def run(self, work: Callable[[Connection], T], *, read_only: bool = False) -> T:
        """Do something in one transaction, again when the database chose it as the victim of a deadlock.

        Args:
            work: May be called up to three times, each time in a new transaction.
            read_only: As for :meth:`transaction`.

        Raises:
            StoreError: As for :meth:`transaction`.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                with self.transaction(read_only=read_only) as connection:
                    return work(connection)
            except StoreError as error:
                if not is_retryable(error):
                    raise
        with self.transaction(read_only=read_only) as connection:
            return work(connection)

    def now_ms(self, connection: Connection) -> int:
        """Return the epoch milliseconds of the database's clock."""
        return int(connection.execute(text(_EPOCH_MS[self.dialect])).scalar_one())

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
