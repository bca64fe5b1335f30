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
_VERSION = {"sqlite": "SELECT sqlite_version()", "postgresql": "SHOW server_version", "mysql": "SELECT VERSION()"}
# The inspector leaves out a collation that is the default of the table.
_COLLATION = (
    "SELECT COLLATION_NAME FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :table AND COLUMN_NAME = 'job_key'"
)


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its name, one or two words.
        text: For people; says what to do when it is not fine.
        facts: The same for programs.
    """

    check: str
    level: Level
    text: str
    facts: dict[str, Any]


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


def _tried(check: Callable[[Database], Finding], database: Database) -> Finding:
    try:
        return check(database)
    except StoreError as error:
        return Finding(check.__name__.strip("_").replace("_", " "), Level.ERROR, str(error), {})


def _connection(database: Database) -> Finding:
    started = time.monotonic()
    with database.transaction(read_only=True) as connection:
        version = str(connection.scalar(text(_VERSION[database.dialect])))
    seconds = round(time.monotonic() - started, 4)
    told = f"{database.name}, {database.dialect} {version}, connected in {seconds * 1000:.0f} ms"
    facts = {"database": database.name, "dialect": database.dialect, "version": version, "seconds": seconds}
    return Finding("connection", Level.OK, told, facts)


def _schema(database: Database) -> Finding:
    found = status(database)
    facts = {"current": found.current, "head": found.head, "missing": list(found.missing)}
    if found.problem is None:
        return Finding("schema", Level.OK, f"revision {found.current}", facts)
    remedy = "" if found.is_newer else "; run flink-autoscaler db upgrade"
    return Finding("schema", Level.ERROR, found.problem + remedy, facts)


def _clock(database: Database) -> Finding:
    before = time.time()
    with database.transaction(read_only=True) as connection:
        there = database.now_ms(connection) / 1000
    # The answer is from some instant between the question and now.
    ahead = round(there - (before + time.time()) / 2, 3)
    facts = {"database_ahead_seconds": ahead}
    if abs(ahead) <= CLOCK_TOLERANCE:
        return Finding("clock", Level.OK, f"the database's clock differs by {ahead:+.3f} s", facts)
    told = (
        f"the database's clock differs by {ahead:+.1f} s from this host's: synchronise them, so that times make sense"
    )
    return Finding("clock", Level.WARNING, told, facts)


def _time_zone(database: Database) -> Finding:
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
        return Finding("time zone", Level.WARNING, told, facts)
    if zone.utcoffset():
        told = f"{zone.tzname()}; every process that shares the database needs the same; TZ=UTC never jumps"
        return Finding("time zone", Level.WARNING, told, facts)
    return Finding("time zone", Level.OK, str(zone.tzname()), facts)


def _writing(database: Database) -> Finding:
    with database.transaction() as connection, connection.begin_nested() as trial:
        for table, row in _probe_rows(database.now(connection)):
            _write_and_delete(connection, table, row)
        trial.rollback()
    return Finding("writing", Level.OK, "rows can be inserted, updated and deleted in every table", {})


def _probe_rows(now: datetime) -> Iterator[tuple[Table, dict[str, Any]]]:
    job = {"job_key": _PROBE}
    yield STATE, {**job, "state_type": _PROBE, "state_value": "", "update_time": now}
    event = {"reason": _PROBE, "event_type": "Normal", "message": "", "event_count": 1, "event_key": ""}
    yield EVENTS, {**job, **event, "create_time": now, "update_time": now}
    yield JOBS, {**job, "cluster": "", "writer": "", "updated_at": now}
    yield SET_ASIDE, {**job, "state_type": "", "state_value": "", "problem": "", "set_aside_at": now}
    yield LEASE, {"name": _PROBE, "owner": "", "token": 0, "expires_at": 0, "renewed_at": 0}
    yield TOMBSTONES, {**job, "cluster": "", "gone_at_ms": 0}
    yield ORDERS, {**job, "cluster": "", "orders": "{}", "version": 0}


def _write_and_delete(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    key = "name" if "name" in row else "job_key"
    connection.execute(table.insert().values(row))
    connection.execute(table.update().where(table.c[key] == _PROBE).values({table.c[key]: _PROBE}))
    connection.execute(table.delete().where(table.c[key] == _PROBE))


def _job_keys(database: Database) -> Finding:
    """Look at the collation of job keys: the Java process's script for MySQL makes them ignore case."""
    collation = None
    if database.dialect == "mysql":
        with database.transaction(read_only=True) as connection:
            collation = connection.scalar(text(_COLLATION), {"table": STATE.name})
    facts = {"collation": collation}
    if collation is None or not collation.endswith("_ci"):
        return Finding("job keys", Level.OK, "compared to the letter", facts)
    told = f"compared by {collation}, so jobs whose names differ in case only cannot both be stored; rename one"
    return Finding("job keys", Level.WARNING, told, facts)


def _contents(database: Database) -> Finding:
    jobs = select(func.count(STATE.c.job_key.distinct()))
    events = select(func.count(), func.min(EVENTS.c.create_time)).select_from(EVENTS)
    with database.transaction(read_only=True) as connection:
        job_count = connection.scalar(jobs) or 0
        event_count, oldest = connection.execute(events).one()
    told = f"state of {job_count} jobs, {event_count} events" + (f" since {oldest:%Y-%m-%d}" if oldest else "")
    return Finding("contents", Level.OK, told, {"jobs": job_count, "events": event_count})


def _set_aside(database: Database) -> Finding:
    with database.transaction(read_only=True) as connection:
        count, newest = connection.execute(select(func.count(), func.max(SET_ASIDE.c.set_aside_at))).one()
    facts = {"set_aside": count}
    if not count:
        return Finding("set aside", Level.OK, "every value could be read", facts)
    told = f"{count} values that could not be read are in {SET_ASIDE.name}, the last of {newest:%Y-%m-%d %H:%M:%S}"
    return Finding("set aside", Level.WARNING, told, facts)
