"""From the flat configuration to the settings, with everything that is wrong reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.checks.clusters import cluster_places, cluster_warnings
from flink_autoscaler.standalone.settings.checks.daemon import check_settings
from flink_autoscaler.standalone.settings.checks.notifications import notification_warnings
from flink_autoscaler.standalone.settings.schema.options import (
    FREE,
    INDEX,
    LISTS,
    OptionPlace,
    current_key,
    daemon_keys,
    daemon_option,
    daemon_options,
    is_daemon_key,
    job_keys,
    place_of,
)
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.secrets import named, shown
from flink_autoscaler.standalone.settings.sources.configuration import Configuration
from flink_autoscaler.standalone.settings.sources.layer import Value

_DECISIVE = ("type", "url", "kind")
"""Options on which depends what others of the same list entry have to be."""

_MOST_TOLD: Final = 100
DEFAULT: Final = "default"
"""Origin of a value that nobody set."""

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


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One line of the effective configuration.

    Attributes:
        key: The key.
        value: Its text with secrets masked; None when it is unset.
        origin: Where the text comes from; ``default`` where nobody set it.
    """

    key: str
    value: str | None
    origin: str


def load_settings(configuration: Configuration) -> Settings:
    """Return the settings.

    Raises:
        ConfigError: Something is wrong. One line per problem, each with key, value, origin and what is allowed.
    """
    values, broken = configuration.values, list[str]()
    nested = _nested(values)
    try:
        settings = _settings_of(nested, values)
    except ValidationError as error:
        # What can be read is checked too, so that one run shows everything: defaults stand in for what cannot.
        details = error.errors(include_url=False, include_context=False, include_input=False)
        broken = [_message(item["loc"], item["msg"], nested, values) for item in details]
        values = _without(details, nested, values)
        settings = _settings_of(_nested(values), values)
    problems = list(dict.fromkeys([*configuration.problems, *check_settings(settings, values), *broken]))
    if problems:
        more = [f"and {len(problems) - _MOST_TOLD} more problems"] if len(problems) > _MOST_TOLD else []
        raise ConfigError("\n".join([*problems[:_MOST_TOLD], *more]))
    return settings


def warnings_of(configuration: Configuration, settings: Settings) -> tuple[str, ...]:
    """Return what was skipped, looks like a mistake or is dangerous, in full sentences without secrets.

    Args:
        configuration: Where the values came from.
        settings: What they came to.
    """
    values = configuration.values
    return (
        *configuration.warnings,
        *(
            f"{key} ({value.origin}) is called {current} now; the old key still works"
            for key, value in values.items()
            if (current := current_key(key)) is not None
        ),
        *cluster_warnings(cluster_places(settings, values)),
        *notification_warnings(settings, values),
    )


def effective_values(configuration: Configuration) -> list[EffectiveValue]:
    """Return a line for every option without placeholders and for every other key that is set, sorted by key.

    An old key that sets an option is named in the origin.
    """
    values = configuration.values
    options = {option.key: (option.keys, option.default_text) for option in job_keys().values()}
    options |= {each.key: ((each.key, *each.old_keys), each.default_text) for each in daemon_keys().values()}
    options |= {key: ((key,), "") for key in values.keys() - job_keys().keys() - daemon_keys().keys()}
    lines = []
    for key, (keys, default) in sorted(options.items()):
        if (set_by := next((each for each in keys if each in values), None)) is None:
            lines.append(EffectiveValue(key, default or None, DEFAULT))
        else:
            origin = values[set_by].origin + ("" if set_by == key else f", as {set_by}")
            lines.append(EffectiveValue(key, shown(set_by, values[set_by].text), origin))
    return lines


def _settings_of(nested: _NestedInput, values: Mapping[str, Value]) -> Settings:
    of_jobs = {key: value.text for key, value in values.items() if not is_daemon_key(key)}
    return Settings.model_validate({**nested.data, "job-defaults": of_jobs})


def _nested(values: Mapping[str, Value]) -> _NestedInput:
    """Nest the values of the daemon's options. Keys that no option has are left out; they were reported before."""
    numbered: dict[Location, str] = {}
    lists: dict[Location, set[int]] = {}
    for key in values:
        place = place_of(key)
        if place is None or any(better in values for better in place.better_keys):
            continue
        location = _location(place)
        numbered[location] = key
        for at, part in enumerate(location):
            if isinstance(part, int):
                lists.setdefault(location[:at], set()).add(part)
    # Numbers may be left out: an entry is where it is among those that are set.
    positions = {(*path, n): at for path, numbers in lists.items() for at, n in enumerate(sorted(numbers))}
    data: dict[str, Any] = {}
    for path, numbers in lists.items():
        _section(data, path[:-1])[path[-1]] = [{} for _ in numbers]
    keys: dict[Location, str] = {}
    for location, key in numbered.items():
        where = tuple(positions.get(location[: at + 1], part) for at, part in enumerate(location))
        keys[where] = key
        _section(data, where[:-1])[where[-1]] = values[key].text
    return _NestedInput(data, keys)


def _location(place: OptionPlace) -> Location:
    """Return where a value goes, with the number of a list entry as it was written."""
    filled = iter(place.filled)
    return tuple(
        int(next(filled)) if part == INDEX else next(filled) if part == FREE else part for part in place.option.path
    )


def _section(data: Any, path: Iterable[str | int]) -> Any:
    """Return the section at a path, which is made where it is not there."""
    for part in path:
        data = data.setdefault(part, {}) if isinstance(data, dict) else data[part]
    return data


def _entry_of(location: Location) -> Location:
    """Return the location of the list entry that a location is in; its first two parts where it is in none."""
    number = next((at for at, part in enumerate(location) if isinstance(part, int)), 1)
    return location[: number + 1]


def _without(details: list[ErrorDetails], nested: _NestedInput, values: Mapping[str, Value]) -> dict[str, Value]:
    """Leave out what cannot be read; of a list entry whose name, type, URL or authentication it is, all of it."""
    gone: set[str] = set()
    for item in details:
        location: Location = item["loc"]
        option = daemon_option(nested.keys.get(location, ""))
        is_decisive = option is None or option.is_required or location[-1] in _DECISIVE
        prefix = _entry_of(location) if is_decisive else location
        gone.update(key for where, key in nested.keys.items() if where[: len(prefix)] == prefix)
    return {key: value for key, value in values.items() if key not in gone}


def _message(location: Location, problem: str, nested: _NestedInput, values: Mapping[str, Value]) -> str:
    if (key := nested.keys.get(location)) is not None:
        option = daemon_option(key)
        return f"{named(key, values)}: expected {option.allowed if option else problem}"
    # A key that has to be set is not: name it, and the first place where its section is.
    entry = _entry_of(location)
    beside = next(key for where, key in nested.keys.items() if where[: len(entry)] == entry)
    parts = beside.split(".")[: len(entry) + 1]
    wanted = ".".join([*parts[:-1], INDEX, str(location[-1])])
    allowed = next(option.allowed for option in daemon_options() if option.key == wanted)
    what = LISTS[".".join(parts[:-1])]
    return f"{'.'.join(parts)}.{location[-1]} is not set (the {what} is in {values[beside].origin}): expected {allowed}"
