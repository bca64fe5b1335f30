"""What a database's errors mean, and what to do about them."""

from __future__ import annotations

import re
import sqlite3
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from flink_autoscaler.core.errors import StoreError

_LONGEST_TEXT = 300


class ConflictError(StoreError):
    """A row is there already: somebody else wrote it."""


class RetryableError(StoreError):
    """The database gave up this transaction in favour of another one; nothing was written."""


class LastingError(StoreError):
    """How the database is set up is wrong: waiting does not help, a person has to act."""


class _Meaning(NamedTuple):
    what_to_do: str
    error: type[StoreError] = StoreError


_DEADLOCK = _Meaning("another transaction was in the way (deadlock); it is tried again", RetryableError)
_CONFLICT = _Meaning("a row is there already: another process writes the same job", ConflictError)
_NO_TABLE = _Meaning("a table or column is missing: run 'flink-autoscaler db upgrade'", LastingError)
_PASSWORD = _Meaning(
    "user name or password is wrong: check jdbc.username and the password variable or file", LastingError
)
_NO_DATABASE = _Meaning("the database does not exist: create it, or correct jdbc.url", LastingError)
_READ_ONLY = _Meaning("it is read-only: connect to the primary, or make the file writable")
_FULL = _Meaning("its disk is full: free some space")
_DENIED = _Meaning("the user may not do this: grant SELECT, INSERT, UPDATE and DELETE on the tables", LastingError)
_TOO_LONG = _Meaning("a value is longer than its column or the largest packet allows")
_BUSY = _Meaning("another writer kept it locked for too long")
_SLOW = _Meaning("it did not answer in time")
_TOO_MANY = _Meaning("it has no free connection: raise its limit, or lower jdbc pool sizes")
_AWAY = _Meaning("it cannot be reached or went away: check that it runs, and host and port in jdbc.url")
_HOST = _Meaning("its host name is not known: check jdbc.url")
_TLS = _Meaning(
    "the connection could not be secured: check the TLS parameters of jdbc.url and the server's certificate"
)
_BAD_TEXT = _Meaning("a text has characters that it does not take, such as NUL")
_DAMAGED = _Meaning("its file is damaged or is not a database", LastingError)

_POSTGRESQL = {
    "40P01": _DEADLOCK,
    "40001": _DEADLOCK,
    "23505": _CONFLICT,
    "42P01": _NO_TABLE,
    "42703": _NO_TABLE,
    "3F000": _NO_TABLE,
    "28P01": _PASSWORD,
    "28000": _PASSWORD,
    "3D000": _NO_DATABASE,
    "25006": _READ_ONLY,
    "53100": _FULL,
    "42501": _DENIED,
    "22001": _TOO_LONG,
    "54000": _TOO_LONG,
    "55P03": _BUSY,
    "57014": _SLOW,
    "53300": _TOO_MANY,
    "57P01": _AWAY,
    "57P02": _AWAY,
    "57P03": _AWAY,
    "22021": _BAD_TEXT,
    "22P05": _BAD_TEXT,
}
_MYSQL = {
    1213: _DEADLOCK,
    1020: _DEADLOCK,
    1062: _CONFLICT,
    1146: _NO_TABLE,
    1054: _NO_TABLE,
    1045: _PASSWORD,
    1698: _PASSWORD,
    1049: _NO_DATABASE,
    1044: _DENIED,
    1142: _DENIED,
    1143: _DENIED,
    1290: _READ_ONLY,
    1792: _READ_ONLY,
    1836: _READ_ONLY,
    1021: _FULL,
    1114: _FULL,
    1406: _TOO_LONG,
    1153: _TOO_LONG,
    1205: _BUSY,
    1040: _TOO_MANY,
    1203: _TOO_MANY,
    1226: _TOO_MANY,
    1366: _BAD_TEXT,
    1053: _AWAY,
    1927: _AWAY,
    2002: _AWAY,
    2003: _AWAY,
    2006: _AWAY,
    2013: _AWAY,
    2055: _AWAY,
}
_SQLITE = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: _Meaning("its file could not be read or written: check the disk and its free space"),
    sqlite3.SQLITE_CANTOPEN: _Meaning("its file cannot be opened: check the folder and its permissions", LastingError),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_TOOBIG: _TOO_LONG,
}
_BY_TEXT = (
    (
        re.compile(r"password authentication failed|no password supplied|access denied for user", re.IGNORECASE),
        _PASSWORD,
    ),
    (re.compile(r"certificate|\bSSL\b|\bTLS\b"), _TLS),
    (re.compile(r"database \"?.*\"? does not exist|unknown database", re.IGNORECASE), _NO_DATABASE),
    (re.compile(r"role \"?.*\"? does not exist", re.IGNORECASE), _PASSWORD),
    (re.compile(r"too many clients|too many connections|remaining connection slots", re.IGNORECASE), _TOO_MANY),
    (re.compile(r"no such table|no such column|has no column named", re.IGNORECASE), _NO_TABLE),
    (
        re.compile(
            r"could not translate host|failed to resolve|name or service not known|name resolution", re.IGNORECASE
        ),
        _HOST,
    ),
    (re.compile(r"timed out|timeout expired", re.IGNORECASE), _SLOW),
    (re.compile(r"NUL \(0x00\)|surrogates not allowed|embedded null", re.IGNORECASE), _BAD_TEXT),
    (
        re.compile(
            r"connection refused|connection failed|lost connection|closed|starting up|shutting down", re.IGNORECASE
        ),
        _AWAY,
    ),
)


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


def is_retryable(error: StoreError) -> bool:
    """Tell whether nothing was written and the same may work right away."""
    return isinstance(error, RetryableError)


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
