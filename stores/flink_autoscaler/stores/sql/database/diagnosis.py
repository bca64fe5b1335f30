"""Finds out whether a database is fit for the daemon, by trying."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Table, func, select, text

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.schema import status
from flink_autoscaler.stores.sql.tables import EVENTS, JOBS, LEASE, ORDERS, SET_ASIDE, STATE, TOMBSTONES

CLOCK_TOLERANCE: Final = 5.0
"""Seconds by which the clocks of this host and of the database may differ before it is worth a warning."""

_AHEAD: Final = timedelta(minutes=5)
_PROBE: Final = "flink-autoscaler db check"
_PROBED: Final = (STATE, EVENTS, JOBS, SET_ASIDE, LEASE, TOMBSTONES, ORDERS)
_VERSION = {"sqlite": "SELECT sqlite_version()", "postgresql": "SHOW server_version", "mysql": "SELECT VERSION()"}
# The inspector leaves out a collation that is the default of the table.
_COLLATION = (
    "SELECT COLLATION_NAME FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :table AND COLUMN_NAME = 'job_key'"
)


class Level(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check.

    Attributes:
        check: Its name, one or two words.
        text: For people; says what to do when it is not fine.
        facts: The same for programs.
    """

    check: str
    level: Level
    text: str
    facts: dict[str, Any]


Found = tuple[Level, str, dict[str, Any]]
"""A finding without its name."""


def diagnose(database: Database) -> Iterator[Finding]:
    """Yield one finding after the other; ends with the first error that makes the others pointless. Never raises.

    Nothing is changed: what is written to try it out is rolled back.
    """
    for check in (_connection, _schema):
        finding = _tried(check, database)
        yield finding
        if finding.level is Level.ERROR:
            return
    for check in (_clock, _time_zone, _writing, _job_keys, _contents, _set_aside):
        yield _tried(check, database)


def _tried(check: Callable[[Database], Found], database: Database) -> Finding:
    name = check.__name__.strip("_").replace("_", " ")
    try:
        return Finding(name, *check(database))
    except StoreError as error:
        return Finding(name, Level.ERROR, str(error), {})


def _connection(database: Database) -> Found:
    started = time.monotonic()
    with database.transaction(read_only=True) as connection:
        version = str(connection.scalar(text(_VERSION[database.dialect])))
    seconds = round(time.monotonic() - started, 4)
    told = f"{database.name}, {database.dialect} {version}, connected in {seconds * 1000:.0f} ms"
    facts = {"database": database.name, "dialect": database.dialect, "version": version, "seconds": seconds}
    return Level.OK, told, facts


def _schema(database: Database) -> Found:
    found = status(database)
    facts = {"current": found.current, "head": found.head, "missing": list(found.missing)}
    if found.problem is None:
        return Level.OK, f"revision {found.current}", facts
    remedy = "; run flink-autoscaler db upgrade" if found.can_be_upgraded else ""
    return Level.ERROR, found.problem + remedy, facts


def _clock(database: Database) -> Found:
    before = time.time()
    with database.transaction(read_only=True) as connection:
        there = database.now_ms(connection) / 1000
    # The answer is from some instant between the question and now.
    ahead = round(there - (before + time.time()) / 2, 3)
    facts = {"database_ahead_seconds": ahead}
    if abs(ahead) <= CLOCK_TOLERANCE:
        return Level.OK, f"the database's clock differs by {ahead:+.3f} s", facts
    told = (
        f"the database's clock differs by {ahead:+.1f} s from this host's: synchronise them, so that times make sense"
    )
    return Level.WARNING, told, facts


def _time_zone(database: Database) -> Found:
    """Look for rows from the future: all processes have to write the local time of one zone."""
    with database.transaction(read_only=True) as connection:
        now = database.now(connection)
        latest = max(
            (found for each in (STATE, EVENTS) if (found := connection.scalar(select(func.max(each.c.update_time))))),
            default=None,
        )
    zone = datetime.now().astimezone()
    facts = {"zone": zone.tzname(), "utc_offset_seconds": (zone.utcoffset() or timedelta()).total_seconds()}
    if latest is not None and latest > now + _AHEAD:
        told = (
            f"the newest row is of {latest:%Y-%m-%d %H:%M:%S}, which has not come yet in this process's time zone"
            f" ({zone.tzname()}): another process writes in another one; give all of them the same TZ"
        )
        return Level.WARNING, told, facts
    if zone.utcoffset():
        told = f"{zone.tzname()}; every process that shares the database needs the same; TZ=UTC never jumps"
        return Level.WARNING, told, facts
    return Level.OK, str(zone.tzname()), facts


def _writing(database: Database) -> Found:
    with database.transaction() as connection, connection.begin_nested() as trial:
        for table in _PROBED:
            _write_and_delete(connection, table, _probe(table, database.now(connection)))
        trial.rollback()
    return Level.OK, "rows can be inserted, updated and deleted in every table", {}


def _probe(table: Table, now: datetime) -> dict[str, Any]:
    """Make a row of whatever kind: it never outlives the transaction."""
    values = {str: _PROBE, int: 0, datetime: now}
    wanted = (column for column in table.columns if not column.nullable and column.name != "id")
    return {column.name: values[column.type.python_type] for column in wanted}


def _write_and_delete(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    key = "name" if "name" in row else "job_key"
    connection.execute(table.insert().values(row))
    connection.execute(table.update().where(table.c[key] == _PROBE).values({table.c[key]: _PROBE}))
    connection.execute(table.delete().where(table.c[key] == _PROBE))


def _job_keys(database: Database) -> Found:
    """Look at the collation of job keys: the Java process's script for MySQL makes them ignore case."""
    collation = None
    if database.dialect == "mysql":
        with database.transaction(read_only=True) as connection:
            collation = connection.scalar(text(_COLLATION), {"table": STATE.name})
    facts = {"collation": collation}
    if collation is None or not collation.endswith("_ci"):
        return Level.OK, "compared to the letter", facts
    told = f"compared by {collation}, so jobs whose names differ in case only cannot both be stored; rename one"
    return Level.WARNING, told, facts


def _contents(database: Database) -> Found:
    jobs = select(func.count(STATE.c.job_key.distinct()))
    events = select(func.count(), func.min(EVENTS.c.create_time)).select_from(EVENTS)
    with database.transaction(read_only=True) as connection:
        job_count = connection.scalar(jobs) or 0
        event_count, oldest = connection.execute(events).one()
    told = f"state of {job_count} jobs, {event_count} events" + (f" since {oldest:%Y-%m-%d}" if oldest else "")
    return Level.OK, told, {"jobs": job_count, "events": event_count}


def _set_aside(database: Database) -> Found:
    with database.transaction(read_only=True) as connection:
        count, newest = connection.execute(select(func.count(), func.max(SET_ASIDE.c.set_aside_at))).one()
    facts = {"set_aside": count}
    if not count:
        return Level.OK, "every value could be read", facts
    told = f"{count} values that could not be read are in {SET_ASIDE.name}, the last of {newest:%Y-%m-%d %H:%M:%S}"
    return Level.WARNING, told, facts
