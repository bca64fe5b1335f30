"""From the flat configuration to the nested input of the settings models, remembering which key went where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flink_autoscaler.standalone.settings.schema.options import FREE, INDEX, DaemonOption, daemon_option, is_daemon_key
from flink_autoscaler.standalone.settings.sources.layer import Value

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class NestedInput:
    """Input for :class:`DaemonSettings`.

    Attributes:
        data: Nested dictionaries, and the list of clusters, with the texts as leaves.
        keys: The flat key that a leaf was set with, by its location in ``data``.
    """

    data: dict[str, Any]
    keys: Mapping[Location, str]


def job_texts(values: Mapping[str, Value]) -> dict[str, str]:
    """Return the part of the configuration that is for jobs: what does not belong to the daemon."""
    return {key: value.text for key, value in values.items() if not is_daemon_key(key)}


def nested(values: Mapping[str, Value]) -> NestedInput:
    """Nest the values of the daemon's options. Keys that no option has are left out; they were reported before."""
    positions = {number: position for position, number in enumerate(cluster_numbers(values))}
    data: dict[str, Any] = {}
    keys: dict[Location, str] = {}
    for numbered, key in _leaves(values):
        location = tuple(positions[part] if isinstance(part, int) else part for part in numbered)
        keys[location] = key
        section: Any = data
        for part in location[:-1]:
            section = section.setdefault(part, {})
        section[location[-1]] = values[key].text
    if positions:
        data["clusters"] = [data["clusters"][position] for position in positions.values()]
    return NestedInput(data, keys)


def cluster_numbers(values: Mapping[str, Value]) -> list[int]:
    """Return the numbers of the clusters that are set, ascending; numbers may be left out."""
    return sorted({part for location, _ in _leaves(values) for part in location if isinstance(part, int)})


def _leaves(values: Mapping[str, Value]) -> Iterator[tuple[Location, str]]:
    """Yield the keys that count, with the number of a cluster as it was written."""
    for key in values:
        option = daemon_option(key)
        if option is not None and not _is_outranked(option, key, values):
            filled = iter(option.filled(key))
            yield tuple(_part(part, filled) for part in option.path), key


def _is_outranked(option: DaemonOption, key: str, values: Mapping[str, Value]) -> bool:
    """Tell whether a better key of the same option is set."""
    ranked = option.ranked(key)
    return key in ranked[1:] and any(better in values for better in ranked[: ranked.index(key)])


def _part(part: str, filled: Iterator[str]) -> str | int:
    if part == INDEX:
        return int(next(filled))
    return next(filled) if part == FREE else part
