"""What the scalings of a vertex have brought: how well it scales, and whether more subtasks are of any use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import INFINITY, NAN, ceil_decimals, divide
from flink_autoscaler.core.model.state import HistoryEntry, ScalingHistory, ScalingSummary
from flink_autoscaler.core.model.supervision import RescaleRecord
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.observe.plausibility import of_working_subtasks
from flink_autoscaler.core.observe.window import MetricWindow, window_of
from flink_autoscaler.core.options.job import AutoscalerOptions, BusyTimeAggregator
from flink_autoscaler.core.policies.base.quantities import MIN_BUSY
from flink_autoscaler.core.ports.passes import EvaluatedJob


def scalability_coefficient(entries: Sequence[HistoryEntry], options: AutoscalerOptions) -> float:
    """Return how much of a linear speed-up the vertex achieved, by least squares over its history.

    Args:
        entries: Past decisions of one vertex, oldest first.
        options: Least number of observations and least coefficient.

    Returns:
        Between the configured minimum and 1.0, in steps of 0.01; 1.0 when there is too little to go by.

    Raises:
        EvaluationError: The coefficient is undefined and the improvement for that is off.
    """
    observations = [(entry.summary.current, _rate_of(entry.summary)) for entry in entries]
    if not observations or len(observations) < options.observed_scalability_min_observations:
        return 1.0
    # Records/s of one subtask at the least parallelism observed, the newest observation first.
    parallelism, rate = min(reversed(observations), key=itemgetter(0))
    baseline = divide(rate, float(parallelism))
    if math.isnan(baseline) or any(math.isnan(rate) for _, rate in observations):
        return 1.0
    squares = float(sum(parallelism * parallelism for parallelism, _ in observations))
    if squares == 0:
        return 1.0
    achieved = divide(sum(parallelism * rate for parallelism, rate in observations), squares * baseline)
    if not math.isnan(achieved):
        return ceil_decimals(max(options.observed_scalability_min, min(1.0, achieved)), 2)
    if options.is_improved:
        return 1.0
    raise EvaluationError("the observed scalability coefficient is undefined (rates of 0 or infinity)")


def _rate_of(summary: ScalingSummary) -> float:
    metric = summary.metrics.get(ScalingMetric.TRUE_PROCESSING_RATE)
    return NAN if metric is None else metric.average


@dataclass(frozen=True, slots=True)
class Gains:
    """What a scale-up was expected to bring and what it brought, records/s."""

    expected: float
    actual: float


def ineffective_gains(entries: Sequence[HistoryEntry], current: int, rate: float, threshold: float) -> Gains | None:
    """Judge the last decision about a vertex.

    Args:
        entries: Past decisions, oldest first.
        current: Parallelism now.
        rate: True processing rate now.
        threshold: Least achieved share of the expected gain.

    Returns:
        The gains when the last decision was a scale-up to the current parallelism that brought too little; None
        when it was not, or brought enough.
    """
    if not entries:
        return None
    last = entries[-1].summary
    if last.new != current or not last.is_scale_up:
        return None
    before = _rate_of(last)
    expected_rate = last.metrics.get(ScalingMetric.EXPECTED_PROCESSING_RATE)
    gains = Gains((NAN if expected_rate is None else expected_rate.current) - before, rate - before)
    return None if divide(gains.actual, gains.expected) >= threshold else gains


class BusyShares(NamedTuple):
    """How busy the subtasks of a vertex are, 0..1: the busiest one, and all of them on average."""

    busiest: float
    mean: float

    def possible_gain(self, parallelism: int) -> float:
        """Return by what share the vertex can become faster at most, however many subtasks it gets.

        What the busiest subtask does more than the others do on average is taken for work that stays together, such as
        that of one key; only what the others do is spread further.

        Returns:
            0 where one subtask does everything; infinite where nothing limits it, or where that cannot be told: shares
            that contradict each other, or are so small that a few records decide them.
        """
        if parallelism == 1 or not MIN_BUSY <= self.busiest < INFINITY:
            return INFINITY
        others = (parallelism * self.mean - self.busiest) / (parallelism - 1)
        # The mean cannot be less than the part of the busiest one in it, but both are not measured in one instant.
        if not -_INEXACT * self.busiest <= (parallelism - 1) * others < (parallelism - 1) * self.busiest:
            return INFINITY
        return max(0.0, others) / (self.busiest - max(0.0, others))


_INEXACT = 0.1
"""Share of the busiest subtask's time by which the mean may be too small for it."""
_APART = 2.0
"""Factor between the mean that is reported and that of the counters from which on they contradict each other."""
_UNEVEN = 1.0
"""Greatest possible gain of a skewed vertex. Key groups of equal weight leave every subtask at least half of what the
fullest one has, so that they alone never limit a vertex to less than twice its speed."""


