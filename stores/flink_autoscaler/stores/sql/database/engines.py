"""Engines: how each kind of database is connected to, so that all behave alike."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchModuleError

from flink_autoscaler.core.errors import ConfigError

_STRICT = "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES'), time_zone = '+00:00'"
"""Without strictness MySQL cuts off what is too long instead of refusing it."""


def make_engine(
    url: URL, *, pool_size: int, pool_timeout: float, connect_timeout: float, query_timeout: float
) -> Engine:
    """Make an engine whose connections are checked before use and never wait for ever.

    Raises:
        ConfigError: The driver is not installed.
    """
    backend = url.get_backend_name()
    arguments = _ARGUMENTS[backend](connect_timeout, query_timeout)
    if backend == "mysql" and url.password is not None:
        # The driver itself would take only passwords in Latin-1.
        arguments["password"] = str(url.password).encode("utf-8")
    options: dict[str, Any] = {} if backend == "sqlite" else {"isolation_level": "READ COMMITTED"}
    options |= {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": pool_timeout, "pool_recycle": 1800}
    try:
        engine = create_engine(
            url, connect_args=arguments, pool_pre_ping=True, hide_parameters=True, enable_from_linting=False, **options
        )
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError(f"the driver for this database is not installed: {error}") from error
    _PREPARE[backend](engine, query_timeout)
    return engine


def _sqlite_arguments(connect_timeout: float, query_timeout: float) -> dict[str, Any]:
    del connect_timeout
    return {"timeout": query_timeout, "check_same_thread": False}


def _postgresql_arguments(connect_timeout: float, query_timeout: float) -> dict[str, Any]:
    del query_timeout
    # libpq counts in whole seconds and takes less than two as two.
    return {"connect_timeout": max(2, math.ceil(connect_timeout)), "application_name": "flink-autoscaler"}


def _mysql_arguments(connect_timeout: float, query_timeout: float) -> dict[str, Any]:
    return {
        "connect_timeout": max(1, math.ceil(connect_timeout)),
        "read_timeout": query_timeout,
        "write_timeout": query_timeout,
        "charset": "utf8mb4",
        "init_command": _STRICT,
    }


def _prepare_sqlite(engine: Engine, query_timeout: float) -> None:
    """Let SQLAlchemy begin transactions, and writing ones take the lock at once: upgrading it later may fail."""
    del query_timeout

    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None
        connection.text_factory = _decode
        connection.execute("PRAGMA foreign_keys = ON")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # The file or its folder is read-only: reading works without.
            return

    def begin(connection: Connection) -> None:
        is_read_only = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if is_read_only else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
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


def _prepare_mysql(engine: Engine, query_timeout: float) -> None:
    """Nothing: the driver keeps its own deadlines."""
    del engine, query_timeout


_ARGUMENTS: Mapping[str, Callable[[float, float], dict[str, Any]]] = {
    "sqlite": _sqlite_arguments,
    "postgresql": _postgresql_arguments,
    "mysql": _mysql_arguments,
}
_PREPARE: Mapping[str, Callable[[Engine, float], None]] = {
    "sqlite": _prepare_sqlite,
    "postgresql": _prepare_postgresql,
    "mysql": _prepare_mysql,
}
