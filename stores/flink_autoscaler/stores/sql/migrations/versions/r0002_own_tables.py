"""Our own tables: jobs, values set aside, the lease, and jobs that are gone."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, DateTime, Index, String

from flink_autoscaler.stores.sql.columns import ID, LONG_TEXT, exact_key
from flink_autoscaler.stores.sql.migrations.creation import create_missing, table

revision = "0002"
down_revision = "0001"

JOBS = table(
    "fa_job",
    Column("job_key", exact_key(191), primary_key=True),
    Column("cluster", String(191), nullable=False),
    Column("job_id", String(100)),
    Column("own_state", LONG_TEXT),
    Column("writer", String(191), nullable=False),
    Column("updated_at", DateTime, nullable=False),
)
SET_ASIDE = table(
    "fa_set_aside",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("job_key", exact_key(191), nullable=False),
    Column("state_type", String(100), nullable=False),
    Column("state_value", LONG_TEXT, nullable=False),
    Column("problem", String(500), nullable=False),
    Column("set_aside_at", DateTime, nullable=False),
    Index("fa_set_aside_job_key_idx", "job_key"),
)
LEASE = table(
    "fa_lease",
    Column("name", exact_key(191), primary_key=True),
    Column("owner", String(191), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("renewed_at", BigInteger, nullable=False),
)
TOMBSTONES = table(
    "fa_tombstone",
    Column("job_key", exact_key(191), primary_key=True),
    Column("cluster", String(191), nullable=False),
    Column("gone_at_ms", BigInteger, nullable=False),
)


def upgrade() -> None:
    """Create the tables."""
    create_missing(op.get_bind(), JOBS, SET_ASIDE, LEASE, TOMBSTONES)
