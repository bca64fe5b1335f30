"""Opens the database that the settings name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.schema.settings import Settings, StandaloneSettings
from flink_autoscaler.standalone.settings.sources.layer import FileUnreadableError, read_text
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings


def open_database(settings: Settings, *, query_timeout: float = 30.0) -> Database:
    """Return the database; it connects when it is first used. Close it in the end.

    Args:
        settings: The settings of the daemon.
        query_timeout: Seconds that one statement may take.

    Raises:
        ConfigError: No database is set, or it cannot be used.
    """
    return Database(database_settings(settings.standalone, os.environ, query_timeout=query_timeout))


def database_settings(
    settings: StandaloneSettings, environment: Mapping[str, str], *, query_timeout: float = 30.0
) -> DatabaseSettings:
    """Return how the database is reached, with the password from its file or the environment.

    Raises:
        ConfigError: No database is set, or the file with the password cannot be read.
    """
    if settings.jdbc_url is None:
        raise ConfigError("autoscaler.standalone.jdbc.url is not set, so there is no database")
    return DatabaseSettings(
        url=settings.jdbc_url,
        username=settings.jdbc_username,
        password=_password(settings, environment),
        query_timeout=query_timeout,
    )


def _password(settings: StandaloneSettings, environment: Mapping[str, str]) -> str | None:
    if settings.jdbc_password_file is None:
        return environment.get(settings.jdbc_password_env_variable)
    try:
        lines = read_text(Path(settings.jdbc_password_file)).splitlines()
    except FileUnreadableError as error:
        raise ConfigError(f"autoscaler.standalone.jdbc.password-file: {error}") from error
    if not lines or not lines[0]:
        raise ConfigError(f"autoscaler.standalone.jdbc.password-file: {settings.jdbc_password_file} is empty")
    return lines[0]
