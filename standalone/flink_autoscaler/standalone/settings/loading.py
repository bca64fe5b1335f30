"""From the flat configuration to the settings, with everything that is wrong reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.checks.clusters import cluster_warnings
from flink_autoscaler.standalone.settings.checks.daemon import check_settings
from flink_autoscaler.standalone.settings.checks.metrics import metric_warnings
from flink_autoscaler.standalone.settings.checks.notifications import notification_warnings
from flink_autoscaler.standalone.settings.schema.options import INDEX, LISTS, current_key, daemon_option, daemon_options
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.secrets import named
from flink_autoscaler.standalone.settings.sources.configuration import Configuration
from flink_autoscaler.standalone.settings.sources.layer import Value
from flink_autoscaler.standalone.settings.sources.nesting import Location, NestedInput, entry_of, job_texts, nested

_DECISIVE = ("type", "url", "kind")
"""Options on which depends what others of the same list entry have to be."""

_MOST_TOLD: Final = 100


def load_settings(configuration: Configuration) -> Settings:
    """Return the settings.

    Raises:
        ConfigError: Something is wrong. One line per problem, each with key, value, origin and what is allowed.
    """
    settings, problems = _read(configuration)
    if problems:
        raise ConfigError("\n".join(_most(list(dict.fromkeys(problems)))))
    return settings


def _most(problems: list[str]) -> list[str]:
    """Return what a person reads of some problems, and a line that counts the others."""
    more = len(problems) - _MOST_TOLD
    return problems if more <= 0 else [*problems[:_MOST_TOLD], f"and {more} more problems"]


def warnings_of(configuration: Configuration, settings: Settings) -> tuple[str, ...]:
    """Return what was skipped, looks like a mistake or is dangerous, in full sentences without secrets.

    Args:
        configuration: Where the values came from.
        settings: What they came to.
    """
    values = configuration.values
    checked = (
        *cluster_warnings(settings, values),
        *metric_warnings(settings, values),
        *notification_warnings(settings, values),
    )
    return (*configuration.warnings, *_old_keys(values), *checked)


def _old_keys(values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what is set by a key that has another name now."""
    for key, value in values.items():
        if (current := current_key(key)) is not None:
            yield f"{key} ({value.origin}) is called {current} now; the old key still works"


def _read(configuration: Configuration) -> tuple[Settings, list[str]]:
    try:
        return _checked(configuration)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)

    # What can be read is checked too, so that one run shows everything: defaults stand in for what cannot.
    values = configuration.values
    given = nested(values)
    broken = [_message(item["loc"], item["msg"], given, values) for item in details]
    settings, problems = _checked(replace(configuration, values=_without(details, given, values)))
    return settings, [*problems, *broken]


def _checked(configuration: Configuration) -> tuple[Settings, list[str]]:
    values = configuration.values
    settings = Settings.model_validate({**nested(values).data, "job-defaults": job_texts(values)})
    return settings, [*configuration.problems, *check_settings(settings, values)]


def _without(details: list[ErrorDetails], given: NestedInput, values: Mapping[str, Value]) -> dict[str, Value]:
    """Leave out what cannot be read; of a list entry whose name, type, URL or authentication it is, all of it."""
    gone: set[str] = set()
    for item in details:
        location: Location = item["loc"]
        option = daemon_option(given.keys.get(location, ""))
        is_decisive = option is None or option.is_required or location[-1] in _DECISIVE
        prefix = entry_of(location) if is_decisive else location
        gone.update(key for where, key in given.keys.items() if where[: len(prefix)] == prefix)
    return {key: value for key, value in values.items() if key not in gone}


def _message(location: Location, problem: str, given: NestedInput, values: Mapping[str, Value]) -> str:
    key = given.keys.get(location)
    if key is None:
        return _missing(location, given, values)
    option = daemon_option(key)
    return f"{named(key, values)}: expected {option.allowed if option else problem}"


def _missing(location: Location, given: NestedInput, values: Mapping[str, Value]) -> str:
    """Name the key that has to be set, and the first place where its section is."""
    entry = entry_of(location)
    beside = next(key for where, key in given.keys.items() if where[: len(entry)] == entry)
    parts = beside.split(".")[: len(entry) + 1]
    wanted = ".".join([*parts[:-1], INDEX, str(location[-1])])
    allowed = next(option.allowed for option in daemon_options() if option.key == wanted)
    what = LISTS[".".join(parts[:-1])]
    return f"{'.'.join(parts)}.{location[-1]} is not set (the {what} is in {values[beside].origin}): expected {allowed}"
