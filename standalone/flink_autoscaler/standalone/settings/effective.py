"""The effective configuration: every value, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.standalone.settings.schema.options import daemon_keys, daemon_options, job_keys
from flink_autoscaler.standalone.settings.secrets import shown
from flink_autoscaler.standalone.settings.sources.configuration import Configuration

DEFAULT: Final = "default"
"""Origin of a value that nobody set."""


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


def effective_values(configuration: Configuration) -> list[EffectiveValue]:
    """Return a line for every option without placeholders and for every other key that is set, sorted by key.

    An old key that sets an option is named in the origin.
    """
    plain = [option for option in daemon_options() if not option.is_pattern]
    declared = {option.key: (option.keys, option.default_text) for option in job_keys().values()}
    declared |= {option.key: ((option.key, *option.old_keys), option.default_text) for option in plain}
    others = configuration.values.keys() - job_keys().keys() - daemon_keys().keys()
    options = {**declared, **{key: ((key,), "") for key in others}}
    return [_line(key, keys, default, configuration) for key, (keys, default) in sorted(options.items())]


def _line(key: str, keys: Sequence[str], default: str, configuration: Configuration) -> EffectiveValue:
    for candidate in keys:
        if candidate in configuration.values:
            value = configuration.values[candidate]
            origin = value.origin if candidate == key else f"{value.origin}, as {candidate}"
            return EffectiveValue(key, shown(candidate, value.text), origin)
    return EffectiveValue(key, default or None, DEFAULT)
