"""The database that the settings name: how it is reached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.schema.settings import Settings, StandaloneSettings
from flink_autoscaler.standalone.settings.sources.layer import FileUnreadableError, read_text

if TYPE_CHECKING:
    from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings


def open_database(settings: Settings, *, beside: Database | None = None, **limits: Any) -> Database:
    """Return the database; it connects when it is first used. Close it in the end.

    Args:
        settings: The settings of the daemon.
        beside: Another pool of connections to it that this process has.
        limits: Fields of :class:`DatabaseSettings` that are not to have their defaults, such as ``query_timeout``.

    Raises:
        ConfigError: No database is set, or it cannot be used.
    """
    # Imported here, as everything of the database: who does not use one need not have it installed.
    try:
        from flink_autoscaler.stores.sql.database.database import Database  # noqa: PLC0415
    except ModuleNotFoundError as error:
        extras = "flink-autoscaler[postgresql], [mysql] or [sql]"
        raise ConfigError(f"{error.name} is not installed, which a database needs: install {extras}") from error
    return Database(replace(database_settings(settings.standalone, os.environ), **limits), beside=beside)


def database_settings(settings: StandaloneSettings, environment: Mapping[str, str]) -> DatabaseSettings:
    """Return how the database is reached, with the password from its file or the environment.

    Raises:
        ConfigError: No database is set, or the file with the password cannot be read.
    """
    from flink_autoscaler.stores.sql.database.database import DatabaseSettings  # noqa: PLC0415

    if settings.jdbc_url is None:
        raise ConfigError("autoscaler.standalone.jdbc.url is not set, so there is no database")
    password = _password(settings, environment)
    return DatabaseSettings(settings.jdbc_url, settings.jdbc_username, password)


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
