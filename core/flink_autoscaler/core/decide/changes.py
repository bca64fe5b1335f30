"""Which vertices should change, and what holds a vertex back."""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.decide.decision_run import DecisionRun
from flink_autoscaler.core.decide.sizing.alignment import (
    Aligned,
    AlignmentRequest,
    balanced,
    built_in_mode,
    custom_mode_name,
)
from flink_autoscaler.core.errors import EvaluationError, PluginError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId, of
from flink_autoscaler.core.model.numbers import plain, two_decimals
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.model.state import DelayedRecommendation, ScalingSummary
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.sizing import (
    Gains,
    SizingSettings,
    VertexSizing,
    find_bottlenecks,
    ineffective_gains,
    is_outside_bounds,
    limited_sizing,
    scalability_coefficient,
    size_vertex,
    sources_of,
    tightest,
)
from flink_autoscaler.core.policies.choosing import choose, planned_sizing
from flink_autoscaler.core.policies.observing import policy_input
from flink_autoscaler.core.ports.plugins import ALIGNMENT, AlignmentContext, plugin_class, with_plugin_options


def has_memory_pressure(run: DecisionRun) -> bool:
    """Tell whether garbage collection or heap usage forbid any change; NaN forbids nothing."""
    metrics, options = run.given.metrics.globals_, run.given.options
    pressure = metrics[ScalingMetric.GC_PRESSURE].current
    if pressure > options.gc_pressure_threshold:
        _memory_event(run, "gcPressure", f"GC pressure {plain(pressure)}", AutoscalerOptions.gc_pressure_threshold.key)
        return True
    usage = metrics[ScalingMetric.HEAP_MAX_USAGE_RATIO].average
    if usage > options.heap_usage_threshold:
        _memory_event(run, "heapUsage", f"Heap usage {plain(usage)}", AutoscalerOptions.heap_usage_threshold.key)
        return True
    return False


def _memory_event(run: DecisionRun, key: str, subject: str, option_key: str) -> None:
    message = (
        f"{subject} is above the limit {option_key} for scaling. Please adjust the memory of the TaskManagers by hand."
    )
    run.tell(EventType.NORMAL, "MemoryPressure", message, key)
    run.explain("MEMORY_PRESSURE", message)


def collect_changes(run: DecisionRun) -> dict[VertexId, ScalingSummary]:
    """Return the changes of all vertices: those that its policies want, or what the default sizing comes to."""
    return _planned_changes(run) if run.given.options.has_own_policies else _sized_changes(run)


def _planned_changes(run: DecisionRun) -> dict[VertexId, ScalingSummary]:
    """Return what is left of the plan of the job's policies within factors, limits and delays."""
    given, topology = run.given, run.given.topology
    chosen = choose(policy_input(given), given.options, given.plugins.policies, given.state.policies)
    run.policies = chosen.memories
    run.reasons += chosen.plan.reasons
    run.events += chosen.events(given.options)
    settings, summaries = SizingSettings.of(given.options, given.restart_time), {}
    for vertex_id, vertex in topology.vertices.items():
        if vertex_id in given.excluded:
            run.explain(*_EXCLUDED, vertex_id)
            continue
        rate = run.vertices[vertex_id][ScalingMetric.TRUE_PROCESSING_RATE].average
        sizing = planned_sizing(vertex, chosen.plan.targets[vertex_id], rate, settings)
        change = _planned_change(run, vertex, sizing, is_sure=chosen.is_sure)
        if change is not None and change.parallelism != sizing.current:
            summaries[vertex_id] = ScalingSummary(sizing.current, change.parallelism, run.vertices[vertex_id])
    if not summaries:
        run.explain(*_NO_CHANGE)
    return summaries


def _planned_change(
    run: DecisionRun, vertex: Vertex, sizing: VertexSizing, *, is_sure: bool
) -> DelayedRecommendation | None:
    """Return the parallelism that a vertex should have from now on, None for the one it has."""
    parallelism = _aligned(run, vertex, sizing)
    if parallelism == sizing.current:
        if is_sure:
            run.delayed.clear(vertex.vertex_id)
        return None
    text = (
        f"has parallelism {sizing.current}: its policies want {round(sizing.factor * sizing.current)}, one step allows "
        f"{sizing.wanted}, within limits {sizing.target}, aligned {parallelism}"
    )
    run.explain("PLANNED", text, vertex.vertex_id)
    return _weighed(run, vertex, sizing, parallelism, is_outside=True)


