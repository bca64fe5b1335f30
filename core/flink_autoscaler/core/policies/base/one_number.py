"""One parallelism for a whole job: what it is, and what it means for the vertices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, VertexObs
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.catch_up import Backlog, Load, load_reasons
from flink_autoscaler.core.policies.base.proposals import direction_of, missing
from flink_autoscaler.core.policies.base.quantities import subtasks

JOB = "job"
"""What the number of a whole job is remembered by."""


def number_of(obs: JobObservation) -> int:
    """Return the parallelism of a job: that of its widest vertex; 1 without vertices."""
    return max((vertex.parallelism for vertex in obs.vertices.values()), default=1)


def within(obs: JobObservation, number: int) -> int:
    """Return the number within what any of the vertices may have."""
    least = min(vertex.min_parallelism for vertex in obs.vertices.values())
    return min(max(least, number), max(vertex.max_parallelism for vertex in obs.vertices.values()))


def spread(obs: JobObservation, number: int, *, is_growing: bool) -> dict[VertexId, int]:
    """Return what a number means for the vertices.

    Args:
        obs: The job.
        number: For the whole job.
        is_growing: Whether a vertex needs more than it has. Else none is raised: those that are wider go down to it.
    """
    return {
        v: subtasks(number if is_growing else min(number, vertex.parallelism), vertex)
        for v, vertex in obs.vertices.items()
    }


def without_busy_time(obs: JobObservation) -> tuple[Reason, ...]:
    """Return a reason for every vertex of which it is not known how busy it is."""
    return tuple(missing(vertex, "busy time") for vertex in obs.vertices.values() if vertex.busy is None)


def busiest(obs: JobObservation) -> VertexObs | None:
    """Return the vertex with the greatest busy share; None when none is known."""
    known = [vertex for vertex in obs.vertices.values() if vertex.busy is not None]
    return max(known, key=lambda vertex: vertex.busy or 0.0, default=None)


def limiting(obs: JobObservation, threshold: float) -> VertexObs | None:
    """Return the busiest vertex where it is at least that busy and cannot grow: what it cannot feed needs no more."""
    vertex = busiest(obs)
    if vertex is None or (vertex.busy or 0.0) < threshold or vertex.parallelism < vertex.max_parallelism:
        return None
    return vertex


def limit_reason(vertex: VertexObs) -> Reason:
    """Return the reason for not scaling up a job whose bottleneck cannot grow."""
    text = f"{vertex.name} is the bottleneck at its greatest parallelism {vertex.max_parallelism}"
    return Reason("SCALING_LIMITED", text, vertex.vertex_id)


def proposal_of(
    policy: str,
    obs: JobObservation,
    targets: Mapping[VertexId, int],
    reasons: Iterable[Reason],
    state: Mapping[str, Any],
    *,
    blocks_down: bool = False,
) -> Proposal:
    """Make a proposal; the capacity of a vertex is what its subtasks do now, times their number."""
    sized = {v: _capacity(obs.vertices[v], target) for v, target in targets.items()}
    capacity = {v: rate for v, rate in sized.items() if rate is not None and math.isfinite(rate)}
    return Proposal(
        policy, targets, direction_of(obs, targets), capacity, 1.0, tuple(reasons), blocks_down=blocks_down, state=state
    )


def proposal_under(
    load: Load,
    backlog: Backlog,
    policy: str,
    obs: JobObservation,
    number: int,
    reasons: Iterable[Reason],
    state: Mapping[str, Any],
) -> Proposal:
    """Make the proposal of one number under a load; while the job catches up, nothing is to go down."""
    targets = spread(obs, number, is_growing=number > number_of(obs))
    said = (*reasons, *load_reasons(obs, load, backlog))
    return proposal_of(policy, obs, targets, said, state, blocks_down=load is Load.CATCHING_UP)


def _capacity(vertex: VertexObs, target: int) -> float | None:
    return None if vertex.true_rate is None else vertex.true_rate / vertex.parallelism * target


def number_reason(before: int, after: int, why: str) -> Reason:
    """Return the reason for the number of a job, which may be what it was."""
    figures = (("current", float(before)), ("target", float(after)))
    if before == after:
        return Reason("NO_CHANGE", f"parallelism stays {before}: {why}", None, figures)
    return Reason("SCALE_UP" if after > before else "SCALE_DOWN", f"{before} -> {after}: {why}", None, figures)
