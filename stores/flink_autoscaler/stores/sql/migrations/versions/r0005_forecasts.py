"""Load profiles of sources."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, Integer, SmallInteger, String

from flink_autoscaler.stores.sql.columns import LONG_TEXT, exact_key
from flink_autoscaler.stores.sql.migrations.creation import create_missing, table

revision = "0005"
down_revision = "0004"

META = table(
    "fa_forecast_meta",
    Column("job_key", exact_key(191), primary_key=True),
    Column("source_id", exact_key(191), primary_key=True),
    Column("asof_ms", BigInteger, nullable=False),
    Column("level", Double),
    Column("growth", Double),
    Column("weeks", Integer),
    Column("missing", Double),
    Column("wape", Double),
    Column("exceed", Double),
    Column("timezone", String(64)),
    Column("version", Integer, nullable=False),
    Column("problem", LONG_TEXT),
)
PROFILE = table(
    "fa_forecast_profile",
    Column("job_key", exact_key(191), primary_key=True),
    Column("source_id", exact_key(191), primary_key=True),
    Column("slot", SmallInteger, primary_key=True, autoincrement=False),
    Column("q50", Double, nullable=False),
    Column("q90", Double, nullable=False),
    Column("weeks", Integer, nullable=False),
)


def upgrade() -> None:
    """Create the tables."""
    create_missing(op.get_bind(), META, PROFILE)