_NO_CHANGE: Final = ("NO_CHANGE", "no vertex needs another parallelism now")
_EXCLUDED: Final = ("EXCLUDED", "the vertex is excluded, has finished, or reports no busy time")


def _sized_changes(run: DecisionRun) -> dict[VertexId, ScalingSummary]:
    """Return the changes that the default sizing comes to; none unless some vertex is outside its bounds."""
    summaries, is_any_outside = {}, False
    for vertex_id, sizing in _sizings(run).items():
        change = _change_of(run, run.given.topology.vertices[vertex_id], sizing)
        if change is not None and change.parallelism != sizing.current:
            is_any_outside = is_any_outside or change.is_outside
            summaries[vertex_id] = ScalingSummary(sizing.current, change.parallelism, run.vertices[vertex_id])
    if summaries and not is_any_outside:
        run.explain("WITHIN_BOUNDS", "every vertex that would change is within its utilization bounds")
        return {}
    if not summaries:
        run.explain(*_NO_CHANGE)
    return summaries


def _sizings(run: DecisionRun) -> dict[VertexId, VertexSizing]:
    """Size every vertex that may be scaled and whose rates are known."""
    settings = SizingSettings.of(run.given.options, run.given.restart_time)
    sizings = {}
    for vertex_id, vertex in run.given.topology.vertices.items():
        if vertex_id in run.given.excluded:
            run.explain(*_EXCLUDED, vertex_id)
            continue
        sizing = size_vertex(vertex, run.vertices[vertex_id], settings, _coefficient(run, vertex_id))
        if sizing is None:
            run.explain("UNKNOWN_RATE", "its processing rate or target rate is unknown", vertex_id)
        else:
            sizings[vertex_id] = sizing
    return _limited(run, sizings, settings)


def _limited(
    run: DecisionRun, sizings: dict[VertexId, VertexSizing], settings: SizingSettings
) -> dict[VertexId, VertexSizing]:
    """Scale what a bottleneck that cannot grow holds back to no more than it lets through."""
    options, topology = run.given.options, run.given.topology
    bottlenecks = find_bottlenecks(topology, run.vertices, sizings)
    if not bottlenecks or not options.improves(options.bottleneck_limit):
        return sizings
    limited, sources = dict(sizings), sources_of(topology)
    for vertex_id, sizing in sizings.items():
        bottleneck = tightest(bottlenecks, vertex_id, sources[vertex_id])
        if bottleneck is None:
            continue
        limited[vertex_id] = limited_sizing(
            topology.vertices[vertex_id],
            run.vertices[vertex_id],
            settings,
            sizing=sizing,
            share=bottleneck.share,
            coefficient=_coefficient(run, vertex_id),
        )
        if limited[vertex_id] != sizing:
            share = two_decimals(bottleneck.share)
            run.explain("BOTTLENECK", f"{bottleneck.vertex_id} sustains only {share} of the target rates", vertex_id)
    return limited


def _change_of(run: DecisionRun, vertex: Vertex, sizing: VertexSizing) -> DelayedRecommendation | None:
    """Return the parallelism a vertex should have from now on, None for the one it has."""
    vertex_id, metrics = vertex.vertex_id, run.vertices[vertex.vertex_id]
    parallelism = _aligned(run, vertex, sizing)
    if parallelism == sizing.current:
        run.delayed.clear(vertex_id)
        run.reasons.append(_sized("AT_TARGET", run, vertex, sizing, parallelism))
        return None
    run.reasons.append(_sized("SIZED", run, vertex, sizing, parallelism))
    return _weighed(run, vertex, sizing, parallelism, is_outside=is_outside_bounds(metrics))


