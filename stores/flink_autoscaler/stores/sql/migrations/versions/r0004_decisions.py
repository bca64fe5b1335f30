"""Recorded passes over jobs."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Index, String

from flink_autoscaler.stores.sql.columns import ID, LONG_TEXT, exact_key
from flink_autoscaler.stores.sql.migrations.creation import create_missing, table

revision = "0004"
down_revision = "0003"

DECISIONS = table(
    "fa_decision",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("job_key", exact_key(191), nullable=False),
    Column("cluster", String(191), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("phase", String(40), nullable=False),
    Column("decision", String(20), nullable=False),
    Column("writer", String(191), nullable=False),
    Column("record", LONG_TEXT, nullable=False),
    Index("fa_decision_job_key_at_idx", "job_key", "at_ms"),
    Index("fa_decision_at_idx", "at_ms"),
)


def upgrade() -> None:
    """Create the table."""
    create_missing(op.get_bind(), DECISIONS)
