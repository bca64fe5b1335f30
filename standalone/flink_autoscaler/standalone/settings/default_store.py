"""Where state is kept when the settings do not say: SQLite in the service's state directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flink_autoscaler.standalone.settings.schema.settings import JDBC, Settings

FILE: Final = "autoscaler.db"
_NAME: Final = "flink-autoscaler"


@dataclass(frozen=True, slots=True)
class DefaultStore:
    """What takes the place of a state store that is not configured.

    Attributes:
        settings: With the store that is used.
        path: File of the database; None where state is in memory.
        problem: Why no file can be written; None where there is one.
    """

    settings: Settings
    path: Path | None = None
    problem: str | None = None


def state_directory(environment: Mapping[str, str]) -> Path | None:
    """Return the directory in which the service keeps its state; None where nobody knows one.

    systemd gives ``STATE_DIRECTORY`` to units with ``StateDirectory=``, separated by colons where there are several.
    Without it the XDG base directory specification holds, by which a relative ``XDG_STATE_HOME`` is ignored.
    """
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given)
    home = Path(environment.get("XDG_STATE_HOME", ""))
    if home.is_absolute():
        return home / _NAME
    try:
        return Path.home() / ".local" / "state" / _NAME
    except RuntimeError:  # a user without an entry in passwd
        return None


def is_store_open(settings: Settings) -> bool:
    """Tell whether the settings leave open where state is kept: neither a store nor a database is named."""
    return settings.standalone.state_store is None and settings.standalone.jdbc_url is None


def store_to_write(settings: Settings, environment: Mapping[str, str]) -> DefaultStore:
    """Return the store of a daemon; its directory is made, for the owner alone. In memory where that cannot be."""
    directory = state_directory(environment)
    if directory is None:
        return DefaultStore(settings, problem="there is no home directory, and STATE_DIRECTORY is not set")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return DefaultStore(settings, problem=f"{directory}: {error.strerror}")
    path = directory / FILE
    if not os.access(path if path.exists() else directory, os.W_OK):
        return DefaultStore(settings, problem=f"{path} cannot be written")
    return DefaultStore(_with_file(settings, path), path)


def store_to_read(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """Return the settings with the file that a daemon of the same user keeps its state in, where there is one."""
    directory = state_directory(environment)
    if not is_store_open(settings) or directory is None or not (directory / FILE).is_file():
        return settings
    return _with_file(settings, directory / FILE)


def _with_file(settings: Settings, path: Path) -> Settings:
    """Return the settings with state in a file, and events too, unless it was said where they go."""
    standalone = {"state_store": JDBC, "jdbc_url": f"jdbc:sqlite:{path.absolute()}"}
    changes: dict[str, object] = {"standalone": settings.standalone.model_copy(update=standalone)}
    is_events_open = "event_handlers" not in settings.model_fields_set
    if is_events_open and "event_handler" not in settings.standalone.model_fields_set:
        changes["event_handlers"] = (JDBC,)
    return settings.model_copy(update=changes)
