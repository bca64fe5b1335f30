"""From a reading to the metric window: one more sample, history and tracking brought up to date."""

from __future__ import annotations

import math

from flink_autoscaler.core.errors import (
    EvaluationError,
    MissingMetricError,
    NotReadyError,
    ResponseError,
)
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading
from flink_autoscaler.core.model.state import HistoryEntry, JobState, ScalingHistory, ScalingRecord, ScalingSummaries
from flink_autoscaler.core.model.topology import JobDetails, JobTopology, build_topology
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.model.vertex_patterns import matching
from flink_autoscaler.core.observe.conversion import Conversion, base_taskmanager_metrics, convert
from flink_autoscaler.core.observe.counters import ResetAnalysis, analyze_resets
from flink_autoscaler.core.observe.freshness import collection_time_ms, task_ms
from flink_autoscaler.core.observe.plausibility import (
    active_partitions,
    ages_of,
    check_details,
    idle_subtasks,
    max_rates,
)
from flink_autoscaler.core.observe.window import WindowSettings, full_at_ms, trim, window_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.safety import LowerBound
from flink_autoscaler.core.ports.passes import PassRequest


@value
class ObservationResult:
    """A job after its sample has been added to the window.

    Attributes:
        request: The request with the state that includes the sample.
        held: Vertices that are not scaled in this pass, whatever they report.
        unknown: Vertices that are not scaled because they do not report how busy they are.
        for_rates: The metric window that rates are taken from.
        full_at_ms: When the metric window will be or was full, as far as that is known now.
    """

    request: PassRequest
    topology: JobTopology
    sample: MetricSample
    is_window_full: bool
    held: frozenset[VertexId]
    unknown: frozenset[VertexId]
    for_rates: tuple[MetricSample, ...]
    full_at_ms: int

    @property
    def excluded(self) -> frozenset[VertexId]:
        """Vertices that are not scaled in this pass."""
        return self.held | self.unknown


def finished_vertices(details: JobDetails | None) -> frozenset[VertexId]:
    """Return the vertices that have finished; none when the details are not known."""
    return frozenset(v.vertex_id for v in details.vertices if v.status == "FINISHED") if details else frozenset()


def take_observation(request: PassRequest, reading: JobReading, cluster: ClusterReading) -> ObservationResult:
    """Add the sample of this pass and bring history and tracking up to date.

    Raises:
        NotReadyError: The job has just started; try again.
        AutoscalerError: The reading failed or does not make sense; no sample is added.
    """
    details, options, now_ms = reading.details, request.context.options, request.now_ms
    if details is None:
        raise reading.error or NotReadyError(f"job {request.context.job_id}: no details")
    if details.running_at_ms is None:
        raise ResponseError(f"job {details.job_id}: the details have no timestamp for RUNNING")
    topology, restriction = _topology(details, request, reading), request.context.restriction
    if options.is_improved:
        check_details(details, topology)
    window = WindowSettings(
        stable_at_ms=details.running_at_ms + options.stabilization_interval.ms,
        length_ms=options.metrics_window.ms,
        keeps_edge=options.is_improved,
    )
    if reading.error is not None:
        if isinstance(reading.error, MissingMetricError) and now_ms >= window.stable_at_ms:
            raise EvaluationError(f"{reading.error} after the stabilization interval")  # the job had time to report it
        raise reading.error
    memory = _with_gc_flag(reading, cluster, options)
    reading = replace(reading, memory=replace(memory, task_ms=task_ms(details)))
    older = _older_samples(request.state, details)
    gathered = collection_time_ms(request, older[-1] if older else None, reading, cluster)
    at_ms = gathered if reading.at_ms is None else min(reading.at_ms, now_ms)  # its source knows better
    conversion = Conversion.of(options, older, ages_of(details, now_ms, max(0, now_ms - at_ms)))
    sample, unknown = convert(at_ms, topology, reading, cluster, conversion)
    window_full_at_ms = full_at_ms(older, window, now_ms)
    is_full = now_ms >= window_full_at_ms
    samples = _with_sample(older, sample)
    left = reset_analysis(trim(samples, window, now_ms) if is_full else samples, topology, options)
    history, tracking = _past(request.state, topology, details.running_at_ms, options, now_ms)
    state = replace(
        request.state, job_id=request.context.job_id, samples=left.stored, history=history, tracking=tracking
    )
    held = frozenset(options.vertex_exclude_ids) | topology.finished | restriction.fixed
    if patterns := (*options.vertex_exclude_names, *(pin.pattern for pin in request.orders.pins)):
        held |= matching(topology, patterns)
    request = replace(request, state=state, memory=reading.memory)
    expected_ms = max(window_full_at_ms, window.stable_at_ms + window.length_ms)
    return ObservationResult(request, topology, sample, is_full, held, unknown, left.for_rates, expected_ms)


