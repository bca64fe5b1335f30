"""The flat configuration: every key that was set, its text, and where it was set.

It is flat: keys stay as they were written, each with its text and its origin, until all layers are one. So an entry of
``autoscaler.clusters`` can get one more option from a variable, an old key of one layer yields to the new key of
another, and every message names the key and the place. Decision 19 says why it is not nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from flink_autoscaler.core.model.syntax import LONGEST, shortened
from flink_autoscaler.standalone.settings.schema.options import (
    MOST_COMPARED,
    is_ours,
    probably_ours,
    resembles_ours,
    unknown_key,
)
from flink_autoscaler.standalone.settings.sources.files import read_installation, read_yaml
from flink_autoscaler.standalone.settings.sources.layer import HALF_CHARACTER, Layer, Value
from flink_autoscaler.standalone.settings.sources.plan_lists import with_plans
from flink_autoscaler.standalone.settings.sources.variables import read_environment, read_overrides

CONFIG_VARIABLE = "FLINK_AUTOSCALER_CONFIG"
_LONGEST_KEY: Final = 1_000


@dataclass(frozen=True, slots=True)
class Configuration:
    """What was set anywhere, the layer that wins already chosen. Defaults are not in it.

    Attributes:
        values: Text and origin by flat key, in the order in which keys were first set.
        problems: What has to be corrected before the configuration can be used, in full sentences, layer by layer.
        warnings: What was skipped or looks like a mistake, likewise.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def load_configuration(*, file: Path | None, environment: Mapping[str, str], overrides: Sequence[str]) -> Configuration:
    """Read all layers: Java installation, file, environment variables, overrides; later ones win.

    Args:
        file: The YAML file; None takes the one that ``FLINK_AUTOSCALER_CONFIG`` names, if any.
        environment: Environment variables, usually ``os.environ``.
        overrides: Texts ``key=value``, as given by ``--set``.

    Returns:
        The merged configuration. Nothing is raised here: what is wrong with any layer is in ``problems``, so that
        all of it is reported together (see :func:`flink_autoscaler.standalone.settings.loading.load_settings`).
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    return merge_layers(
        [
            read_installation(environment),
            Layer() if file is None else read_yaml(file),
            read_environment(environment),
            read_overrides(overrides),
        ]
    )


def merge_layers(layers: Iterable[Layer]) -> Configuration:
    """Merge layers, of which later ones win. Keys that no option has are problems that name the nearest one."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for each in layers:
        layer = _known(with_plans(_readable(each)))
        values |= layer.values
        problems += layer.problems
        warnings += [*layer.warnings, *_likely_misspellings(layer)]
    return Configuration(values, tuple(problems), tuple(warnings))


def _readable(layer: Layer) -> Layer:
    """Leave out what no option can be, so that nothing behind this has to expect it: these are problems."""
    values, problems = dict[str, Value](), list[str]()
    for key, value in layer.values.items():
        if problem := _unreadable(key, value.text):
            problems.append(f"{_shown(key)} ({value.origin}): {problem}")
        else:
            values[key] = value
    return replace(layer, values=values, problems=(*layer.problems, *problems)) if problems else layer


def _unreadable(key: str, text: str) -> str | None:
    """Return what is wrong with the characters of a key or its value, None when nothing is."""
    if len(key) > _LONGEST_KEY:
        return f"a key of {len(key)} characters, expected at most {_LONGEST_KEY}"
    if not (_is_text(key) and _is_text(text)):
        return "holds a NUL, or half of a character (bytes that are not UTF-8, or an escape such as \\ud800)"
    if len(text) > LONGEST and is_ours(key):
        return f"a value of {len(text)} characters, expected at most {LONGEST}"
    return None


def _is_text(text: str) -> bool:
    return "\0" not in text and not HALF_CHARACTER.search(text)


def _shown(key: str) -> str:
    return shortened(key).encode(errors="backslashreplace").decode().replace("\0", "\\0")


def _known(layer: Layer) -> Layer:
    """Take note of keys below our prefixes that no option has: mistakes in our own file, foreign in Flink's."""
    unknown: dict[str, str] = {}
    for key, value in layer.values.items():
        # In Flink's file a vendor's options are there on purpose: no guess what was meant.
        is_compared = not layer.is_of_flink and len(unknown) < MOST_COMPARED
        if message := unknown_key(key, is_compared=is_compared):
            unknown[key] = f"{_shown(key)} ({value.origin}): {message}"
    if not layer.is_of_flink:
        return replace(layer, problems=(*layer.problems, *unknown.values()))
    ignored = (f"{message} of this autoscaler, ignored" for message in unknown.values())
    values = {key: value for key, value in layer.values.items() if key not in unknown}
    return replace(layer, values=values, warnings=(*layer.warnings, *ignored))


def _likely_misspellings(layer: Layer) -> list[str]:
    close = ((key, value) for key, value in layer.values.items() if resembles_ours(key))
    return [
        f"{key} ({value.origin}) is not an option of the autoscaler and is handed to the jobs; did you mean '{known}'?"
        for key, value in islice(close, MOST_COMPARED)
        if (known := probably_ours(key))
    ]
