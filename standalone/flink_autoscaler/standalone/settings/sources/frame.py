"""The layers of the configuration as sources of pydantic-settings, which decides whose value counts.

The frame is flat: keys stay as they were written, each with its text and its origin, until all layers are one. So an
entry of ``autoscaler.clusters`` can get one more option from a variable, an old key of one layer yields to the new
key of another, and every message names the key and the place. Decision 19 says why it is not nested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from flink_autoscaler.core.model.syntax import LONGEST, shortened
from flink_autoscaler.standalone.settings.schema.options import (
    MOST_COMPARED,
    is_ours,
    probably_ours,
    resembles_ours,
    unknown_key,
)
from flink_autoscaler.standalone.settings.sources.layer import HALF_CHARACTER, Layer, Value
from flink_autoscaler.standalone.settings.sources.plan_lists import with_plans

Reader = Callable[[], Layer]

_LONGEST_KEY: Final = 1_000


class Frame(BaseSettings):
    """What the layers come to.

    Attributes:
        values: Text and origin by flat key, of the layer that wins.
        problems: What is wrong, in full sentences by the name of the layer.
        warnings: What was skipped or looks like a mistake, likewise.
    """

    values: dict[str, Value] = {}
    problems: dict[str, tuple[str, ...]] = {}
    warnings: dict[str, tuple[str, ...]] = {}


class LayerSource(PydanticBaseSettingsSource):
    """One layer. Keys that no option has are problems that name the nearest one.

    Args:
        settings_cls: The frame.
        name: Of the layer, unlike that of every other one.
        read: Reads it.
    """

    def __init__(self, settings_cls: type[BaseSettings], name: str, read: Reader) -> None:
        super().__init__(settings_cls)
        self._name = name
        self._read = read

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - inherited
        """Return one field; the second value is its key, the third that it is no JSON."""
        return self()[field_name], field_name, False

    def __call__(self) -> dict[str, Any]:
        """Read the layer."""
        layer = _known(with_plans(_readable(self._read())))
        return {
            "values": dict(layer.values),
            "problems": {self._name: layer.problems},
            "warnings": {self._name: (*layer.warnings, *_likely_misspellings(layer))},
        }


def framed(layers: Mapping[str, Reader]) -> Frame:
    """Read all layers into one.

    Args:
        layers: By name; later ones win.
    """

    class Layered(Frame):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            """Take nothing but the layers; whose value counts comes first here."""
            return tuple(LayerSource(settings_cls, name, read) for name, read in reversed(tuple(layers.items())))

    return Layered()


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
