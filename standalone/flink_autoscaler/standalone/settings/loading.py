"""The one door to the settings: layers in one, the settings that they come to, and everything that is wrong at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.checks.clusters import cluster_warnings, configured_clusters
from flink_autoscaler.standalone.settings.checks.daemon import check_settings
from flink_autoscaler.standalone.settings.checks.notifications import notification_warnings
from flink_autoscaler.standalone.settings.logs import configure_logging
from flink_autoscaler.standalone.settings.schema.clusters import auth_kinds_with
from flink_autoscaler.standalone.settings.schema.options import (
    FREE,
    INDEX,
    LISTS,
    OptionMatch,
    current_key,
    daemon_option,
    daemon_options,
    is_daemon_key,
    match_option,
)
from flink_autoscaler.standalone.settings.schema.settings import JDBC, Settings
from flink_autoscaler.standalone.settings.secrets import describe_setting
from flink_autoscaler.standalone.settings.sources.configuration import Configuration, merge_layers, read_layers
from flink_autoscaler.standalone.settings.sources.layer import Value

_DECISIVE = ("type", "url", "kind")
"""Options on which depends what others of the same list entry have to be."""

_MAX_REPORTED: Final = 100
STATE_FILE: Final = "autoscaler.db"
"""The database of a daemon whose settings do not say where state is kept, in the service's state directory."""
_SERVICE: Final = "flink-autoscaler"

log = structlog.get_logger(__name__)

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _NestedInput:
    """Input of :class:`Settings`.

    Attributes:
        data: Nested dictionaries, and lists of those such as the clusters, with the texts as leaves.
        keys: The flat key that a leaf was set with, by its location in ``data``.
    """

    data: dict[str, Any]
    keys: Mapping[Location, str]


class SettingsLoader:
    """Reads the settings from a file, environment variables and ``--set``, each time anew.

    Args:
        file: The YAML file; None takes the one that ``FLINK_AUTOSCALER_CONFIG`` names, if any.
        overrides: Texts ``key=value``, as given by ``--set``; the last layer.
        environment: Environment variables.
        is_dry_run: Whether nothing is to be changed, whatever the settings say.
    """

    def __init__(
        self,
        file: Path | None = None,
        overrides: Sequence[str] = (),
        *,
        environment: Mapping[str, str] = os.environ,
        is_dry_run: bool = False,
    ) -> None:
        self._file = file
        self._environment = environment
        self._overrides = [*overrides, *(["autoscaler.dry-run=true"] if is_dry_run else [])]

    def configuration(self) -> Configuration:
        """Return all layers in one, with what is wrong with them."""
        return merge_layers(read_layers(self._file, self._environment, self._overrides))

    def load(self) -> tuple[Settings, Configuration]:
        """Return the settings, and where they come from, with everything that is worth a warning.

        Raises:
            ConfigError: Something is wrong. One line per problem, each with key, value, origin and what is allowed.
        """
        configuration = self.configuration()
        settings = _load_settings(configuration)
        return settings, replace(configuration, warnings=_warnings(configuration, settings))

    def read(self, *, sets_log: bool = False) -> Settings:
        """Return the settings, and log what is worth a warning.

        Args:
            sets_log: Whether to send the log to where they say first.

        Raises:
            ConfigError: Something is wrong; one line per problem.
        """
        settings, configuration = self.load()
        if sets_log:
            configure_logging(log_format=settings.log.format, level=settings.log.level)
        for warning in configuration.warnings:
            log.warning("configuration", text=warning)
        return settings

    def read_for_command(self) -> Settings:
        """Return the settings of a command, with the file that a daemon of the same user keeps its state in.

        Raises:
            ConfigError: Something is wrong; one line per problem.
        """
        return with_existing_state_file(self.read(sets_log=True))

    def read_for_daemon(self, *, is_running: bool = False) -> Settings:
        """Return the settings of a daemon; where they leave open where state is kept, it is SQLite if that can be.

        Args:
            is_running: Whether it runs already: its log stays as it is, and where state is kept is no news.

        Raises:
            ConfigError: Something is wrong; one line per problem.
        """
        settings = self.read(sets_log=not is_running)
        if not _is_store_unset(settings):
            return settings
        try:
            path = _writable_state_file(self._environment)
        except ConfigError as error:
            if not is_running:
                effect = "a restart forgets what was learned about the jobs"
                log.warning("state_in_memory", reason=str(error), effect=effect)
            return settings
        if not is_running:
            log.info("state_kept", path=str(path), reason="autoscaler.standalone.state-store.type is not set")
        return _with_state_file(settings, path)


