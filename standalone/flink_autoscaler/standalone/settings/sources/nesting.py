"""From the flat configuration to the nested input of the settings models, remembering which key went where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flink_autoscaler.standalone.settings.schema.options import FREE, INDEX, DaemonOption, daemon_option, is_daemon_key
from flink_autoscaler.standalone.settings.sources.layer import Value

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class NestedInput:
    """Input for :class:`DaemonSettings`.

    Attributes:
        data: Nested dictionaries, and lists of those such as the clusters, with the texts as leaves.
        keys: The flat key that a leaf was set with, by its location in ``data``.
    """

    data: dict[str, Any]
    keys: Mapping[Location, str]


def job_texts(values: Mapping[str, Value]) -> dict[str, str]:
    """Return the part of the configuration that is for jobs: what does not belong to the daemon."""
    return {key: value.text for key, value in values.items() if not is_daemon_key(key)}


def nested(values: Mapping[str, Value]) -> NestedInput:
    """Nest the values of the daemon's options. Keys that no option has are left out; they were reported before."""
    leaves = list(_leaves(values))
    positions = {
        (*path, number): position
        for path, numbers in _numbers(leaves).items()
        for position, number in enumerate(numbers)
    }
    data: dict[str, Any] = {}
    keys: dict[Location, str] = {}
    for numbered, key in leaves:
        location = tuple(positions.get(numbered[: at + 1], part) for at, part in enumerate(numbered))
        keys[location] = key
        section: Any = data
        for part in location[:-1]:
            section = section.setdefault(part, {})
        section[location[-1]] = values[key].text
    for path in _numbers(leaves):
        _make_list(data, path)
    return NestedInput(data, keys)


def cluster_numbers(values: Mapping[str, Value]) -> list[int]:
    """Return the numbers of the clusters that are set, ascending; numbers may be left out."""
    return entry_numbers(values, "clusters")


def entry_numbers(values: Mapping[str, Value], *path: str) -> list[int]:
    """Return the numbers of the entries of a list that are set, ascending; numbers may be left out."""
    return _numbers(_leaves(values)).get(path, [])


def entry_of(location: Location) -> Location:
    """Return the location of the list entry that a location is in; its first two parts where it is in none."""
    number = next((at for at, part in enumerate(location) if isinstance(part, int)), 1)
    return location[: number + 1]


def _numbers(leaves: Iterable[tuple[Location, str]]) -> dict[Location, list[int]]:
    """Return the numbers of the entries of every list, ascending, by the path of the list."""
    numbers: dict[Location, set[int]] = {}
    for location, _ in leaves:
        for at, part in enumerate(location):
            if isinstance(part, int):
                numbers.setdefault(location[:at], set()).add(part)
    return {path: sorted(found) for path, found in numbers.items()}


def _make_list(data: dict[str, Any], path: Location) -> None:
    """Make a list of what was nested by position."""
    section: Any = data
    for part in path[:-1]:
        section = section[part]
    entries = section[path[-1]]
    section[path[-1]] = [entries[position] for position in sorted(entries)]


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
