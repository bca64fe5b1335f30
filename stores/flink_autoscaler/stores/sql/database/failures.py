"""What a database's errors mean, and what to do about them."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from flink_autoscaler.core.errors import StoreError

_LONGEST_TEXT = 300


class ConflictError(StoreError):
    """A row is there already: somebody else wrote it."""


class RetryableError(StoreError):
    """The database gave up this transaction in favour of another one; nothing was written."""


class LeaseLostError(StoreError):
    """Another daemon holds the lease by now; this one may not write or act any more."""


class LastingError(StoreError):
    """How the database is set up is wrong: waiting does not help, a person has to act."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What an error means, and how the databases tell it.

    Attributes:
        sqlstates: Of PostgreSQL, separated by blanks.
        numbers: Of MySQL and MariaDB.
        sqlite: Primary result codes.
        pattern: Found in the text of an error without a code that tells more; ignores case.
    """

    what_to_do: str
    error: type[StoreError] = StoreError
    sqlstates: str = ""
    numbers: tuple[int, ...] = ()
    sqlite: tuple[int, ...] = ()
    pattern: str = ""


_CONFLICT = _Meaning(
    "a row is there already: another process writes the same job", ConflictError, sqlstates="23505", numbers=(1062,)
)
_AWAY = _Meaning(
    "it cannot be reached or went away: check that it runs, and host and port in jdbc.url",
    sqlstates="57P01 57P02 57P03",
    numbers=(1053, 1927, 2002, 2003, 2006, 2013, 2055),
    pattern="connection refused|connection failed|lost connection|closed|starting up|shutting down",
)
_MEANINGS = (
    _CONFLICT,
    _Meaning(
        "another transaction was in the way (deadlock); it is tried again",
        RetryableError,
        sqlstates="40P01 40001",
        numbers=(1213, 1020),
    ),
    _Meaning(
        "it is read-only: connect to the primary, or make the file writable",
        sqlstates="25006",
        numbers=(1290, 1792, 1836),
        sqlite=(sqlite3.SQLITE_READONLY,),
    ),
    _Meaning(
        "its disk is full: free some space", sqlstates="53100", numbers=(1021, 1114), sqlite=(sqlite3.SQLITE_FULL,)
    ),
    _Meaning(
        "the user may not do this: grant SELECT, INSERT, UPDATE and DELETE on the tables",
        LastingError,
        sqlstates="42501",
        numbers=(1044, 1142, 1143),
    ),
    _Meaning(
        "a value is longer than its column or the largest packet allows",
        sqlstates="22001 54000",
        numbers=(1406, 1153),
        sqlite=(sqlite3.SQLITE_TOOBIG,),
    ),
    _Meaning(
        "another writer kept it locked for too long",
        sqlstates="55P03",
        numbers=(1205,),
        sqlite=(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED),
    ),
    _Meaning(
        "its file could not be read or written: check the disk and its free space", sqlite=(sqlite3.SQLITE_IOERR,)
    ),
    _Meaning(
        "its file cannot be opened: check the folder and its permissions",
        LastingError,
        sqlite=(sqlite3.SQLITE_CANTOPEN,),
    ),
    _Meaning(
        "its file is damaged or is not a database", LastingError, sqlite=(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    ),
    # Those with a pattern: the first one that is found counts.
    _Meaning(
        "user name or password is wrong: check jdbc.username and the password variable or file",
        LastingError,
        sqlstates="28P01 28000",
        numbers=(1045, 1698),
        pattern="password authentication failed|no password supplied|access denied for user|role .* does not exist",
    ),
    _Meaning(
        "the connection could not be secured: check the TLS parameters of jdbc.url and the server's certificate",
        pattern=r"(?-i:certificate|\bSSL\b|\bTLS\b)",
    ),
    _Meaning(
        "the database does not exist: create it, or correct jdbc.url",
        LastingError,
        sqlstates="3D000",
        numbers=(1049,),
        pattern='database "?.*"? does not exist|unknown database',
    ),
    _Meaning(
        "it has no free connection: raise its limit, or lower jdbc pool sizes",
        sqlstates="53300",
        numbers=(1040, 1203, 1226),
        pattern="too many clients|too many connections|remaining connection slots",
    ),
    _Meaning(
        "a table or column is missing: run 'flink-autoscaler db upgrade'",
        LastingError,
        sqlstates="42P01 42703 3F000",
        numbers=(1146, 1054),
        pattern="no such table|no such column|has no column named",
    ),
    _Meaning(
        "its host name is not known: check jdbc.url",
        pattern="could not translate host|failed to resolve|name or service not known|name resolution",
    ),
    _Meaning("it did not answer in time", sqlstates="57014", pattern="timed out|timeout expired"),
    _Meaning(
        "a text has characters that it does not take, such as NUL",
        sqlstates="22021 22P05",
        numbers=(1366,),
        pattern=r"NUL \(0x00\)|surrogates not allowed|embedded null",
    ),
    _AWAY,
)
_POSTGRESQL = {state: meaning for meaning in _MEANINGS for state in meaning.sqlstates.split()}
_MYSQL = {number: meaning for meaning in _MEANINGS for number in meaning.numbers}
_SQLITE = {code: meaning for meaning in _MEANINGS for code in meaning.sqlite}
_BY_TEXT = tuple((re.compile(meaning.pattern, re.IGNORECASE), meaning) for meaning in _MEANINGS if meaning.pattern)


def store_error(error: Exception, database: str) -> StoreError:
    """Make an error for the operator of one of SQLAlchemy, of a driver or of the network.

    Args:
        error: Its text is used as far as it is the driver's own; statements and values are left out.
        database: Name for the message, without credentials.
    """
    if isinstance(error, PoolTimeoutError):
        return StoreError(f"{database}: all connections of the pool are in use for too long")
    if isinstance(error, NoSuchModuleError | ModuleNotFoundError):
        return StoreError(f"{database}: its driver is not installed: {error}")
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    meaning = _meaning(error, original)
    text = " ".join(str(original).split())[:_LONGEST_TEXT]
    return meaning.error(f"{database}: {meaning.what_to_do} ({type(original).__name__}: {text})")


def is_lasting(error: StoreError) -> bool:
    """Tell whether an error is about how the database is set up, so that only a person can end it."""
    return isinstance(error, LastingError)


def _meaning(error: Exception, original: BaseException) -> _Meaning:
    known = _by_code(original)
    if known is not None and known is not _AWAY:
        return known
    if isinstance(error, IntegrityError) and "unique" in str(original).lower():
        return _CONFLICT
    # Many causes share the codes for a connection that failed; the text tells them apart.
    for pattern, meaning in _BY_TEXT:
        if pattern.search(str(original)):
            return meaning
    is_cut = isinstance(error, DBAPIError) and error.connection_invalidated
    return known or (_AWAY if is_cut else _Meaning("it refused"))


def _by_code(original: BaseException) -> _Meaning | None:
    """Return what the code of the driver's error means, if it has one that is known."""
    code = original.args[0] if original.args and isinstance(original.args[0], int) else None
    if code is not None and type(original).__module__.startswith("pymysql"):
        return _MYSQL.get(code)
    extended: int | None = getattr(original, "sqlite_errorcode", None)
    if extended is not None:
        return _SQLITE.get(extended & 0xFF)
    return _POSTGRESQL.get(getattr(original, "sqlstate", None) or "")