def _load_settings(configuration: Configuration) -> Settings:
    values, broken = configuration.values, list[str]()
    nested = _nest_values(values)
    try:
        settings = _validate_settings(nested, values)
    except ValidationError as error:
        # What can be read is checked too, so that one run shows everything: defaults stand in for what cannot.
        details = error.errors(include_url=False, include_context=False, include_input=False)
        broken = [_error_message(item, nested, values) for item in details]
        values = _without_invalid(details, nested, values)
        settings = _validate_settings(_nest_values(values), values)
    problems = list(dict.fromkeys([*configuration.problems, *check_settings(settings, values), *broken]))
    if problems:
        more = [f"and {len(problems) - _MAX_REPORTED} more problems"] if len(problems) > _MAX_REPORTED else []
        raise ConfigError("\n".join([*problems[:_MAX_REPORTED], *more]))
    return settings


def _warnings(configuration: Configuration, settings: Settings) -> tuple[str, ...]:
    """Return what was skipped, looks like a mistake or is dangerous, in full sentences without secrets."""
    values = configuration.values
    return (
        *configuration.warnings,
        *(
            f"{key} ({value.origin}) is called {current} now; the old key still works"
            for key, value in values.items()
            if (current := current_key(key)) is not None
        ),
        *cluster_warnings(configured_clusters(settings, values)),
        *notification_warnings(settings, values),
    )


def _validate_settings(nested: _NestedInput, values: Mapping[str, Value]) -> Settings:
    of_jobs = {key: value.text for key, value in values.items() if not is_daemon_key(key)}
    return Settings.model_validate({**nested.data, "job-defaults": of_jobs})


def _nest_values(values: Mapping[str, Value]) -> _NestedInput:
    """Nest the values of the daemon's options. Keys that no option has are left out; they were reported before."""
    numbered: dict[Location, str] = {}
    lists: dict[Location, set[int]] = {}
    for key in values:
        place = match_option(key)
        if place is None or any(better in values for better in place.preferred_keys):
            continue
        location = _option_location(place)
        numbered[location] = key
        for at, part in enumerate(location):
            if isinstance(part, int):
                lists.setdefault(location[:at], set()).add(part)
    # Numbers may be left out: an entry is where it is among those that are set.
    positions = {(*path, n): at for path, numbers in lists.items() for at, n in enumerate(sorted(numbers))}
    data: dict[str, Any] = {}
    for path, numbers in lists.items():
        _section_at(data, path[:-1])[path[-1]] = [{} for _ in numbers]
    keys: dict[Location, str] = {}
    for location, key in numbered.items():
        where = tuple(positions.get(location[: at + 1], part) for at, part in enumerate(location))
        keys[where] = key
        _section_at(data, where[:-1])[where[-1]] = values[key].text
    return _NestedInput(data, keys)


def _option_location(place: OptionMatch) -> Location:
    """Return where a value goes, with the number of a list entry as it was written."""
    filled = iter(place.placeholder_values)
    return tuple(
        int(next(filled)) if part == INDEX else next(filled) if part == FREE else part for part in place.option.path
    )


def _section_at(data: Any, path: Iterable[str | int]) -> Any:
    """Return the section at a path, which is made where it is not there."""
    for part in path:
        data = data.setdefault(part, {}) if isinstance(data, dict) else data[part]
    return data


def _entry_location(location: Location) -> Location:
    """Return the location of the list entry that a location is in; its first two parts where it is in none."""
    number = next((at for at, part in enumerate(location) if isinstance(part, int)), 1)
    return location[: number + 1]


