"""Run by alembic for every command; migrates over the connection it is given, inside its transaction."""

from alembic import context

from flink_autoscaler.stores.sql.migrations import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
