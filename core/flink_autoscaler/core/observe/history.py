"""Scaling history and restart-time tracking: what past decisions did."""

from __future__ import annotations

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import HistoryEntry, ScalingHistory, ScalingRecord, ScalingSummaries
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.job import AutoscalerOptions


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
    targets = _targets_of(history, decided_ms)
    if ignores_forgotten and (not targets or running_at_ms < decided_ms):
        return tracking
    if not all(_runs_at(topology, vertex_id, target) for vertex_id, target in targets.items()):
        return tracking
    return (*tracking[:-1], ScalingRecord(decided_ms, running_at_ms - decided_ms))


def _targets_of(history: ScalingHistory, decided_ms: int) -> dict[VertexId, int]:
    return {
        vertex_id: entry.summary.new
        for vertex_id, entries in history.items()
        for entry in entries
        if entry.at_ms == decided_ms
    }


def _runs_at(topology: JobTopology, vertex_id: VertexId, parallelism: int) -> bool:
    vertex = topology.vertices.get(vertex_id)
    return vertex is not None and vertex.parallelism == parallelism


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
