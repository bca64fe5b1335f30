"""What the scalings of a vertex have brought: how well it scales, and whether the last one was worth it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.numbers import NAN, ceil_decimals, divide
from flink_autoscaler.core.model.state import HistoryEntry, ScalingSummary
from flink_autoscaler.core.options.job import AutoscalerOptions


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
    baseline = _baseline(observations)
    if math.isnan(baseline) or any(math.isnan(rate) for _, rate in observations):
        return 1.0
    squares = float(sum(parallelism * parallelism for parallelism, _ in observations))
    if squares == 0:
        return 1.0
    achieved = divide(sum(parallelism * rate for parallelism, rate in observations), squares * baseline)
    return _bounded(achieved, options)


def _bounded(achieved: float, options: AutoscalerOptions) -> float:
    if math.isnan(achieved):
        if options.improves(options.undefined_scalability_is_one):
            return 1.0
        raise EvaluationError("the observed scalability coefficient is undefined (rates of 0 or infinity)")
    return ceil_decimals(max(options.observed_scalability_min, min(1.0, achieved)), 2)


def _rate_of(summary: ScalingSummary) -> float:
    metric = summary.metrics.get(ScalingMetric.TRUE_PROCESSING_RATE)
    return NAN if metric is None else metric.average


def _baseline(observations: Sequence[tuple[int, float]]) -> float:
    """Return records/s of one subtask at the least parallelism observed, the newest observation first."""
    parallelism, rate = min(reversed(observations), key=lambda observation: observation[0])
    return divide(rate, float(parallelism))


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