def _weighed(
    run: DecisionRun, vertex: Vertex, sizing: VertexSizing, parallelism: int, *, is_outside: bool
) -> DelayedRecommendation | None:
    """Return what is left of a change once what holds a vertex back has been looked at."""
    expected = of((sizing.rate / sizing.current) * parallelism)
    run.vertices[vertex.vertex_id][ScalingMetric.EXPECTED_PROCESSING_RATE] = expected
    change = DelayedRecommendation(run.given.now_ms, parallelism, is_outside)
    return _scale_up(run, vertex, change) if parallelism > sizing.current else _scale_down(run, vertex, change)


def _sized(code: str, run: DecisionRun, vertex: Vertex, sizing: VertexSizing, parallelism: int) -> Reason:
    """Say how a vertex was sized, with every term of the formula."""
    text = (
        f"needs {plain(sizing.capacity)} records/s, has {plain(sizing.rate)} at parallelism {sizing.current}: "
        f"factor {two_decimals(sizing.factor)}, wanted {sizing.wanted}, within limits {sizing.target}, "
        f"aligned {parallelism}"
    )
    return Reason(code, text, vertex.vertex_id, _figures(run, vertex, sizing, parallelism))


def _figures(run: DecisionRun, vertex: Vertex, sizing: VertexSizing, parallelism: int) -> tuple[tuple[str, float], ...]:
    """Return the terms of the sizing; rates in records/s, summed over all subtasks."""
    options, metrics = run.given.options, run.vertices[vertex.vertex_id]
    target, catch_up = metrics[ScalingMetric.TARGET_DATA_RATE].average, options.catch_up_duration.seconds
    return (
        ("target_rate", target),
        ("utilization_target", options.utilization_target),
        ("catch_up_rate", metrics[ScalingMetric.CATCH_UP_DATA_RATE].current),
        ("restart_rate", target * run.given.restart_time / catch_up if catch_up else 0.0),
        ("needed_rate", sizing.capacity),
        ("processing_rate", sizing.rate),
        ("coefficient", _coefficient(run, vertex.vertex_id)),
        ("factor", sizing.factor),
        ("wanted", sizing.wanted),
        ("least", sizing.limits.lower),
        ("greatest", sizing.limits.upper),
        ("max_parallelism", vertex.max_parallelism),
        ("partitions", vertex.source_partitions),
        ("within_limits", sizing.target),
        ("aligned", parallelism),
    )


def _coefficient(run: DecisionRun, vertex_id: VertexId) -> float:
    if not run.given.options.observed_scalability:
        return 1.0
    return scalability_coefficient(run.given.state.history.get(vertex_id, ()), run.given.options)


def _aligned(run: DecisionRun, vertex: Vertex, sizing: VertexSizing) -> int:
    if sizing.target == sizing.current:
        return sizing.current
    if sizing.target < 1:
        key = AutoscalerOptions.min_parallelism.key
        raise EvaluationError(f"vertex {vertex.vertex_id}: parallelism {sizing.target} is impossible; raise {key}")
    request = AlignmentRequest(
        vertex_id=vertex.vertex_id,
        current=sizing.current,
        target=sizing.target,
        partitions=vertex.source_partitions,
        max_parallelism=vertex.max_parallelism,
        lower=sizing.limits.lower,
        upper=sizing.limits.upper,
        strategies=frozenset(vertex.inputs.values()),
    )
    aligned = _align(run, request)
    if aligned.is_limited:
        run.events.append(limited_event(request, aligned, run.given.options))
    return _within_partitions(run, vertex, sizing, aligned.parallelism)


def _within_partitions(run: DecisionRun, vertex: Vertex, sizing: VertexSizing, parallelism: int) -> int:
    """Keep a source within its partitions, whatever aligned it."""
    caps = run.given.options.improves(run.given.options.source_partition_cap)
    is_partitioned_source = vertex.is_source and vertex.source_partitions > 0
    return (
        min(parallelism, max(sizing.current, vertex.source_partitions))
        if caps and is_partitioned_source
        else parallelism
    )


