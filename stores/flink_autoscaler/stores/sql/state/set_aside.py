"""State values that could not be read: kept, so that somebody can look at them or repair them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert, literal, select
from sqlalchemy.types import DateTime, String

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.stores.sql.database.conditions import same_key
from flink_autoscaler.stores.sql.tables import SET_ASIDE, STATE

_PROBLEM_LENGTH = 500


def keep_original(connection: Connection, job_key: JobKey, state_type: str, *, problem: str, now: datetime) -> None:
    """Copy a stored value to the letter before it is replaced. It does not pass through this process."""
    original = select(
        STATE.c.job_key,
        STATE.c.state_type,
        STATE.c.state_value,
        literal(problem[:_PROBLEM_LENGTH], String),
        literal(now, DateTime),
    ).where(same_key(connection, STATE.c.job_key, job_key), STATE.c.state_type == state_type)
    columns = ["job_key", "state_type", "state_value", "problem", "set_aside_at"]
    connection.execute(insert(SET_ASIDE).from_select(columns, original))
