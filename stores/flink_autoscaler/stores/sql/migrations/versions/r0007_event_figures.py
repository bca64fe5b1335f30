"""The numbers behind events and scaling reports, beside the table that the Java process reads."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, Index, Integer, SmallInteger, String

from flink_autoscaler.stores.sql.columns import LONG_TEXT, exact_key
from flink_autoscaler.stores.sql.migrations.creation import create_missing, table

revision = "0007"
down_revision = "0006"

SCALINGS = table(
    "fa_scaling",
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("vertex_id", exact_key(191), primary_key=True),
    Column("job_key", exact_key(191), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("is_executed", SmallInteger, nullable=False),
    Column("vertex_name", LONG_TEXT, nullable=False),
    Column("current_parallelism", Integer, nullable=False),
    Column("new_parallelism", Integer, nullable=False),
    Column("capacity", Double),
    Column("expected_capacity", Double),
    Column("target_rate", Double),
    Index("fa_scaling_job_key_at_idx", "job_key", "at_ms"),
)
FIGURES = table(
    "fa_event_figure",
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String(100), primary_key=True),
    Column("value", Double),
)


def upgrade() -> None:
    """Create the tables; events that are there have no figures."""
    create_missing(op.get_bind(), SCALINGS, FIGURES)
