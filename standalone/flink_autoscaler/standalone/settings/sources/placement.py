"""From the flat configuration to the nested input of the settings models, remembering which key went where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flink_autoscaler.standalone.settings.schema.declarations import FREE, INDEX, DaemonOption
from flink_autoscaler.standalone.settings.sources.entry import Value
from flink_autoscaler.standalone.settings.sources.keys import daemon_option, is_daemon_key

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Input for :class:`DaemonSettings`.

    Attributes:
        data: Nested dictionaries and lists with the texts as leaves.
        keys: The flat key that a leaf was set with, by its location in ``data``.
    """

    data: dict[str, Any]
    keys: Mapping[Location, str]


def job_texts(values: Mapping[str, Value]) -> dict[str, str]:
    """Return the part of the configuration that is for jobs: what does not belong to the daemon."""
    return {key: value.text for key, value in values.items() if not is_daemon_key(key)}


def place(values: Mapping[str, Value]) -> Placement:
    """Nest the values of the daemon's options. Keys that no option has are left out; they were reported before."""
    leaves = list(_leaves(values))
    positions = {number: position for position, number in enumerate(cluster_numbers(values))}
    data: dict[str, Any] = {}
    keys: dict[Location, str] = {}
    for location, key in leaves:
        placed = tuple(positions[part] if isinstance(part, int) else part for part in location)
        keys[placed] = key
        _put(data, placed, values[key].text)
    return Placement(data, keys)


def cluster_numbers(values: Mapping[str, Value]) -> list[int]:
    """Return the numbers of the clusters that are set, ascending; numbers may be left out."""
    return sorted({part for location, _ in _leaves(values) for part in location if isinstance(part, int)})


def _leaves(values: Mapping[str, Value]) -> Iterator[tuple[Location, str]]:
    for key in values:
        option = daemon_option(key)
        if option is not None and not _is_outranked(option, key, values):
            yield _location(option, key), key


def _is_outranked(option: DaemonOption, key: str, values: Mapping[str, Value]) -> bool:
    """Tell whether a better key of the same option is set."""
    return key in option.old_keys and any(better in values for better in _better_keys(option, key))


def _better_keys(option: DaemonOption, key: str) -> tuple[str, ...]:
    return (option.key, *option.old_keys[: option.old_keys.index(key)])


def _location(option: DaemonOption, key: str) -> Location:
    match = option.pattern.fullmatch(key)
    filled = iter(match.groups() if match else ())
    return tuple(_part(part, filled) for part in option.path)


def _part(part: str, filled: Iterator[str]) -> str | int:
    if part == INDEX:
        return int(next(filled))
    return next(filled) if part == FREE else part


def _put(data: dict[str, Any], location: Location, text: str) -> None:
    """Set one leaf; a number in the location is a position in a list that grows as needed."""
    target: Any = data
    for part, following in pairwise(location):
        target = _step(target, part, [] if isinstance(following, int) else {})
    target[location[-1]] = text


def _step(target: Any, part: str | int, empty: Any) -> Any:
    if not isinstance(part, int):
        return target.setdefault(part, empty)
    while len(target) <= part:
        target.append({})
    return target[part]
