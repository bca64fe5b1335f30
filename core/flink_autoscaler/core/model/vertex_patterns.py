"""Vertices chosen by id or name pattern, and bounds for them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import JobTopology, Vertex

MAX_PATTERNS: Final = 1_000
LONGEST_PATTERN: Final = 1_000
"""Characters; what is beyond is longer than people write, and takes long to compile."""


class Named(Protocol):
    """A vertex, as far as patterns go."""

    @property
    def vertex_id(self) -> VertexId:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its name, not necessarily its own alone."""
        ...


def matches(vertex: Named, pattern: str) -> bool:
    """Tell whether a pattern is the id of a vertex or fits its name; ``*`` and ``?`` stand for any characters."""
    return vertex.vertex_id == pattern or _compile(pattern).match(vertex.name) is not None


@lru_cache(maxsize=4 * MAX_PATTERNS)
def _compile(pattern: str) -> re.Pattern[str]:
    # Names of Flink SQL have brackets ("Calc[2]"): they stand for themselves, not for one of several characters.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def matching(topology: JobTopology, patterns: Iterable[str]) -> frozenset[VertexId]:
    """Return the vertices that fit any of the patterns."""
    wanted = tuple(patterns)
    return frozenset(v for v, vertex in topology.vertices.items() if any(matches(vertex, each) for each in wanted))


def parse_patterns(text: str) -> tuple[str, ...]:
    """Read a list of patterns.

    Raises:
        ValueError: It cannot be read, or there are too many, or one is too long.
    """
    return tuple(map(validate_pattern, _entries(text)))


def validate_pattern(pattern: str) -> str:
    """Return a pattern that is not too long.

    Raises:
        ValueError: It is.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"patterns of at most {LONGEST_PATTERN} characters, not {len(pattern)}")
    return pattern


@dataclass(frozen=True, slots=True)
class VertexBounds:
    """Bounds of the parallelism of the vertices that fit a pattern; None leaves the general one."""

    pattern: str
    minimum: int | None = None
    maximum: int | None = None


def parse_vertex_bounds(text: str) -> tuple[VertexBounds, ...]:
    """Read ``pattern=least..greatest;...``.

    Raises:
        ValueError: It cannot be read, or a least parallelism is below 1 or above the greatest one.
    """
    return tuple(map(_bounds, _entries(text)))


def _entries(text: str) -> tuple[str, ...]:
    entries = syntax.parse_list(text)
    if len(entries) > MAX_PATTERNS:
        raise ValueError(f"at most {MAX_PATTERNS} patterns, not {len(entries)}")
    return entries


def _bounds(entry: str) -> VertexBounds:
    pattern, equals, limits = entry.rpartition("=")
    least, dots, greatest = limits.partition("..")
    if not (pattern.strip() and equals and dots):
        raise ValueError(f"{syntax.abbreviate(entry)!r} is not pattern=least..greatest")
    bounds = VertexBounds(validate_pattern(pattern.strip()), _number(least), _number(greatest))
    if (bounds.minimum or 1) > (bounds.maximum or bounds.minimum or 1):
        raise ValueError(f"{syntax.abbreviate(entry)!r}: the least parallelism is above the greatest")
    return bounds


def _number(text: str) -> int | None:
    if not text.strip():
        return None
    number = syntax.parse_int(text)
    if number < 1:
        raise ValueError(f"a parallelism of {number} is not possible")
    return number


def bounds_of(vertex: Vertex, bounds: Iterable[VertexBounds]) -> VertexBounds | None:
    """Return the first bounds whose pattern fits a vertex."""
    return next((each for each in bounds if matches(vertex, each.pattern)), None)
