"""Why something was decided, in words and figures."""

from __future__ import annotations

from dataclasses import dataclass, field

from flink_autoscaler.core.model.metrics import VertexId


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a decision is what it is.

    Attributes:
        code: Stable upper-snake-case word for programs, such as ``WITHIN_BOUNDS``.
        text: One sentence for people.
        vertex_id: The vertex it is about; None for the whole job.
        figures: The numbers behind the text by name, for whoever shows them in another way; not part of what it says.
    """

    code: str
    text: str
    vertex_id: VertexId | None = None
    figures: tuple[tuple[str, float], ...] = field(default=(), compare=False, repr=False)
