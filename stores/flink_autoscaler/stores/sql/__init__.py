"""State and events in SQLite, PostgreSQL, MySQL or MariaDB.

Nothing is imported here, so that the daemon needs SQLAlchemy only where a database is configured.
"""
