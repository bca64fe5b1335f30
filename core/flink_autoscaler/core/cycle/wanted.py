"""What a pass has realized: the parallelism that was decided earlier or now, with the user's own overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.decision import PassOutcome, PassRequest
from flink_autoscaler.core.model.job import JobAutoScalerContext
from flink_autoscaler.core.model.metrics import VertexId


def with_wanted(outcome: PassOutcome, request: PassRequest) -> PassOutcome:
    """Add what is to be realized now."""
    wanted = wanted_now(request, outcome.state.overrides, outcome.excluded)
    return replace(outcome, wanted=wanted, wanted_config=request.context.options.memory_tuning)


def wanted_now(
    request: PassRequest, overrides: Mapping[VertexId, int], excluded: frozenset[VertexId]
) -> dict[VertexId, int]:
    """Return what is to be realized; nothing in a dry run."""
    if request.orders.dry_run is not None or request.context.options.dry_run:
        return {}
    return wanted_parallelism(request.context, overrides, excluded)


def wanted_parallelism(
    context: JobAutoScalerContext, overrides: Mapping[VertexId, int], excluded: frozenset[VertexId]
) -> dict[VertexId, int]:
    """Merge what was decided with the user's own overrides.

    Args:
        context: For the user's overrides and excluded vertices.
        overrides: Decided parallelism; empty before the first decision, and then nothing is wanted.
        excluded: Vertices excluded during this pass; for them the user's value wins, where there is one.

    Raises:
        ConfigError: A user's override is not a number.
    """
    if not overrides:
        return {}
    wanted = {v: _number(v, text) for v, text in context.flink_options.parallelism_overrides.items()}
    excluded = excluded | frozenset(context.options.vertex_exclude_ids)
    for vertex_id, parallelism in overrides.items():
        if vertex_id not in excluded or vertex_id not in wanted:
            wanted[vertex_id] = parallelism
    return wanted


def _number(vertex_id: VertexId, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(
            f"pipeline.jobvertex-parallelism-overrides: {vertex_id} has {text!r}, not a number"
        ) from error
