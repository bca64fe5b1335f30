"""Which vertices should change, and what holds a vertex back."""

from __future__ import annotations

from flink_autoscaler.core.alignment import Aligned, AlignmentRequest, built_in_mode
from flink_autoscaler.core.decision_run import DecisionRun
from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.events import Event, EventType
from flink_autoscaler.core.metrics import ScalingMetric, VertexId, of
from flink_autoscaler.core.numbers import plain
from flink_autoscaler.core.options import AutoscalerOptions
from flink_autoscaler.core.parallelism import Sizing, SizingSettings, is_outside_bounds, size_vertex
from flink_autoscaler.core.scalability import Gains, ineffective_gains, scalability_coefficient
from flink_autoscaler.core.state import DelayedRecommendation, ScalingSummary
from flink_autoscaler.core.topology import Vertex


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
    """Return the changes of all vertices; none unless some vertex is outside its bounds."""
    settings = SizingSettings.of(run.given.options, run.given.restart_time)
    summaries, is_any_outside = {}, False
    for vertex_id, vertex in run.given.topology.vertices.items():
        if vertex_id in run.given.excluded:
            run.explain("EXCLUDED", "the vertex is excluded, has finished, or reports no busy time", vertex_id)
            continue
        change = _change_of(run, vertex, settings)
        if change is not None and change.parallelism != vertex.parallelism:
            is_any_outside = is_any_outside or change.is_outside
            summaries[vertex_id] = ScalingSummary(vertex.parallelism, change.parallelism, run.vertices[vertex_id])
    if summaries and not is_any_outside:
        run.explain("WITHIN_BOUNDS", "every vertex that would change is within its utilization bounds")
        return {}
    if not summaries:
        run.explain("NO_CHANGE", "no vertex needs another parallelism now")
    return summaries


def _change_of(run: DecisionRun, vertex: Vertex, settings: SizingSettings) -> DelayedRecommendation | None:
    """Return the parallelism a vertex should have from now on, None for the one it has."""
    vertex_id, metrics = vertex.vertex_id, run.vertices[vertex.vertex_id]
    sizing = size_vertex(vertex, metrics, settings, _coefficient(run, vertex_id))
    if sizing is None:
        run.explain("UNKNOWN_RATE", "its processing rate or target rate is unknown", vertex_id)
        return None
    parallelism = _aligned(run, vertex, sizing)
    if parallelism == sizing.current:
        run.delayed.clear(vertex_id)
        run.explain("AT_TARGET", _sized_text(sizing, parallelism), vertex_id)
        return None
    expected = of((sizing.rate / sizing.current) * parallelism)
    metrics[ScalingMetric.EXPECTED_PROCESSING_RATE] = expected
    change = DelayedRecommendation(run.given.now_ms, parallelism, is_outside_bounds(metrics))
    run.explain("SIZED", _sized_text(sizing, parallelism), vertex_id)
    return _scale_up(run, vertex, change) if parallelism > sizing.current else _scale_down(run, vertex, change)


def _sized_text(sizing: Sizing, parallelism: int) -> str:
    return (
        f"needs {plain(sizing.capacity)} records/s, has {plain(sizing.rate)} at parallelism {sizing.current}: "
        f"factor {plain(sizing.factor)}, wanted {sizing.wanted}, within limits {sizing.target}, aligned {parallelism}"
    )


def _coefficient(run: DecisionRun, vertex_id: VertexId) -> float:
    if not run.given.options.observed_scalability:
        return 1.0
    return scalability_coefficient(run.given.state.history.get(vertex_id, ()), run.given.options)


def _aligned(run: DecisionRun, vertex: Vertex, sizing: Sizing) -> int:
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
    aligned = built_in_mode(run.given.options)(request)
    if aligned.is_limited:
        run.events.append(limited_event(request, aligned, run.given.options))
    return aligned.parallelism


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
    if gains is None:
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
    highest = run.delayed.recommend(vertex_id, change, options.scale_down_interval.ms)
    if highest is None:
        run.explain("SCALE_DOWN_DELAYED", f"waits {options.scale_down_interval} before it is scaled down", vertex_id)
        return None
    if highest.parallelism > vertex.parallelism and options.improves(options.no_stale_scale_down):
        run.explain("SCALE_DOWN_STALE", "an older recommendation exceeds the current parallelism", vertex_id)
        return None
    return highest
