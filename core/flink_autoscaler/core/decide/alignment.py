"""Aligning a parallelism to key groups or source partitions, so that subtasks get even shares."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import VertexLimits, VertexSizing
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy, Vertex
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.job import AutoscalerOptions, LegacyAlignmentMode
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import (
    ALIGNMENT,
    AlignmentContext,
    AlignmentRequest,
    Plugins,
    plugin_class,
    with_plugin_options,
)

OFF = "OFF"
BALANCED = "BALANCED"
EVENLY_SPREAD = "EVENLY_SPREAD"


@value
class AlignmentResult:
    """An aligned parallelism.

    Attributes:
        is_limited: Whether a legacy mode had to deviate from the target (to be reported).
        beyond: The next parallelism with even shares, where that is too far above the target to go there; else None.
        problem: Why the configured mode was not used; None where it was.
    """

    parallelism: int
    is_limited: bool = False
    beyond: int | None = None
    problem: str | None = None


AlignmentMode = Callable[[AlignmentRequest], AlignmentResult]


def search(request: AlignmentRequest, *, accepts_less_load: bool) -> int | None:
    """Search upward from the target for a parallelism with even shares.

    Args:
        request: What to align; a scale-down is searched up to the current parallelism.
        accepts_less_load: Also accept a parallelism whose busiest subtask gets fewer groups than at the target.

    Returns:
        The first match; None when there is none up to the bound.
    """
    end = request.bound if request.is_scale_up else min(request.current, request.bound)
    groups, target = request.groups, request.target
    divisors = _divisors(groups)
    found = next(iter(divisors[bisect_left(divisors, target) :]), end + 1)
    if accepts_less_load and groups // target > 0:
        found = min(found, groups // (groups // target) + 1)
    return found if found <= end else None


@lru_cache(maxsize=256)
def _divisors(groups: int) -> tuple[int, ...]:
    """Return the divisors of a number above 0, ascending."""
    low = [each for each in range(1, isqrt(groups) + 1) if groups % each == 0]
    return tuple(sorted({*low, *(groups // each for each in low)}))


def keep_target(request: AlignmentRequest) -> AlignmentResult:
    """Keep the target."""
    return AlignmentResult(request.target)


def align_balanced(request: AlignmentRequest) -> AlignmentResult:
    """Take the next parallelism that lowers the load of the busiest subtask, or the target."""
    found = search(request, accepts_less_load=True) if request.is_applicable else None
    return AlignmentResult(request.target if found is None else found)


def align_evenly_spread(request: AlignmentRequest) -> AlignmentResult:
    """Take the next parallelism that divides the groups, or the target."""
    found = search(request, accepts_less_load=False) if request.is_applicable else None
    return AlignmentResult(request.target if found is None else found)


def legacy_evenly_spread(request: AlignmentRequest) -> AlignmentResult:
    """Like :func:`align_evenly_spread`, walking down where nothing is found above."""
    return _align_legacy(request, accepts_less_load=False)


def legacy_maximize_utilisation(request: AlignmentRequest) -> AlignmentResult:
    """Like :func:`align_balanced`, walking down where nothing is found above."""
    return _align_legacy(request, accepts_less_load=True)


def _align_legacy(request: AlignmentRequest, *, accepts_less_load: bool) -> AlignmentResult:
    if not request.is_applicable:
        return AlignmentResult(request.target)
    found = search(request, accepts_less_load=accepts_less_load)
    return _walk_down(request) if found is None else AlignmentResult(found)


def _walk_down(request: AlignmentRequest) -> AlignmentResult:
    """Take the least parallelism whose subtasks have the same share as at the next larger share's edge."""
    groups, target = request.groups, request.target
    candidate = min(groups // (groups // target + 1), target)
    if candidate > 0 and groups % candidate != 0:
        candidate += 1
    candidate = max(candidate, request.lower)
    if (candidate <= request.current) if request.is_scale_up else (candidate >= request.current):
        return AlignmentResult(request.current, is_limited=True)
    return AlignmentResult(candidate, is_limited=candidate != target)


_BUILT_IN: dict[str, AlignmentMode] = {OFF: keep_target, BALANCED: align_balanced, EVENLY_SPREAD: align_evenly_spread}
_LEGACY: dict[LegacyAlignmentMode, AlignmentMode] = {
    LegacyAlignmentMode.EVENLY_SPREAD: legacy_evenly_spread,
    LegacyAlignmentMode.MAXIMIZE_UTILISATION: legacy_maximize_utilisation,
}


class AlignmentSettings(NamedTuple):
    """How a job is aligned.

    Attributes:
        custom: The name of the custom mode that is configured; None where none is.
        mode: The built-in mode that is configured; BALANCED stands in for a custom one.
        max_increase: By which share of a target alignment may raise it; the reference knows no limit.
    """

    custom: str | None
    mode: AlignmentMode
    max_increase: float

    @classmethod
    def of(cls, options: AutoscalerOptions) -> AlignmentSettings:
        """Read the options of a job."""
        is_limited = options.is_improved or options.is_set(AutoscalerOptions.alignment_max_increase)
        most = options.alignment_max_increase if is_limited else math.inf
        if options.is_set(AutoscalerOptions.alignment_mode):
            name = options.alignment_mode
            return cls(None if name in _BUILT_IN else name, _BUILT_IN.get(name, align_balanced), most)
        is_legacy = options.is_set(AutoscalerOptions.legacy_alignment_mode)
        return cls(None, _LEGACY[options.legacy_alignment_mode] if is_legacy else align_balanced, most)


def within_increase(target: int, aligned: AlignmentResult, most: float) -> AlignmentResult:
    """Keep a target that even shares would raise by more than a share of it; one subtask more is always fine."""
    is_beyond = aligned.parallelism - target > max(1.0, most * target)
    return AlignmentResult(target, beyond=aligned.parallelism) if is_beyond else aligned


def alignment_request(vertex: Vertex, limits: VertexLimits, current: int, target: int) -> AlignmentRequest:
    """Return what is to be aligned.

    Args:
        vertex: The vertex.
        limits: Its bounds.
        current: Parallelism now.
        target: Wanted parallelism.
    """
    return AlignmentRequest(
        vertex_id=vertex.vertex_id,
        current=current,
        target=target,
        partitions=vertex.source_partitions,
        max_parallelism=vertex.max_parallelism,
        lower=limits.lower,
        upper=limits.upper,
        strategies=frozenset(vertex.inputs.values()),
    )


def reachable_sizes_by_vertex(
    topology: JobTopology, options: AutoscalerOptions, restart_time: int
) -> dict[VertexId, Sequence[int]]:
    """Return every parallelism that alignment can come to, by vertex that is aligned; see :func:`reachable_sizes`."""
    settings, found = SizingSettings.of(options, restart_time), dict[VertexId, Sequence[int]]()
    for vertex_id, vertex in topology.vertices.items():
        if not vertex.is_finished:
            limits = limits_of(vertex, vertex.working_subtasks, settings)
            working = vertex.working_subtasks
            sizes = reachable_sizes(alignment_request(vertex, limits, working, working), options)
            if sizes is not None:
                found[vertex_id] = sizes
    return found


def reachable_sizes(request: AlignmentRequest, options: AutoscalerOptions) -> tuple[int, ...] | None:
    """Return every parallelism that alignment can come to for a target within the bounds, ascending.

    Args:
        request: Its target does not matter.
        options: With the mode.

    Returns:
        The present parallelism is among them; None where alignment leaves all targets as they are, or a custom mode
        may do anything.
    """
    settings = options.derive(AlignmentSettings.of)
    if settings.custom is not None or settings.mode is keep_target or not request.is_applicable:
        return None
    return _reachable_sizes(replace(request, vertex_id="", target=1), settings.mode, settings.max_increase)


@lru_cache(maxsize=4096)
def _reachable_sizes(request: AlignmentRequest, mode: AlignmentMode, most: float) -> tuple[int, ...]:
    targets = range(max(request.lower, 1), max(request.bound, request.current) + 1)
    aligned = (
        within_increase(each, mode(replace(request, target=each)), most).parallelism
        for each in targets
        if each != request.current
    )
    return tuple(sorted({request.current, *aligned}))


def align(vertex: Vertex, sizing: VertexSizing, job: EvaluatedJob, plugins: Plugins) -> AlignmentResult:
    """Align with the configured mode.

    Raises:
        PluginError: A custom mode failed or returned something that is not a parallelism.
    """
    limits, settings = sizing.limits, job.context.options.derive(AlignmentSettings.of)
    if settings.custom is not None:
        request = alignment_request(vertex, limits, sizing.current, sizing.target)
        return _by_plugin(settings.custom, request, job, plugins)
    has_keys, spread = ShipStrategy.HASH in vertex.inputs.values(), (vertex.source_partitions, vertex.max_parallelism)
    aligned = _align_builtin(
        settings.mode, has_keys, spread, (limits.lower, limits.upper), sizing.current, sizing.target
    )
    return within_increase(sizing.target, aligned, settings.max_increase)


def _by_plugin(name: str, request: AlignmentRequest, job: EvaluatedJob, plugins: Plugins) -> AlignmentResult:
    """Align with a custom mode; BALANCED stands in for one that is not there."""
    context = job.context
    identity = plugin_class(context.configuration, ALIGNMENT, name)
    custom = plugins.alignment_modes.get(identity or "")
    if custom is None:
        problem = f"alignment mode {name!r} is replaced by BALANCED: no plug-in {identity!r}"
        return replace(align_balanced(request), problem=problem)
    given = AlignmentContext(
        with_plugin_options(context, ALIGNMENT, name), request, job.metrics.vertices[request.vertex_id]
    )
    parallelism = try_call(lambda: custom.align(given) if custom.is_applicable(given) else request.target)
    if isinstance(parallelism, AutoscalerError):
        raise PluginError(f"alignment mode {name!r} failed: {parallelism}") from parallelism
    if not isinstance(parallelism, int) or parallelism < 1:
        raise PluginError(f"alignment mode {name!r} returned {parallelism!r}, not a parallelism")
    return AlignmentResult(parallelism)


@lru_cache(maxsize=4096)
def _align_builtin(
    mode: AlignmentMode, has_keys: bool, spread: tuple[int, int], limits: tuple[int, int], current: int, target: int
) -> AlignmentResult:
    """Align with a built-in mode, which goes by numbers alone; they are the same from pass to pass."""
    strategies = frozenset({ShipStrategy.HASH} if has_keys else ())
    return mode(AlignmentRequest("", current, target, *spread, *limits, strategies))


def alignment_limited_event(request: AlignmentRequest, aligned: AlignmentResult, options: AutoscalerOptions) -> Event:
    """Make the event of a legacy alignment mode that had to deviate from a target."""
    message = (
        f"Scaling of vertex {request.vertex_id} is limited by key groups or partitions: expected parallelism "
        f"{request.target}, actual {aligned.parallelism}, key groups or partitions {request.groups}, "
        f"greatest parallelism {min(request.max_parallelism, request.upper)}, least {request.lower}"
    )
    key = f"ScalingLimited{request.vertex_id}"
    return Event(EventType.WARNING, "ScalingLimited", message, key, options.scaling_event_interval)
