"""Errors of databases: their meaning, and the remedy."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from flink_autoscaler.core.errors import StoreError

LOCKED_BY_ANOTHER: Final = (
    "another program keeps its file locked: end what it does, such as an open transaction of the sqlite3 shell or a"
    " backup (lsof shows who has the file open)"
)

_LONGEST_TEXT = 300


class ConflictError(StoreError):
    """A row is there already: somebody else wrote it."""


class RetryableError(StoreError):
    """The database gave up this transaction in favour of another one; nothing was written."""


class LeaseLostError(StoreError):
    """Another daemon holds the lease by now; this one may not write or act any more."""


class RowError(StoreError):
    """A value of one row is the cause: the database works, and other rows can be read and written."""


class FileLostError(StoreError):
    """The file of the database is not the one any more that is open."""


class LastingError(StoreError):
    """The set-up of the database is wrong: waiting does not help, a person has to act."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    """Meaning of an error, and the codes by which databases report it.

    Attributes:
        codes: States of PostgreSQL, numbers of MySQL and MariaDB, names of SQLite; no two are the same.
        pattern: Found in the text of an error whose code does not tell; ignores case.
    """

    what_to_do: str
    error: type[StoreError] = StoreError
    codes: str = ""
    pattern: str = ""


_CONFLICT = _Meaning("a row is there already: another process writes the same job", ConflictError, "23505 1062")
_AWAY = _Meaning(
    "it cannot be reached or went away: check that it runs, and host and port in jdbc.url",
    codes="57P01 57P02 57P03 1053 1927 2002 2003 2006 2013 2055",
    pattern="connection refused|connection failed|lost connection|closed|starting up|shutting down",
)
_MEANINGS = (
    _CONFLICT,
    _Meaning(
        "another transaction was in the way (deadlock); it is tried again", RetryableError, "40P01 40001 1213 1020"
    ),
    _Meaning(
        "it is read-only: connect to the primary, or make the file writable",
        codes="25006 1290 1792 1836 SQLITE_READONLY",
    ),
    _Meaning("its disk is full: free some space", codes="53100 1021 1114 SQLITE_FULL"),
    _Meaning(
        "the user may not do this: grant SELECT, INSERT, UPDATE and DELETE on the tables",
        LastingError,
        "42501 1044 1142 1143",
    ),
    _Meaning(
        "a value is longer than its column or the largest packet allows",
        RowError,
        "22001 54000 1406 1153 SQLITE_TOOBIG",
    ),
    _Meaning("another writer kept it locked for too long", codes="55P03 1205"),
    # Writers of one process queue before they ask for the lock.
    _Meaning(LOCKED_BY_ANOTHER, codes="SQLITE_BUSY SQLITE_LOCKED"),
    _Meaning("its file could not be read or written: check the disk and its free space", codes="SQLITE_IOERR"),
    _Meaning("its file cannot be opened: check the folder and its permissions", LastingError, "SQLITE_CANTOPEN"),
    _Meaning("its file is damaged or is not a database", LastingError, "SQLITE_CORRUPT SQLITE_NOTADB"),
    # Of those with a pattern the first one that is found counts.
    _Meaning(
        "user name or password is wrong: check jdbc.username and the password variable or file",
        LastingError,
        "28P01 28000 1045 1698",
        "password authentication failed|no password supplied|access denied for user|"
        'role "?[^"]{1,128}"? does not exist',
    ),
    _Meaning(
        "the connection could not be secured: check the TLS parameters of jdbc.url and the server's certificate",
        pattern=r"(?-i:certificate|\bSSL\b|\bTLS\b)",
    ),
    _Meaning(
        "the database does not exist: create it, or correct jdbc.url",
        LastingError,
        "3D000 1049",
        'database "?[^"]{1,128}"? does not exist|unknown database',
    ),
    _Meaning(
        "it has no free connection: raise its limit, or lower jdbc pool sizes",
        codes="53300 1040 1203 1226",
        pattern="too many clients|too many connections|remaining connection slots",
    ),
    _Meaning(
        "a table or column is missing: run 'flink-autoscaler db upgrade'",
        LastingError,
        "42P01 42703 3F000 1146 1054",
        "no such table|no such column|has no column named",
    ),
    _Meaning(
        "its host name is not known: check jdbc.url",
        pattern="could not translate host|failed to resolve|name or service not known|name resolution",
    ),
    _Meaning("it did not answer in time", codes="57014", pattern="timed out|timeout expired"),
    _Meaning(
        "a text has characters that it does not take, such as NUL",
        RowError,
        "22021 22P05 1366",
        r"NUL \(0x00\)|surrogates not allowed|embedded null",
    ),
    _AWAY,
)
_BY_CODE = {str(getattr(sqlite3, code, code)): meaning for meaning in _MEANINGS for code in meaning.codes.split()}
_BY_TEXT = tuple((re.compile(meaning.pattern, re.IGNORECASE), meaning) for meaning in _MEANINGS if meaning.pattern)


def store_error(error: Exception, database: str) -> StoreError:
    """Make an error for the operator of one of SQLAlchemy, of a driver or of the network.

    Args:
        error: Its text is used as far as it is the driver's own; statements and values are left out.
        database: Name for the message, without credentials.
    """
    if isinstance(error, PoolTimeoutError):
        return StoreError(f"{database}: all connections of the pool are in use for too long")
    if isinstance(error, ArithmeticError | TypeError | ValueError) and not isinstance(error, UnicodeError):
        text = f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
        return RowError(f"{database}: a value is not what belongs into its column ({text})")
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
    is_about_values = isinstance(error, IntegrityError | DataError)
    return known or (_AWAY if is_cut else _Meaning("it refused", RowError if is_about_values else StoreError))


def _by_code(original: BaseException) -> _Meaning | None:
    """Return what the code of the driver's error means, if it has one that is known."""
    if type(original).__module__.startswith("pymysql"):
        return _BY_CODE.get(str(original.args[0])) if original.args else None
    extended: int | None = getattr(original, "sqlite_errorcode", None)
    if extended is not None:
        return _BY_CODE.get(str(extended & 0xFF))
    return _BY_CODE.get(getattr(original, "sqlstate", None) or "")
