"""Rows as the Java process and the daemon leave them in a database, for tests of what reads them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import EVENTS, STATE

NOON = datetime(2026, 1, 2, 12, 0, 0)
REFERENCE_DDL = Path(__file__).parents[3] / "fixtures" / "reference-ddl"


def an_event(job_key: str = "main/orders", **values: Any) -> dict[str, Any]:
    """Make the columns of an event, except for its id."""
    defaults = {
        "create_time": NOON,
        "update_time": NOON,
        "reason": "ScalingReport",
        "event_type": "Normal",
        "message": "what happened",
        "event_count": 1,
        "event_key": "key",
    }
    return {"job_key": job_key, **defaults, **values}


def write_events(database: Database, *rows: dict[str, Any]) -> list[int]:
    """Write events in one transaction; return their ids."""
    with database.transaction() as connection:
        return insert_events(connection, *rows)


def insert_events(connection: Connection, *rows: dict[str, Any]) -> list[int]:
    """Write events in a transaction under way; return their ids."""
    found = [connection.execute(EVENTS.insert().values(row)).inserted_primary_key for row in rows]
    return [int(key[0]) for key in found if key is not None]


def write_state(database: Database, job_key: str, **values: str) -> None:
    """Write state values by their type."""
    rows = [
        {"job_key": job_key, "state_type": state_type, "state_value": value, "update_time": NOON}
        for state_type, value in values.items()
    ]
    with database.transaction() as connection:
        connection.execute(STATE.insert(), rows)


def state_rows(database: Database) -> dict[tuple[str, str], str]:
    """Return all state values by job key and type."""
    with database.transaction(read_only=True) as connection:
        return {(row.job_key, row.state_type): row.state_value for row in connection.execute(STATE.select())}


def make_reference_schema(database: Database) -> None:
    """Create the two tables as the Java process's script does."""
    script = (REFERENCE_DDL / f"{database.dialect}.sql").read_text()
    with database.transaction() as connection:
        for statement in filter(str.strip, script.split(";")):
            connection.exec_driver_sql(statement)