def _without_invalid(
    details: list[ErrorDetails], nested: _NestedInput, values: Mapping[str, Value]
) -> dict[str, Value]:
    """Leave out what cannot be read; of a list entry whose name, type, URL or authentication it is, all of it."""
    gone: set[str] = set()
    for item in details:
        location = _error_location(item)
        option = daemon_option(nested.keys.get(location, ""))
        is_decisive = option is None or option.is_required or location[-1] in _DECISIVE
        prefix = _entry_location(location) if is_decisive else location
        gone.update(key for where, key in nested.keys.items() if where[: len(prefix)] == prefix)
    return {key: value for key, value in values.items() if key not in gone}


def _error_location(error: ErrorDetails) -> Location:
    """Return where a problem is in the input, without the kind that pydantic puts between ``auth`` and a key."""
    location = error["loc"]
    if error["type"] == "union_tag_invalid":
        return (*location, "kind")
    kind = location.index("auth") + 1 if "auth" in location else len(location)
    return location[:kind] + location[kind + 1 :]


def _error_message(error: ErrorDetails, nested: _NestedInput, values: Mapping[str, Value]) -> str:
    location = _error_location(error)
    if (key := nested.keys.get(location)) is not None and error["type"] == "extra_forbidden":
        section, _, name = key.rpartition(".")
        kind = error["loc"][-2]
        kinds = " and ".join(auth_kinds_with(name))
        return f"{describe_setting(key, values)}: {section}.kind {kind} does not use it, only {kinds}"
    if key is not None:
        option = daemon_option(key)
        return f"{describe_setting(key, values)}: expected {option.allowed if option else error['msg']}"
    # A key that has to be set is not: name it, and the first place where its section is.
    entry = _entry_location(location)
    beside = next(key for where, key in nested.keys.items() if where[: len(entry)] == entry)
    parts = beside.split(".")[: len(entry) + 1]
    wanted = ".".join([*parts[:-1], INDEX, str(location[-1])])
    allowed = next(option.allowed for option in daemon_options() if option.key == wanted)
    what = LISTS[".".join(parts[:-1])]
    return f"{'.'.join(parts)}.{location[-1]} is not set (the {what} is in {values[beside].origin}): expected {allowed}"


def with_existing_state_file(settings: Settings) -> Settings:
    """Return settings that leave the store open with the file of a daemon of the same user, where there is one."""
    directory = state_directory(os.environ)
    if not _is_store_unset(settings) or directory is None or not (directory / STATE_FILE).is_file():
        return settings
    return _with_state_file(settings, directory / STATE_FILE)


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
        return home / _SERVICE
    try:
        return Path.home() / ".local" / "state" / _SERVICE
    except RuntimeError:  # a user without an entry in passwd
        return None


def _is_store_unset(settings: Settings) -> bool:
    """Tell whether the settings leave open where state is kept: neither a store nor a database is named."""
    return settings.standalone.state_store is None and settings.standalone.jdbc_url is None


def _writable_state_file(environment: Mapping[str, str]) -> Path:
    """Return the file of a daemon; its directory is made, for the owner alone.

    Raises:
        ConfigError: It cannot be written.
    """
    directory = state_directory(environment)
    if directory is None:
        raise ConfigError("there is no home directory, and STATE_DIRECTORY is not set")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory}: {error.strerror}") from error
    path = directory / STATE_FILE
    if not os.access(path if path.exists() else directory, os.W_OK):
        raise ConfigError(f"{path} cannot be written")
    return path


def _with_state_file(settings: Settings, path: Path) -> Settings:
    """Return the settings with state in a file, and events too, unless it was said where they go."""
    standalone = {"state_store": JDBC, "jdbc_url": f"jdbc:sqlite:{path.absolute()}"}
    changes: dict[str, object] = {"standalone": settings.standalone.model_copy(update=standalone)}
    is_events_open = "event_handlers" not in settings.model_fields_set
    if is_events_open and "event_handler" not in settings.standalone.model_fields_set:
        changes["event_handlers"] = (JDBC,)
    return settings.model_copy(update=changes)
