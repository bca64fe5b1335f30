"""Evaluation at its edges: values that are missing, tiny or negative, a backlog, and metrics of custom evaluators."""

import math
from collections.abc import Mapping

import pytest

from flink_autoscaler.core.evaluate.evaluation import (
    EvaluationSettings,
    evaluate,
    merge,
    true_processing_rate,
)
from flink_autoscaler.core.model.metrics import (
    EvaluatedMetric,
    EvaluatedVertex,
    MetricSample,
    ScalingMetric,
    VertexId,
    of,
)
from flink_autoscaler.core.model.topology import JobTopology
from testkit.builders.core import a_sample, a_topology, a_vertex, options_with, vertex_id

NAN, INF = math.nan, math.inf
M = ScalingMetric
S = vertex_id(1)
SOURCE = a_topology(a_vertex(1))


def settings(options: Mapping[str, str] | None = None) -> EvaluationSettings:
    return EvaluationSettings.of(options_with(options), 300)


def source_samples(*minutes: Mapping[ScalingMetric, float]) -> list[MetricSample]:
    """Make one sample per minute of a source that receives 10 records/s, has no lag and is half busy."""
    usual = {M.LAG: 0.0, M.LOAD: 0.5}
    return [
        a_sample(at * 60_000, {S: {M.NUM_RECORDS_IN: 600.0 * at, **usual, **given}}) for at, given in enumerate(minutes)
    ]


def evaluated_source(
    *minutes: Mapping[ScalingMetric, float], options: Mapping[str, str] | None = None
) -> EvaluatedVertex:
    return evaluate(SOURCE, source_samples(*minutes), settings(options)).vertices[S]


AVERAGE = {"metrics.busy-time.aggregator": "AVG"}


@pytest.mark.parametrize(
    ("options", "busy_ms", "load", "rate"),
    [
        pytest.param({}, -600.0, 0.0, INF, id="went back"),
        pytest.param({}, 30.0, 0.001, 20_000.0, id="half a millisecond per second, rounded up"),
        pytest.param({"compat": "reference"}, -600.0, -0.01, -1000.0, id="went back, in the reference"),
    ],
)
def test_busy_time_that_went_back_is_no_busy_time(
    options: dict[str, str], busy_ms: float, load: float, rate: float
) -> None:
    first, second = {M.ACCUMULATED_BUSY_TIME: 1000.0}, {M.ACCUMULATED_BUSY_TIME: 1000.0 + busy_ms}

    source = evaluated_source(first, second, options={**AVERAGE, **options})

    assert source[M.LOAD].average == load
    assert source[M.TRUE_PROCESSING_RATE].average == rate


LAGGING = ({M.LAG: 9000.0}, {M.LAG: 9000.0})


def custom(
    topology: JobTopology, samples: list[MetricSample], changes: EvaluatedVertex, options: Mapping[str, str]
) -> tuple[EvaluatedVertex, list[tuple[VertexId, bool]]]:
    """Evaluate with the same changes for every vertex; also give what the evaluator was told."""
    seen: list[tuple[VertexId, bool]] = []

    def customize(
        vertex_id: VertexId, metrics: EvaluatedVertex, evaluated: Mapping[VertexId, EvaluatedVertex], has_backlog: bool
    ) -> EvaluatedVertex:
        seen.append((vertex_id, has_backlog))
        return changes

    return evaluate(topology, samples, settings(options), customize).vertices[S], seen


def test_a_custom_evaluator_is_told_the_vertex_and_the_backlog_which_its_thresholds_keep_to() -> None:
    doubled = {M.TARGET_DATA_RATE: EvaluatedMetric(NAN, 20.0)}

    source, seen = custom(SOURCE, source_samples(*LAGGING), doubled, {"catch-up.duration": "0"})

    assert seen == [(S, True)]
    assert source[M.SCALE_UP_RATE_THRESHOLD].current == 20.0
    assert source[M.SCALE_DOWN_RATE_THRESHOLD].current == INF


def test_thresholds_that_a_custom_evaluator_sets_stay() -> None:
    changes = {M.TARGET_DATA_RATE: EvaluatedMetric(NAN, 20.0), M.SCALE_UP_RATE_THRESHOLD: of(7.0)}

    source, _ = custom(SOURCE, source_samples({}, {}), changes, {"catch-up.duration": "0"})

    assert source[M.SCALE_UP_RATE_THRESHOLD].current == 7.0


def test_a_metric_that_was_not_there_is_added_as_it_is() -> None:
    merged = merge({}, {M.LAG: EvaluatedMetric(5.0, NAN)})

    assert tuple(merged[M.LAG]) == pytest.approx((5.0, NAN), nan_ok=True)


def test_busy_time_may_promise_exactly_the_tolerated_share_more() -> None:
    assert true_processing_rate(1500.0, 1200.0, 0.25) == 1500.0
    assert true_processing_rate(1501.0, 1200.0, 0.25) == 1200.0