def _topology(details: JobDetails, request: PassRequest, reading: JobReading) -> JobTopology:
    """Return the job graph with what else is known of its vertices: partitions, floors, and subtasks without any input.

    Partitions are those that a source reads where it tells, else those that its metric ids tell of.
    """
    vertices, options = dict(build_topology(details).vertices), request.context.options
    floors, told, partitions = (
        floors_of(reading, options),
        request.context.restriction.floors,
        reading.memory.partitions,
    )
    for v, vertex in vertices.items():
        count, floor, answers = (
            partitions.get(v, 0),
            max(floors.get(v, 0), told.get(v, 0)),
            reading.aggregates.get(v, {}),
        )
        if options.is_improved:
            count = active_partitions(count, answers, vertex.parallelism) if vertex.is_source else 0
        if count or floor:
            vertices[v] = replace(vertex, source_partitions=count, floor=floor)
            if options.is_improved and (idle := idle_subtasks(vertices[v], answers)):
                vertices[v] = replace(vertices[v], idle_subtasks=idle)
    return JobTopology(vertices)


def reset_analysis(
    samples: tuple[MetricSample, ...], topology: JobTopology, options: AutoscalerOptions
) -> ResetAnalysis:
    """Return the window without what its counters cannot have said; in the reference as it is."""
    if not options.is_improved:
        return ResetAnalysis(samples, samples)
    return analyze_resets(samples, max_rates(topology, options.max_rate))


def without_sample(observed: ObservationResult, index: int) -> ObservationResult:
    """Return what would have been observed without one sample of the window; the job graph is that of now.

    Args:
        observed: With at least two samples.
        index: Which of them, the oldest being 0.
    """
    options, samples = observed.request.context.options, observed.request.state.samples
    left = reset_analysis((*samples[:index], *samples[index + 1 :]), observed.topology, options)
    window = window_of(left.for_rates)
    loads = {v: window.latest(ScalingMetric.LOAD, v) for v in observed.topology.vertices}
    unknown = frozenset([v for v, load in loads.items() if load is None or not math.isfinite(load)])
    return replace(observed, for_rates=left.for_rates, unknown=unknown)


def _with_sample(older: tuple[MetricSample, ...], sample: MetricSample) -> tuple[MetricSample, ...]:
    """Add the sample; one of the same instant is replaced, later ones (a clock that went back) are dropped."""
    if not older or older[-1].at_ms < sample.at_ms:
        return (*older, sample)
    return (*(s for s in older if s.at_ms < sample.at_ms), sample)


def _older_samples(state: JobState, details: JobDetails) -> tuple[MetricSample, ...]:
    """Return the samples of the current execution: none after a restart or for another job."""
    is_other_job = state.job_id is not None and state.job_id != details.job_id
    running_at_ms = details.running_at_ms or 0
    if is_other_job or (state.samples and running_at_ms > state.samples[0].at_ms):
        return ()
    return state.samples


def _past(
    state: JobState, topology: JobTopology, running_at_ms: int, options: AutoscalerOptions, now_ms: int
) -> tuple[ScalingHistory, tuple[ScalingRecord, ...]]:
    """Return the scaling history trimmed and pruned, and tracking, of which the latest is completed where possible."""
    history = trim_history(prune_history(state.history, topology), options, now_ms)
    tracking = complete_tracking(
        trim_tracking(state.tracking, options, now_ms),
        history,
        topology,
        running_at_ms=running_at_ms,
        ignores_forgotten=options.is_improved,
    )
    return history, tracking


def memory_after_failure(reading: JobReading, cluster: ClusterReading) -> CollectorMemory:
    """Forget whether garbage collection is reported when the TaskManagers answered nothing of what was asked for."""
    asked = cluster.taskmanagers if reading.memory.reports_gc else base_taskmanager_metrics(cluster)
    is_silent = reading.error is None and cluster.error is None and not asked
    return replace(reading.memory, reports_gc=None) if is_silent else reading.memory


def _with_gc_flag(reading: JobReading, cluster: ClusterReading, options: AutoscalerOptions) -> CollectorMemory:
    """Remember whether the TaskManagers report garbage collection; forget it when they report nothing.

    What they report only helps: a job is evaluated without it, except as the reference does it.
    """
    if cluster.error is not None and not options.is_improved:
        raise cluster.error
    memory = reading.memory
    reports_gc = bool(cluster.taskmanagers) if memory.reports_gc is None else memory.reports_gc
    if cluster.taskmanagers if reports_gc else base_taskmanager_metrics(cluster):
        return memory if reports_gc is memory.reports_gc else replace(memory, reports_gc=reports_gc)
    if not options.is_improved:
        raise EvaluationError("the TaskManagers do not report the required memory metrics")
    return replace(memory, reports_gc=None)