def data_skews(job: EvaluatedJob) -> dict[VertexId, Reason]:
    """Return the vertices that more subtasks do not help, and why: their last scale-up left one subtask with the work.

    A first scale-up is allowed, since several keys that met in one subtask may part. The verdict is that of every pass
    anew, and ends with the skew.
    """
    found = dict[VertexId, Reason]()
    history, rescales = job.state.history, job.state.supervision.rescales
    for vertex_id, vertex in job.topology.vertices.items():
        before = _parallelism_before(vertex_id, history, rescales)
        if before is None or before >= vertex.parallelism or vertex_id in job.excluded:
            continue
        shares = _shares_under_skew(vertex, job)
        if shares is not None:
            found[vertex_id] = _data_skew(vertex, before, shares)
    return found


def _parallelism_before(vertex_id: VertexId, history: ScalingHistory, rescales: Sequence[RescaleRecord]) -> int | None:
    """Return what a vertex had before it was last rescaled; None where nobody remembers that it was."""
    if entries := history.get(vertex_id):
        return entries[-1].summary.current
    # The history is kept for a day, records of rescales for two weeks: a hot key is not tried out every day.
    for record in reversed(rescales):
        if vertex_id in record.changed:
            return record.before.get(vertex_id)
    return None


def _has_gained_little(vertex: Vertex, job: EvaluatedJob) -> bool:
    """Tell whether the last scale-up is known to have brought less than the least share of a linear gain."""
    entries = job.state.history.get(vertex.vertex_id)
    if not entries:
        return False
    last, rate = entries[-1].summary, job.metrics.vertices[vertex.vertex_id][ScalingMetric.TRUE_PROCESSING_RATE].average
    expected = _rate_of(last) * (vertex.parallelism / last.current - 1)
    return divide(rate - _rate_of(last), expected) < job.context.options.effectiveness_threshold


def _shares_under_skew(vertex: Vertex, job: EvaluatedJob) -> BusyShares | None:
    """Return how busy a skewed vertex is; None for one that is not, and where the shares contradict each other."""
    options, vertex_id, subtasks = job.context.options, vertex.vertex_id, vertex.working_subtasks
    busy = job.reading.aggregates.get(vertex_id, {}).get(FlinkMetric.BUSY_TIME, Aggregate())
    least, busiest, mean, *_ = of_working_subtasks(busy, vertex)
    if busiest is None or mean is None or (least is not None and not least <= mean):
        return None
    counted = MetricWindow(job.state.samples[-2:]).rate(ScalingMetric.ACCUMULATED_BUSY_TIME, vertex_id) / subtasks
    if counted > _APART * mean or mean > _APART * counted:
        return None
    now = BusyShares(busiest / 1000, mean / 1000)
    gain = now.possible_gain(subtasks)
    if gain < _UNEVEN:
        is_futile = gain < options.effectiveness_threshold or _has_gained_little(vertex, job)
        return now if is_futile else None
    if options.busy_time_aggregator is not BusyTimeAggregator.MAX:
        return None
    # The skew is over, but the rates of the window are those of one subtask still, and would scale the vertex up.
    busy_ms = window_of(job.state.samples).rate(ScalingMetric.ACCUMULATED_BUSY_TIME, vertex_id) / subtasks
    window = BusyShares(job.metrics.vertices[vertex_id][ScalingMetric.LOAD].average, busy_ms / 1000)
    return window if window.possible_gain(subtasks) < _UNEVEN else None


def _data_skew(vertex: Vertex, before: int, shares: BusyShares) -> Reason:
    subtasks = vertex.parallelism
    figures = (
        ("busiest", shares.busiest),
        ("mean", shares.mean),
        ("before", float(before)),
        ("possible_gain", shares.possible_gain(subtasks)),
    )
    shown = min(shares.busiest, 1.0)
    return Reason.of(
        ReasonCode.DATA_SKEW, vertex.vertex_id, figures, vertex=vertex.name, shown=shown, subtasks=subtasks
    )
