"""Load profiles have a revision, so that one that is built again for the same day is noticed."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, String, inspect

from flink_autoscaler.stores.sql.migrations.creation import missing_columns, table

revision = "0006"
down_revision = "0005"

META = table("fa_forecast_meta", Column("revision", String(16)))


def upgrade() -> None:
    """Add the column; profiles that are there have none until they are built again."""
    # MySQL cannot undo it: an upgrade that was interrupted here finds it done.
    if missing_columns(inspect(op.get_bind()), META):
        op.add_column(META.name, Column("revision", String(16)))