def _align(run: DecisionRun, request: AlignmentRequest) -> Aligned:
    """Align with the configured mode; BALANCED stands in for a custom one that is not there.

    Raises:
        PluginError: A custom mode failed or returned something that is not a parallelism.
    """
    options, context = run.given.options, run.given.context
    name = custom_mode_name(options)
    if name is None:
        return built_in_mode(options)(request)
    identity = plugin_class(context.configuration, ALIGNMENT, name)
    mode = run.given.plugins.alignment_modes.get(identity or "")
    if mode is None:
        text = f"alignment mode {name!r} is replaced by BALANCED: no plug-in {identity!r}"
        run.warn_about_plugin("ALIGNMENT_MODE", text)
        return balanced(request)
    job = with_plugin_options(context, ALIGNMENT, name)
    try:
        given = AlignmentContext(job, request, run.vertices[request.vertex_id])
        parallelism = mode.align(given) if mode.is_applicable(given) else request.target
    except Exception as error:
        raise PluginError(f"alignment mode {name!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(parallelism, int) or parallelism < 1:
        raise PluginError(f"alignment mode {name!r} returned {parallelism!r}, not a parallelism")
    return Aligned(parallelism)


def limited_event(request: AlignmentRequest, aligned: Aligned, options: AutoscalerOptions) -> Event:
    """Make the event of a legacy alignment mode that had to deviate from a target."""
    message = (
        f"Scaling of vertex {request.vertex_id} is limited by key groups or partitions: expected parallelism "
        f"{request.target}, actual {aligned.parallelism}, key groups or partitions {request.groups}, "
        f"greatest parallelism {min(request.max_parallelism, request.upper)}, least {request.lower}"
    )
    key = f"ScalingLimited{request.vertex_id}"
    return Event(EventType.WARNING, "ScalingLimited", message, key, options.scaling_event_interval)


def _scale_up(run: DecisionRun, vertex: Vertex, change: DelayedRecommendation) -> DelayedRecommendation | None:
    given, vertex_id = run.given, vertex.vertex_id
    run.delayed.clear(vertex_id)
    rate = run.vertices[vertex_id][ScalingMetric.TRUE_PROCESSING_RATE].average
    entries = given.state.history.get(vertex_id, ())
    gains = ineffective_gains(entries, vertex.parallelism, rate, given.options.effectiveness_threshold)
    if gains is None or math.isnan(rate):  # of a rate that is not known nothing can be said
        return change
    _tell_ineffective(run, vertex_id, gains)
    if not given.options.effectiveness_detection:
        return change
    run.explain("INEFFECTIVE_SCALING", "its last scale-up had too little effect", vertex_id)
    return None


def _tell_ineffective(run: DecisionRun, vertex_id: VertexId, gains: Gains) -> None:
    expected = plain(gains.expected)
    state = "enabled" if run.given.options.effectiveness_detection else "disabled"
    message = (
        f"Ineffective scaling detected for vertex {vertex_id}: expected an increase of {expected} records/s, got "
        f"{plain(gains.actual)} records/s. Blocking of ineffective scaling is {state}."
    )
    run.tell(EventType.NORMAL, "IneffectiveScaling", message, f"ineffective{vertex_id}{expected}")


def _scale_down(run: DecisionRun, vertex: Vertex, change: DelayedRecommendation) -> DelayedRecommendation | None:
    options, vertex_id = run.given.options, vertex.vertex_id
    if _is_saturated(run, vertex):
        run.explain("SATURATED", "it is busier than the target although its upstream says it needs less", vertex_id)
        return None
    highest = run.delayed.recommend(vertex_id, change, options.scale_down_interval.ms)
    if highest is None:
        run.explain("SCALE_DOWN_DELAYED", f"waits {options.scale_down_interval} before it is scaled down", vertex_id)
        return None
    if highest.parallelism > vertex.parallelism and options.improves(options.no_stale_scale_down):
        run.explain("SCALE_DOWN_STALE", "an older recommendation exceeds the current parallelism", vertex_id)
        return None
    return highest


def _is_saturated(run: DecisionRun, vertex: Vertex) -> bool:
    """Tell whether a vertex that is fed by others is too busy to believe that it has capacity to spare."""
    options, load = run.given.options, run.vertices[vertex.vertex_id][ScalingMetric.LOAD].average
    is_guarded = not vertex.is_source and options.improves(options.saturated_vertex_guard)
    return is_guarded and load >= options.utilization_target
