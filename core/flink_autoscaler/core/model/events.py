"""What the autoscaler tells people: reasons, events and scaling reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast, overload

from flink_autoscaler.core.model.message_catalog import ReasonCode, Word, render_reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.model.value import value

Figures = Sequence[tuple[str, float]]
"""Numbers by name, in the order in which they are shown."""


class NamedFigures(Sequence[tuple[str, float]]):
    """Numbers whose names are those of many others: the pairs are made when somebody looks at them.

    A pass says fifteen numbers of every vertex, and a daemon holds those of its last pass over all jobs.

    Args:
        names: A tuple that others share.
        values: As many.
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: tuple[str, ...], values: tuple[float, ...]) -> None:
        self._names = names
        self._values = values

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return zip(self._names, self._values, strict=True)

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, place: int) -> tuple[str, float]: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[tuple[str, float], ...]: ...

    def __getitem__(self, place: int | slice) -> tuple[str, float] | tuple[tuple[str, float], ...]:
        return tuple(self)[place]

    def __repr__(self) -> str:
        return repr(tuple(self))


@value
class Reason:
    """Why a decision is what it is.

    Attributes:
        code: Stable upper-snake-case word for programs, such as ``WITHIN_BOUNDS``.
        text: One sentence for people. That of a code of the catalog is rendered when it is read.
        vertex_id: The vertex it is about; None for the whole job.
        figures: The numbers behind the text by name, for whoever shows them in another way; not part of what it says.
    """

    code: str
    text: str
    vertex_id: VertexId | None = None
    figures: Figures = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, code: ReasonCode, vertex_id: VertexId | None = None, figures: Figures = (), **words: Word) -> Reason:
        """Make a reason whose sentence is in the catalog.

        Args:
            code: Of the catalog.
            vertex_id: The vertex it is about; None for the whole job.
            figures: Numbers by name.
            words: What the sentence needs beside the figures.
        """
        # A plain text, so that what is pickled or stored needs no class for it.
        return cls(code.value, cast("str", words), vertex_id, figures)

    def attributed_to(self, name: str) -> Reason:
        """Return the reason with the name of who gives it in front of its sentence."""
        held = _HELD.__get__(self)
        said = f"{name}: {held}" if isinstance(held, str) else {**held, "said_by": name}
        return Reason(self.code, cast("str", said), self.vertex_id, self.figures)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without the sentence where nobody has read it."""
        return Reason, (self.code, _HELD.__get__(self), self.vertex_id, self.figures)


_HELD: Final[Any] = Reason.__dict__["text"]
"""The slot: the sentence, or the words from which the catalog renders it."""


def _text_of(reason: Reason) -> str:
    held = _HELD.__get__(reason)
    return held if isinstance(held, str) else render_reason(reason.code, {**dict(reason.figures), **held})


# A field still, which records are read into: equality, codecs and stored passes have the sentence under its name.
Reason.text = property(_text_of, _HELD.__set__)  # type: ignore[assignment]


STACK_TRACE_LIMIT = 2048


class EventType(StrEnum):
    """How much attention an event deserves."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """Something a person may want to know about a job.

    Two events are the same when job, type, reason and key (without a key: message) are the same.

    Attributes:
        reason: What happened, as one upper-camel-case word where possible.
        message: For people; may be long.
        key: Identity for de-duplication; None means that the message is the identity.
        interval: A repetition within this time after the first is not reported again; None reports every one.
        figures: The numbers behind the message by name; not part of what the event is.
    """

    type: EventType
    reason: str
    message: str
    key: str | None = None
    interval: Duration | None = None
    figures: Figures = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class VertexReport:
    """One vertex of a scaling report; rates in records/s, NaN where unknown."""

    name: str
    current: int
    new: int
    capacity: float
    expected_capacity: float
    target_rate: float


@dataclass(frozen=True, slots=True)
class ScalingReport:
    """A decision to rescale, executed or only recommended.

    Attributes:
        is_executed: Whether the change is carried out; when not, ``header`` says what prevents it.
        header: Lead-in of the text, ending in a colon.
        vertices: Changed vertices; never empty.
        text: ``header`` and one entry per vertex.
        parallelism_hash: Digest of the changes of parallelism alone, for de-duplication.
        interval: De-duplication interval of a report that is not executed.
    """

    is_executed: bool
    header: str
    vertices: Mapping[VertexId, VertexReport]
    text: str
    parallelism_hash: str
    interval: Duration


def exception_event(reason: str, message: str, interval: Duration | None = None) -> Event:
    """Make the event for an error: a warning without a key.

    Args:
        reason: What kind of error.
        message: Its text.
        interval: A repetition within this time is not reported again; None reports every one.
    """
    if len(message) > STACK_TRACE_LIMIT:
        message = message[: STACK_TRACE_LIMIT - 3] + "..."
    return Event(EventType.WARNING, reason, message, interval=interval)
