"""From the flat configuration to the settings, with everything that is wrong reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.checks.checks import check_settings
from flink_autoscaler.standalone.settings.checks.cluster_checks import cluster_warnings
from flink_autoscaler.standalone.settings.schema.declarations import INDEX, daemon_options
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import Configuration
from flink_autoscaler.standalone.settings.sources.entry import Value
from flink_autoscaler.standalone.settings.sources.keys import daemon_option
from flink_autoscaler.standalone.settings.sources.masking import shown
from flink_autoscaler.standalone.settings.sources.placement import Location, Placement, job_texts, place

_DECISIVE = ("type", "url", "kind")
"""Options on which depends what others of the same cluster have to be."""


def load_settings(configuration: Configuration) -> Settings:
    """Return the settings.

    Raises:
        ConfigError: Something is wrong. One line per problem, each with key, value, origin and what is allowed.
    """
    settings, problems = _read(configuration)
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    return settings


def warnings_of(configuration: Configuration, settings: Settings) -> tuple[str, ...]:
    """Return what was skipped, looks like a mistake or is dangerous, in full sentences without secrets.

    Args:
        configuration: Where the values came from.
        settings: What they came to.
    """
    return (*configuration.warnings, *cluster_warnings(settings, configuration.values))


def _read(configuration: Configuration) -> tuple[Settings, list[str]]:
    placement = place(configuration.values)
    try:
        return _checked(configuration, configuration)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)

    # What can be read is checked too, so that one run shows everything: defaults stand in for what cannot.
    broken = [message for item in details if (message := _message(item, placement, configuration.values))]
    readable = replace(configuration, values=_without(details, placement, configuration.values))
    settings, problems = _checked(readable, configuration)
    return settings, [*problems, *broken]


def _checked(readable: Configuration, whole: Configuration) -> tuple[Settings, list[str]]:
    jobs = job_texts(readable.values)
    settings = Settings.model_validate({**place(readable.values).data, "job-defaults": jobs})
    return settings, [*whole.problems, *check_settings(settings, readable.values)]


def _without(details: list[ErrorDetails], placement: Placement, values: Mapping[str, Value]) -> dict[str, Value]:
    """Leave out what cannot be read; of a cluster whose name, type, URL or authentication it is, all of it."""
    gone: set[str] = set()
    for item in details:
        location: Location = item["loc"]
        option = daemon_option(placement.keys.get(location, ""))
        is_decisive = option is None or option.is_required or location[-1] in _DECISIVE
        prefix = location[:2] if is_decisive else location
        gone.update(key for place_, key in placement.keys.items() if place_[: len(prefix)] == prefix)
    return {key: value for key, value in values.items() if key not in gone}


def _message(item: ErrorDetails, placement: Placement, values: Mapping[str, Value]) -> str:
    location: Location = item["loc"]
    key = placement.keys.get(location)
    if key is None:
        return _missing(location, placement, values)
    option = daemon_option(key)
    allowed = option.allowed if option else item["msg"]
    return f"{key} = '{shown(key, values[key].text)}' ({values[key].origin}): expected {allowed}"


def _missing(location: Location, placement: Placement, values: Mapping[str, Value]) -> str:
    """Name the key that has to be set, and the first place where its section is."""
    beside = next(key for place_, key in placement.keys.items() if place_[:2] == location[:2])
    prefix = ".".join(beside.split(".")[:3])
    key = f"{prefix}.{location[-1]}"
    allowed = next(option.allowed for option in daemon_options() if option.key.endswith(f"{INDEX}.{location[-1]}"))
    return f"{key} is not set (the cluster is in {values[beside].origin}): expected {allowed}"
