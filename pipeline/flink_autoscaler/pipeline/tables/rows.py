"""From the outcome of a pass to rows of the history."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from flink_autoscaler.core.evaluate.evaluation import output_ratios
from flink_autoscaler.core.forecast.arrivals import recent
from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN, finite
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord, Vector
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.observe.observation import reset_analysis
from flink_autoscaler.core.observe.window import MetricWindow
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.tables.schema import DECISIONS, RESCALES, SAMPLES, VERTICES

Row = dict[str, Any]
NamedRow = tuple[str, Row]
"""The name of a table, and a row of it."""

_MAX_PASS_MS: Final = 300_000
_BACK: Final = (Origin.ROLLBACK, Origin.OPERATOR)
"""Who undoes a rescale: the autoscaler, or a person by an order."""

Mask = Callable[[str], str]
"""Replaces secrets in a text for people."""


def rows_of(
    outcome: PassOutcome, context: JobAutoScalerContext, now_ms: int, *, span_ms: int, mask: Mask = str
) -> Iterator[NamedRow]:
    """Yield everything that the history keeps of one pass over one job; nothing of a job that is not managed.

    Args:
        outcome: What the pass found out.
        context: The job.
        now_ms: The instant of the pass, epoch milliseconds.
        span_ms: The time before the pass that rates are to cover; they cover more where passes are further apart.
        mask: Applied to all texts that are not names.
    """
    if outcome.phase is PassPhase.DISABLED:
        return
    who = {"cluster": context.cluster, "job_key": context.job_key, "job_id": context.job_id, "ts": now_ms * 1000}
    yield DECISIONS.name, who | _decision(outcome, context, mask)
    yield from ((RESCALES.name, who | _rescale(record, mask)) for record in finished_rescales(outcome, now_ms))
    if outcome.observation.sample is None or outcome.observation.topology is None:
        return
    known = reset_analysis(outcome.state.samples, outcome.observation.topology, context.options).for_rates
    recently = recent(known, span_ms)
    measured = _PassFigures(
        outcome, outcome.observation.topology, recently, are_edges_balanced=context.options.is_improved
    )
    for vertex in outcome.observation.topology.vertices.values():
        yield VERTICES.name, who | measured.vertex(vertex)
        if vertex.is_source:
            yield SAMPLES.name, who | measured.source(vertex)


def is_eventful(outcome: PassOutcome, now_ms: int) -> bool:
    """Tell whether a pass must not be left out: it decided to rescale, or a rescale settled in it."""
    return isinstance(outcome.decision, Rescale) or any(True for _ in finished_rescales(outcome, now_ms))


def finished_rescales(outcome: PassOutcome, now_ms: int) -> Iterator[RescaleRecord]:
    """Yield the rescales that became final in a pass, or turned out in it to have been in vain."""
    supervision = outcome.state.supervision
    current, past = supervision.current, supervision.past
    records = past if current is None else (*past, current)
    yield from (record for record in records if record.stage.is_final and _is_now(record.settled_ms, now_ms))
    goes_back = current is not None and current.origin in _BACK and _is_now(current.decided_ms, now_ms)
    if goes_back and past and past[-1].reverted and not _is_now(past[-1].settled_ms, now_ms):
        yield past[-1]


def _is_now(at_ms: int | None, now_ms: int) -> bool:
    """Tell whether something happened in a pass, which is later than its instant where it had to wait for answers."""
    return at_ms is not None and 0 <= at_ms - now_ms <= _MAX_PASS_MS


def _whole(value: float | None) -> int | None:
    known = finite(value)
    return None if known is None else round(known)


class _PassFigures:
    """The figures of one pass.

    Args:
        outcome: Of the pass.
        topology: The job graph.
        samples: Without what the counters cannot have said, as the pass itself took rates from them: profiles learn
            from the history, and a wrong answer is not to stay in it when the window has forgotten it.
        are_edges_balanced: See :func:`~flink_autoscaler.core.evaluate.evaluation.output_ratios`.
    """

    def __init__(
        self, outcome: PassOutcome, topology: JobTopology, samples: Sequence[MetricSample], *, are_edges_balanced: bool
    ) -> None:
        self._outcome = outcome
        self._topology = topology
        self._are_edges_balanced = are_edges_balanced
        self._window = MetricWindow(samples)
        self._latest = samples[-1].vertices if samples else {}
        self._span = (samples[-1].at_ms - samples[0].at_ms) / 1000 if samples else 0.0

    def source(self, vertex: Vertex) -> Row:
        consumption = self._count_rate(ScalingMetric.NUM_RECORDS_IN, vertex.vertex_id)
        slope = self._rate(ScalingMetric.LAG, vertex.vertex_id)
        return {
            "source_id": vertex.vertex_id,
            "source_name": vertex.name,
            "span": self._span,
            "arrival_rate": None if consumption is None or slope is None else max(0.0, consumption + slope),
            "consumption_rate": consumption,
            "lag_slope": slope,
            "lag": finite(self._now(ScalingMetric.LAG, vertex.vertex_id)),
            "parallelism": vertex.parallelism,
            "partitions": vertex.source_partitions or None,
        }

    def vertex(self, vertex: Vertex) -> Row:
        vertex_id = vertex.vertex_id
        metrics = self._outcome.evaluated.get(vertex_id, {})
        current = {metric: value.current for metric, value in metrics.items()}
        average = {metric: value.average for metric, value in metrics.items()}
        ratios = output_ratios(
            self._topology, self._window, vertex, is_strict=True, is_balanced=self._are_edges_balanced
        )
        return {
            "vertex_id": vertex_id,
            "vertex_name": vertex.name,
            "span": self._span,
            "is_source": vertex.is_source,
            "parallelism": vertex.parallelism,
            "max_parallelism": vertex.max_parallelism,
            "slot_sharing_group": vertex.slot_sharing_group,
            "busy": finite(self._window.average(ScalingMetric.LOAD, vertex_id)),
            "records_in_rate": self._count_rate(ScalingMetric.NUM_RECORDS_IN, vertex_id),
            "records_out_rate": self._count_rate(ScalingMetric.NUM_RECORDS_OUT, vertex_id),
            "true_rate": finite(average.get(ScalingMetric.TRUE_PROCESSING_RATE)),
            "target_rate": finite(average.get(ScalingMetric.TARGET_DATA_RATE)),
            "catch_up_rate": finite(current.get(ScalingMetric.CATCH_UP_DATA_RATE)),
            "scale_up_threshold": finite(current.get(ScalingMetric.SCALE_UP_RATE_THRESHOLD)),
            "scale_down_threshold": finite(current.get(ScalingMetric.SCALE_DOWN_RATE_THRESHOLD)),
            "recommended_parallelism": _whole(current.get(ScalingMetric.RECOMMENDED_PARALLELISM)),
            "inputs": [
                {
                    "vertex_id": upstream,
                    "ship_strategy": strategy.value,
                    # Nothing in says nothing about what comes out.
                    "selectivity": finite(ratios[upstream])
                    if self._count_rate(ScalingMetric.NUM_RECORDS_IN, upstream)
                    else None,
                }
                for upstream, strategy in vertex.inputs.items()
            ],
            "origins": [
                {"metric": metric.value, "origin": origin}
                for metric, origin in self._outcome.observation.origins.get(vertex_id, {}).items()
            ],
        }

    def _count_rate(self, metric: ScalingMetric, vertex_id: VertexId) -> float | None:
        """Return the growth of a counter per second; None where it went back, which says nothing."""
        rate = self._rate(metric, vertex_id)
        return None if rate is None or rate < 0 else rate

    def _rate(self, metric: ScalingMetric, vertex_id: VertexId) -> float | None:
        """Return the growth per second; None where the latest sample does not know the metric."""
        if math.isnan(self._now(metric, vertex_id)):
            return None
        return finite(self._window.rate(metric, vertex_id))

    def _now(self, metric: ScalingMetric, vertex_id: VertexId) -> float:
        return self._latest.get(vertex_id, {}).get(metric, NAN)


def _decision(outcome: PassOutcome, context: JobAutoScalerContext, mask: Mask) -> Row:
    decision, shadow = outcome.decision, outcome.shadow
    summaries = decision.summaries if isinstance(decision, Rescale) else {}
    globals_ = {} if outcome.observation.sample is None else outcome.observation.sample.globals_
    return {
        "phase": outcome.phase.value,
        "status": context.status.value,
        "decision": decision.kind,
        "reasons": [
            {"code": reason.code, "text": mask(reason.text), "vertex_id": reason.vertex_id}
            for reason in decision.reasons
        ],
        "changes": [
            {"vertex_id": vertex_id, "before": summary.current, "after": summary.new}
            for vertex_id, summary in summaries.items()
        ],
        "error": None if outcome.error is None else mask(str(outcome.error)),
        "is_window_full": outcome.observation.is_window_full,
        "restart_time": None if outcome.restart is None else finite(outcome.restart.seconds),
        "supervision": outcome.state.supervision.phase.value,
        "gc_pressure": finite(globals_.get(ScalingMetric.GC_PRESSURE)),
        "heap_usage": finite(globals_.get(ScalingMetric.HEAP_MAX_USAGE_RATIO)),
        "slots_used": _whole(globals_.get(ScalingMetric.NUM_TASK_SLOTS_USED)),
        "slots_held": None if shadow is None else shadow.held,
        "shadow_policy": None if shadow is None else shadow.policy,
        "shadow_slots": None if shadow is None else shadow.wanted,
        "shadow_direction": None if shadow is None else shadow.direction.value,
    }


def _rescale(record: RescaleRecord, mask: Mask) -> Row:
    return {
        "decided_at": record.decided_ms * 1000,
        "settled_at": None if record.settled_ms is None else record.settled_ms * 1000,
        "origin": record.origin.value,
        "mechanism": record.mechanism.value,
        "stage": record.stage.value,
        "reason": mask(record.reason),
        "outage": None if record.outage_ms is None else record.outage_ms / 1000,
        "before": _entries(record.before),
        "target": _entries(record.target),
        "reached": _entries(record.reached),
        "state_bytes": record.state_bytes,
        "taskmanagers": record.taskmanagers,
        "reverted": record.reverted,
    }


def _entries(vector: Vector) -> list[Row]:
    return [{"vertex_id": vertex_id, "parallelism": parallelism} for vertex_id, parallelism in vector.items()]
