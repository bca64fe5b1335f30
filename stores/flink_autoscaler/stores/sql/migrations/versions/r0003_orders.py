"""Operator commands for jobs."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Index

from flink_autoscaler.stores.sql.columns import LONG_TEXT, exact_key
from flink_autoscaler.stores.sql.migrations.creation import create_missing, table

revision = "0003"
down_revision = "0002"

ORDERS = table(
    "fa_order",
    Column("job_key", exact_key(191), primary_key=True),
    Column("cluster", exact_key(191), nullable=False),
    Column("orders", LONG_TEXT, nullable=False),
    Column("version", BigInteger, nullable=False),
    Index("fa_order_cluster_version_idx", "cluster", "version"),
)


def upgrade() -> None:
    """Create the table."""
    create_missing(op.get_bind(), ORDERS)
