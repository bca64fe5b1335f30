"""Events that wait until they are told, and those that were."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Index

from flink_autoscaler.stores.sql.columns import ID, LONG_TEXT, exact_key
from flink_autoscaler.stores.sql.migrations.creation import create_missing, table

revision = "0008"
down_revision = "0007"

NOTIFICATIONS = table(
    "fa_notification",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("notice_id", exact_key(36), nullable=False),
    Column("writer", exact_key(191), nullable=False),
    Column("target", exact_key(64), nullable=False),
    Column("identity", exact_key(40), nullable=False),
    Column("added_ms", BigInteger, nullable=False),
    Column("repeat_until_ms", BigInteger, nullable=False),
    Column("claim", exact_key(36), nullable=False),
    Column("claimed_until_ms", BigInteger, nullable=False),
    Column("settled_ms", BigInteger, nullable=False),
    Column("notice", LONG_TEXT, nullable=False),
    Index("fa_notification_notice_idx", "notice_id", "writer", "target", unique=True),
    Index("fa_notification_waiting_idx", "writer", "target", "settled_ms"),
    Index("fa_notification_identity_idx", "identity"),
    Index("fa_notification_claim_idx", "claim"),
)


def upgrade() -> None:
    """Create the table."""
    create_missing(op.get_bind(), NOTIFICATIONS)


def downgrade() -> None:
    """Leave the table: versions before do not look at it, and a later upgrade finds what was in it."""
