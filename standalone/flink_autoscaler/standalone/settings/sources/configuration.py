"""The flat configuration: every key that was set, its text, and where it was set.

It is flat: keys stay as they were written, each with its text and its origin, until all layers are one. So an entry of
``autoscaler.clusters`` can get one more option from a variable, an old key of one layer yields to the new key of
another, and every message names the key and the place. Decision 19 says why it is not nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from flink_autoscaler.core.model.syntax import LONGEST, shortened
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
    is_ours,
    job_keys,
    probably_ours,
    resembles_ours,
    unknown_key,
)
from flink_autoscaler.standalone.settings.secrets import shown
from flink_autoscaler.standalone.settings.sources.files import read_installation, read_yaml
from flink_autoscaler.standalone.settings.sources.layer import HALF_CHARACTER, Layer, Value

CONFIG_VARIABLE = "FLINK_AUTOSCALER_CONFIG"
DEFAULT: Final = "default"
"""Origin of a value that nobody set."""

_LONGEST_KEY: Final = 1_000
_NUMBER: Final = re.compile(r"\d+", re.ASCII)


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


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values from all sources, the layer that wins already chosen. Defaults are not in it.

    Attributes:
        values: Text and origin by flat key, in the order in which keys were first set.
        problems: What has to be corrected before the configuration can be used, in full sentences, layer by layer.
        warnings: What was skipped or looks like a mistake, likewise.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def effective_values(self) -> list[EffectiveValue]:
        """Return a line for every option without placeholders and for every other key that is set, sorted by key.

        An old key that sets an option is named in the origin.
        """
        values = self.values
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


def read_layers(file: Path | None, environment: Mapping[str, str], overrides: Sequence[str]) -> list[Layer]:
    """Read all layers: Java installation, file, environment variables, overrides; later ones win.

    Nothing is raised here: what is wrong with a layer is in its ``problems``, so that all of it is reported together.
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    return [
        read_installation(environment),
        Layer() if file is None else read_yaml(file),
        _read_environment(environment),
        _read_overrides(overrides),
    ]


def merge_layers(layers: Iterable[Layer]) -> Configuration:
    """Merge layers, of which later ones win. Keys that no option has are problems that name the nearest one."""
    merged: dict[str, Value] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for layer in layers:
        values, unreadable = _readable(layer.values)
        unknown = _unknown(values, is_compared=not layer.is_of_flink)
        problems += [*layer.problems, *unreadable]
        warnings += layer.warnings
        # Mistakes in our own file; in Flink's a vendor's options are there on purpose.
        if layer.is_of_flink:
            values = {key: value for key, value in values.items() if key not in unknown}
            warnings += [f"{message} of this autoscaler, ignored" for message in unknown.values()]
        else:
            problems += unknown.values()
        warnings += _likely_misspellings(values)
        merged |= values
    return Configuration(merged, tuple(problems), tuple(warnings))


def _readable(values: Mapping[str, Value]) -> tuple[dict[str, Value], list[str]]:
    """Leave out what no option can be, so that nothing behind this has to expect it: these are problems."""
    wrong = {key: problem for key, value in values.items() if (problem := _unreadable(key, value.text))}
    problems = [f"{_shown(key)} ({values[key].origin}): {problem}" for key, problem in wrong.items()]
    return {key: value for key, value in values.items() if key not in wrong}, problems


def _unreadable(key: str, text: str) -> str | None:
    """Return what is wrong with the characters of a key or its value, None when nothing is."""
    if len(key) > _LONGEST_KEY:
        return f"a key of {len(key)} characters, expected at most {_LONGEST_KEY}"
    if any("\0" in each or HALF_CHARACTER.search(each) for each in (key, text)):
        return "holds a NUL, or half of a character (bytes that are not UTF-8, or an escape such as \\ud800)"
    if len(text) > LONGEST and is_ours(key):
        return f"a value of {len(text)} characters, expected at most {LONGEST}"
    return None


def _shown(key: str) -> str:
    return shortened(key).encode(errors="backslashreplace").decode().replace("\0", "\\0")


def _unknown(values: Mapping[str, Value], *, is_compared: bool) -> dict[str, str]:
    """Return the keys below our prefixes that no option has, and what to tell of them."""
    unknown: dict[str, str] = {}
    for key, value in values.items():
        if message := unknown_key(key, is_compared=is_compared and len(unknown) < MOST_COMPARED):
            unknown[key] = f"{_shown(key)} ({value.origin}): {message}"
    return unknown


def _likely_misspellings(values: Mapping[str, Value]) -> list[str]:
    close = ((key, value) for key, value in values.items() if resembles_ours(key))
    return [
        f"{key} ({value.origin}) is not an option of the autoscaler and is handed to the jobs; did you mean '{known}'?"
        for key, value in islice(close, MOST_COMPARED)
        if (known := probably_ours(key))
    ]


def variable_name(key: str) -> str:
    """Return the environment variable of a key: ``__`` for a dot, ``_`` for a hyphen, upper case."""
    return key.replace(".", "__").replace("-", "_").upper()


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
    return tuple((_variable_pattern(key), key) for key in keys)


def _variable_pattern(key: str) -> re.Pattern[str]:
    name = variable_name(key.replace(INDEX, "\0").replace(FREE, "\1"))
    return re.compile(re.escape(name).replace("\0", r"(\d+)").replace("\1", "(.+)"), re.IGNORECASE | re.DOTALL)


def _key_of(variable: str) -> str | None:
    """Return the key that an environment variable sets, or None when no option has it.

    The free part of a key is taken in lower case when it has no lower-case letter, else as it is written.
    """
    if (plain := _plain_variables().get(variable.upper())) is not None:
        return plain
    for pattern, key in _list_variables():
        if match := pattern.fullmatch(variable):
            return _filled(key, match.groups())
    return None


def _filled(key: str, groups: Iterable[str]) -> str:
    for group in groups:
        placeholder = INDEX if _NUMBER.fullmatch(group) and INDEX in key else FREE
        free = group.lower() if group.isupper() else group
        key = key.replace(placeholder, free.replace("__", ".").replace("_", "-"), 1)
    return key


def _read_environment(environment: Mapping[str, str]) -> Layer:
    """Read every variable below our prefixes; unknown ones are problems that name the most similar known one."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    for variable, text in environment.items():
        if not variable.upper().startswith((variable_name(PREFIX), variable_name(JOB_PREFIX))):
            continue
        key = _key_of(variable)
        if key is None:
            close = nearest(variable.upper(), _plain_variables()) if len(problems) < MOST_COMPARED else ""
            problems.append(f"environment variable {variable}: unknown{close}")
        elif key in values:
            problems.append(f"environment variable {variable}: {key} is already set by {values[key].origin}")
        else:
            values[key] = Value(text, f"environment variable {variable}")
    return Layer(values, tuple(problems))


def _read_overrides(overrides: Sequence[str]) -> Layer:
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
