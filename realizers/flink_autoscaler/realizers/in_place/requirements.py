"""Arithmetic of resource requirements (FLIP-291): what they should be, and how a change reads."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.clients import ParallelismBounds
from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.metrics import VertexId

LOWER_BOUND = 1
"""With fewer slots than wanted a job keeps running at what fits, instead of waiting for all of them; unless it is told
otherwise."""

Requirements = Mapping[VertexId, ParallelismBounds]
"""Lower and upper bound of the parallelism of every vertex of a job."""


def check_overrides(overrides: Mapping[VertexId, int]) -> None:
    """Refuse a parallelism that no cluster accepts. A plug-in or a hand-written state may hold one.

    Flink stores an upper bound of -1 before it fails on it, so such a number must never be sent.

    Raises:
        RealizeError: A value is not a whole number of at least 1.
    """
    for vertex_id, parallelism in overrides.items():
        if type(parallelism) is not int or parallelism < 1:
            raise RealizeError(
                f"vertex {vertex_id}: the parallelism {parallelism!r} is not a whole number of 1 or more"
            )


def wanted_requirements(
    current: Requirements, overrides: Mapping[VertexId, int], least: Mapping[VertexId, int] | None = None
) -> dict[VertexId, ParallelismBounds]:
    """Return the requirements of all vertices of the job, those with an override replaced.

    Overrides of vertices that the job does not have are ignored; vertices without an override keep both bounds.
    """
    return {
        vertex_id: ParallelismBounds(_lower(vertex_id, overrides, least or {}), overrides[vertex_id])
        if vertex_id in overrides
        else bounds
        for vertex_id, bounds in current.items()
    }


def _lower(vertex_id: VertexId, overrides: Mapping[VertexId, int], least: Mapping[VertexId, int]) -> int:
    return min(max(LOWER_BOUND, least.get(vertex_id, LOWER_BOUND)), overrides[vertex_id])


def describe_change(current: Requirements, wanted: Requirements) -> str:
    """Return one entry per vertex: ``id 1..2 -> 1..4``, or ``id 1..2`` where it stays."""
    return ", ".join(
        f"{vertex_id} {_text(bounds)}"
        if bounds == wanted[vertex_id]
        else f"{vertex_id} {_text(bounds)} -> {_text(wanted[vertex_id])}"
        for vertex_id, bounds in current.items()
    )


def _text(bounds: ParallelismBounds) -> str:
    return f"{bounds.lower}..{bounds.upper}"
