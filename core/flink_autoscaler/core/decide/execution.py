"""From evaluated metrics to a decision: what is changed, what prevents it, and what is recorded."""

from __future__ import annotations

from dataclasses import replace

from flink_autoscaler.core.decide.changes import collect_changes, has_memory_pressure
from flink_autoscaler.core.decide.decision_run import DecisionRun, Executed, ExecutionInput
from flink_autoscaler.core.decide.filters.rescale_filters import calmed
from flink_autoscaler.core.decide.limits.reactive_plan import in_whole_taskmanagers
from flink_autoscaler.core.decide.limits.resources import apply_executors, within_resources
from flink_autoscaler.core.decide.memory.tuning import TuningInput, recommendation_event, tune
from flink_autoscaler.core.decide.report import blocked_header, scaling_report
from flink_autoscaler.core.decide.sizing.delayed import DelayedScaleDown
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import ScalingReport
from flink_autoscaler.core.model.metrics import ScalingMetric, of
from flink_autoscaler.core.model.orders import Orders
from flink_autoscaler.core.model.state import ConfigChanges, JobState, ScalingRecord, ScalingSummaries
from flink_autoscaler.core.observe.history import add_to_history
from flink_autoscaler.core.options import calendar
from flink_autoscaler.core.options.job import AutoscalerOptions


def execute(given: ExecutionInput) -> Executed:
    """Decide about a job whose metric window is full.

    Raises:
        AutoscalerError: The decision could not be made; nothing of it is to be remembered.
    """
    vertices = {vertex_id: dict(metrics) for vertex_id, metrics in given.metrics.vertices.items()}
    run = DecisionRun(given, DelayedScaleDown(given.state.delayed), vertices)
    summaries: ScalingSummaries = {} if has_memory_pressure(run) else collect_changes(run)
    if not summaries:
        return run.hold()
    summaries = in_whole_taskmanagers(run, summaries)
    if not summaries:
        return run.hold()
    for vertex_id, summary in summaries.items():
        vertices[vertex_id][ScalingMetric.RECOMMENDED_PARALLELISM] = of(float(summary.new))
    return _carry_out(run, summaries)


def _carry_out(run: DecisionRun, summaries: ScalingSummaries) -> Executed:
    """Report and record the changes, unless something prevents them."""
    given = run.given
    blocked_by = _blocked_by(given.options, given.orders, given.now_ms)
    if blocked_by is not None:
        run.explain("SCALING_DISABLED", blocked_by.rstrip(":"))
        return run.hold(_report(run, summaries, blocked_by))
    summaries = calmed(run, summaries)
    if not summaries:
        return run.hold()
    changes = _tuned(run, summaries)
    held = within_resources(run, summaries, changes)
    chosen = apply_executors(run, held, changes) if held else held
    final = in_whole_taskmanagers(run, chosen, is_cut=True)
    if not final:
        return run.hold()
    decision = Rescale(final, tuple(run.reasons))
    return run.finish(decision, _commit(given, final, changes), _report(run, final, None))


def _report(run: DecisionRun, summaries: ScalingSummaries, blocked_by: str | None) -> ScalingReport:
    interval = run.given.options.scaling_event_interval
    return scaling_report(summaries, run.given.topology, blocked_by=blocked_by, interval=interval)


def _tuned(run: DecisionRun, summaries: ScalingSummaries) -> ConfigChanges:
    """Recommend memory settings; return them when tuning is on, else no changes."""
    given, context = run.given, run.given.context
    changes = tune(
        TuningInput(
            topology=given.topology,
            summaries=summaries,
            globals_=given.metrics.globals_,
            options=given.options,
            flink_options=context.flink_options,
            taskmanager_memory=context.taskmanager_memory or context.flink_options.process_memory or 0,
        )
    )
    if changes is None:
        return ConfigChanges()
    run.events.append(recommendation_event(changes, given.options))
    return changes if given.options.memory_tuning else ConfigChanges()


def _blocked_by(options: AutoscalerOptions, orders: Orders, now_ms: int) -> str | None:
    """Return the lead-in that names the option which prevents changes now."""
    if options.dry_run or orders.dry_run is not None:
        return blocked_header(AutoscalerOptions.dry_run.key, "true")
    if not options.scaling_enabled:
        return blocked_header(AutoscalerOptions.scaling_enabled.key, "false")
    periods = options.excluded_periods
    if calendar.is_excluded(periods, now_ms):
        return blocked_header(AutoscalerOptions.excluded_periods.key, f"[{', '.join(periods)}]")
    return None


def _commit(given: ExecutionInput, summaries: ScalingSummaries, changes: ConfigChanges) -> JobState:
    """Record a decision: history, tracking, and the parallelism of every vertex from now on."""
    overrides = {
        vertex_id: summaries[vertex_id].new if vertex_id in summaries else vertex.parallelism
        for vertex_id, vertex in given.topology.vertices.items()
    }
    return replace(
        given.state,
        history=add_to_history(given.state.history, summaries, given.now_ms),
        tracking=_with_record(given.state.tracking, given.now_ms),
        overrides=overrides,
        config_changes=changes,
        delayed={},
    )


def _with_record(tracking: tuple[ScalingRecord, ...], now_ms: int) -> tuple[ScalingRecord, ...]:
    return (*(record for record in tracking if record.at_ms != now_ms), ScalingRecord(now_ms))