def unknown_facts(request: PassRequest, cluster: ClusterReading) -> tuple[Reason, ...]:
    """Return what a decision had to do without, as a reason; none where all is known, or in the reference."""
    options = request.context.options
    if not options.is_improved:
        return ()
    missing = {**request.context.unknown, **cluster.missing}
    if not (cluster.has_taskmanagers or cluster.missing):
        missing["heap and garbage collection"] = "the TaskManagers do not report them"
    if not missing:
        return ()
    text = "; ".join(f"{name}: {why}" for name, why in sorted(missing.items()))
    return (Reason.of(ReasonCode.FACTS_UNKNOWN, facts=text),)


def keeps_floors(options: AutoscalerOptions) -> bool:
    """Tell whether lower bounds in a job's resource requirements are kept: the autoscaler itself only sets 1 then."""
    return options.is_improved and options.lower_bound is LowerBound.ONE


def floors_of(reading: JobReading, options: AutoscalerOptions) -> dict[VertexId, int]:
    """Return the lower bounds above 1 in the resource requirements of a job, of the vertices that have one.

    Empty where the requirements were not asked for in this pass; bounds that contradict each other are none.
    """
    requirements = reading.facts.requirements if reading.facts else None
    if not requirements or not keeps_floors(options):
        return {}
    return {v: lower for v, (lower, upper) in requirements.items() if 1 < lower <= upper}


def trim_history(history: ScalingHistory, options: AutoscalerOptions, now_ms: int) -> ScalingHistory:
    """Keep the newest entries of each vertex, within the configured age and number."""
    since_ms, count = now_ms - options.history_max_age.ms, options.history_max_count
    trimmed = {}
    for vertex_id, entries in history.items():
        kept = tuple(entry for entry in entries if entry.at_ms >= since_ms)
        kept = kept[max(0, len(kept) - count) :] if count > 0 else ()
        if kept:
            trimmed[vertex_id] = kept
    return trimmed


def prune_history(history: ScalingHistory, topology: JobTopology) -> ScalingHistory:
    """Forget vertices that the job no longer has."""
    if all(vertex_id in topology.vertices for vertex_id in history):
        return history
    return {vertex_id: entries for vertex_id, entries in history.items() if vertex_id in topology.vertices}


def add_to_history(history: ScalingHistory, summaries: ScalingSummaries, now_ms: int) -> ScalingHistory:
    """Append a decision."""
    added = {
        vertex_id: (*history.get(vertex_id, ()), HistoryEntry(now_ms, summary))
        for vertex_id, summary in summaries.items()
    }
    return {**history, **added}


def trim_tracking(
    tracking: tuple[ScalingRecord, ...], options: AutoscalerOptions, now_ms: int
) -> tuple[ScalingRecord, ...]:
    """Keep the newest records within the configured age and number, and always the latest."""
    if not tracking:
        return tracking
    since_ms, count = now_ms - options.history_max_age.ms, options.history_max_count
    kept = tuple(record for record in tracking if record.at_ms >= since_ms)
    kept = kept[max(0, len(kept) - count) :] if count > 0 else ()
    return kept or tracking[-1:]


def complete_tracking(
    tracking: tuple[ScalingRecord, ...],
    history: ScalingHistory,
    topology: JobTopology,
    *,
    running_at_ms: int,
    ignores_forgotten: bool,
) -> tuple[ScalingRecord, ...]:
    """Fill in how long the latest decision took, once the job runs at the parallelism it asked for.

    Args:
        tracking: Records, oldest first.
        history: Decisions per vertex.
        topology: The job as it is now.
        running_at_ms: When the job last started to run.
        ignores_forgotten: Leave a record alone whose decision is not in the history any more, or after which the
            job has not restarted; else its target counts as reached.
    """
    if not tracking or tracking[-1].restart_ms is not None:
        return tracking
    decided_ms = tracking[-1].at_ms
    targets = {v: e.summary.new for v, entries in history.items() for e in entries if e.at_ms == decided_ms}
    if ignores_forgotten and (not targets or running_at_ms < decided_ms):
        return tracking
    for vertex_id, target in targets.items():
        vertex = topology.vertices.get(vertex_id)
        if vertex is None or vertex.parallelism != target:
            return tracking
    return (*tracking[:-1], ScalingRecord(decided_ms, running_at_ms - decided_ms))


def restart_time(tracking: tuple[ScalingRecord, ...], options: AutoscalerOptions) -> int:
    """Return the seconds a restart is assumed to take: the longest measured one within its cap, or the option."""
    if options.restart_time_tracking and is_restart_tracked(tracking):
        return min(_longest_tracked(tracking), options.restart_time_limit.seconds)
    return options.restart_time.seconds


def is_restart_tracked(tracking: tuple[ScalingRecord, ...]) -> bool:
    """Return whether a restart was recorded that took no less than nothing."""
    return _longest_tracked(tracking) >= 0


def _longest_tracked(tracking: tuple[ScalingRecord, ...]) -> int:
    return max((record.restart_ms // 1000 for record in tracking if record.restart_ms is not None), default=-1)
