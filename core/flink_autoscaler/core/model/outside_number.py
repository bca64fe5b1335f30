"""A number that somebody else than Flink gives about vertices of a job: values that travel with a request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NumberKind(StrEnum):
    """What a number is about."""

    __hash__ = str.__hash__

    LAG = "lag"
    ARRIVAL_RATE = "arrival-rate"
    FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class OutsideNumber:
    """The answer of one place about the vertices that a pattern fits; several are asked in order.

    Attributes:
        kind: Not :attr:`NumberKind.LAG`, which is a :class:`.SourceLag`.
        pattern: Id of a vertex, or a pattern of its name.
        origin: Who answered, for people.
        value: Records/s that arrive at a source, or the least parallelism of a vertex; None when unknown.
        problem: Why it is unknown; empty where it is known.
    """

    kind: NumberKind
    pattern: str
    origin: str
    value: float | None = None
    problem: str = ""
