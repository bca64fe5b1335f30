"""Environment variables and ``--set key=value`` as layers of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from flink_autoscaler.core.options.option import PREFIX as JOB_PREFIX
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.standalone.settings.schema.options import (
    FREE,
    INDEX,
    MOST_COMPARED,
    PLUGIN_FAMILIES,
    PREFIX,
    daemon_keys,
    daemon_options,
    job_keys,
)
from flink_autoscaler.standalone.settings.sources.layer import Layer, Value

_NUMBER = re.compile(r"\d+", re.ASCII)


def variable_name(key: str) -> str:
    """Return the environment variable of a key: ``__`` for a dot, ``_`` for a hyphen, upper case."""
    return key.replace(".", "__").replace("-", "_").upper()


_PREFIXES = (variable_name(PREFIX), variable_name(JOB_PREFIX))


@cache
def _plain_variables() -> dict[str, str]:
    """Keys without placeholders by their variable, below our prefixes."""
    keys = [*daemon_keys(), *job_keys()]
    return {variable_name(key): key for key in keys if key.startswith((PREFIX, JOB_PREFIX))}


@cache
def _list_variables() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of the variables of numbered and free keys, and the key with placeholders."""
    keys = [option.key for option in daemon_options() if option.is_pattern]
    keys += [f"{JOB_PREFIX}{family}{FREE}" for family in PLUGIN_FAMILIES]
    return tuple((_pattern(key), key) for key in keys)


def _pattern(key: str) -> re.Pattern[str]:
    name = variable_name(key.replace(INDEX, "\0").replace(FREE, "\1"))
    return re.compile(re.escape(name).replace("\0", r"(\d+)").replace("\1", "(.+)"), re.IGNORECASE | re.DOTALL)


def key_of(variable: str) -> str | None:
    """Return the key that an environment variable sets, or None when no option has it.

    The free part of a key is taken in lower case when it has no lower-case letter, else as it is written.
    """
    plain = _plain_variables().get(variable.upper())
    if plain is not None:
        return plain
    for pattern, key in _list_variables():
        if match := pattern.fullmatch(variable):
            return _fill(key, match.groups())
    return None


def _fill(key: str, groups: Iterable[str]) -> str:
    for group in groups:
        placeholder = INDEX if _NUMBER.fullmatch(group) and INDEX in key else FREE
        key = key.replace(placeholder, _free_key(group), 1)
    return key


def _free_key(part: str) -> str:
    return (part.lower() if part.isupper() else part).replace("__", ".").replace("_", "-")


def read_environment(environment: Mapping[str, str]) -> Layer:
    """Read every variable below our prefixes; unknown ones are problems that name the most similar known one."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    for variable, text in environment.items():
        if not variable.upper().startswith(_PREFIXES):
            continue
        key = key_of(variable)
        if key is None:
            close = nearest(variable.upper(), _plain_variables()) if len(problems) < MOST_COMPARED else ""
            problems.append(f"environment variable {variable}: unknown{close}")
        elif key in values:
            problems.append(f"environment variable {variable}: {key} is already set by {values[key].origin}")
        else:
            values[key] = Value(text, f"environment variable {variable}")
    return Layer(values, tuple(problems))


def read_overrides(overrides: Sequence[str]) -> Layer:
    """Read texts ``key=value``; of several for one key the last wins."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    for number, override in enumerate(overrides, start=1):
        key, separator, text = override.partition("=")
        if separator and key.strip():
            values[key.strip()] = Value(text, "--set")
        else:
            problems.append(f"--set number {number}: expected key=value")
    return Layer(values, tuple(problems))
