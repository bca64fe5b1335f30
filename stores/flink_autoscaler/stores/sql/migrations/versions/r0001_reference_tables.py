"""The two tables of the Java process, with its names and types; those that it has made already are taken over."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, DateTime, Identity, Index, Integer, String, UniqueConstraint
from sqlalchemy.dialects.mysql import VARCHAR

from flink_autoscaler.stores.sql.columns import ID, LONG_TEXT, exact_key, exact_text, is_not_postgresql, text_or
from flink_autoscaler.stores.sql.migrations.creation import create_missing, table

revision = "0001"
down_revision = None

STATE = table(
    "t_flink_autoscaler_state_store",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("update_time", DateTime, nullable=False),
    Column("job_key", text_or(exact_text(191)), nullable=False),
    Column("state_type", text_or(VARCHAR(100)), nullable=False),
    Column("state_value", LONG_TEXT, nullable=False),
    UniqueConstraint("job_key", "state_type", name="un_job_state_type_inx").ddl_if(callable_=is_not_postgresql),
    UniqueConstraint("job_key", "state_type").ddl_if(dialect="postgresql"),
)
EVENTS = table(
    "t_flink_autoscaler_event_handler",
    Column("id", ID, Identity(always=True), primary_key=True),
    Column("create_time", DateTime, nullable=False),
    Column("update_time", DateTime, nullable=False),
    Column("job_key", exact_key(191), nullable=False),
    Column("reason", String(500).with_variant(VARCHAR(191), "mysql"), nullable=False),
    Column("event_type", String(100), nullable=False),
    Column("message", LONG_TEXT, nullable=False),
    Column("event_count", Integer, nullable=False),
    Column("event_key", String(100), nullable=False),
    Index("job_key_reason_event_key_idx", "job_key", "reason", "event_key"),
    Index("job_key_reason_create_time_idx", "job_key", "reason", "create_time"),
    sqlite_autoincrement=True,
)


def upgrade() -> None:
    """Create what is missing; never alter a column that the Java process uses."""
    create_missing(op.get_bind(), STATE, EVENTS)
