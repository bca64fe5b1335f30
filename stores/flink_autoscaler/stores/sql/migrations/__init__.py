"""The history of the schema: alembic revisions, run by :func:`flink_autoscaler.stores.sql.schema.upgrade_schema`.

A revision that was released never changes. Another one is added behind it, and :data:`REVISIONS` names it. It says in
its ``downgrade`` what the version before it needs to work with the database again, and loses nothing by that.
"""

from typing import Final

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
"""Every revision, oldest first; reading the schema's version at start must not pay for alembic."""

OLDEST_WAY_BACK: Final = "0007"
"""The oldest revision that there is a way back to: that of release 0.1.0."""

VERSION_TABLE: Final = "fa_schema_version"
"""Where the revision of a database is kept."""

__all__ = ["OLDEST_WAY_BACK", "REVISIONS", "VERSION_TABLE"]
