import dataclasses
import math
from collections.abc import Mapping

import pytest

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.evaluate.evaluation import (
    EvaluationSettings,
    evaluate,
    output_ratios,
    target_capacity,
)
from flink_autoscaler.core.model.metrics import EvaluatedMetric, MetricSample, ScalingMetric
from flink_autoscaler.core.model.topology import ShipStrategy, Vertex
from flink_autoscaler.core.observe.window import MetricWindow
from testkit.builders.core import a_sample, a_topology, a_vertex, evaluated_vertex, options_with, vertex_id

NAN, INF = math.nan, math.inf
M = ScalingMetric
HASH = ShipStrategy.HASH
SOURCE = a_vertex(1)
S = vertex_id(1)


def settings(options: Mapping[str, str] | None = None, restart_time: int = 300) -> EvaluationSettings:
    return EvaluationSettings.of(options_with(options), restart_time)


def same(metric: EvaluatedMetric, current: float, average: float) -> bool:
    return metric == pytest.approx((current, average), nan_ok=True)


def of_source(seconds: float, *, received: float, lag: tuple[float, float]) -> list[MetricSample]:
    """Make two samples of a source that has received that many records meanwhile."""
    before = {M.NUM_RECORDS_IN: 0.0, M.LAG: lag[0], M.LOAD: 0.5}
    after = {M.NUM_RECORDS_IN: received, M.LAG: lag[1], M.LOAD: 0.5}
    return [a_sample(0, {S: before}), a_sample(round(seconds * 1000), {S: after})]


def test_a_target_is_never_negative() -> None:
    samples = of_source(10, received=10.0, lag=(12000.0, 0.0))

    source = evaluate(a_topology(SOURCE), samples, settings()).vertices[S]

    assert source[M.TARGET_DATA_RATE].average == 0.0


def test_a_source_without_ingestion_rate_is_an_error() -> None:
    samples = of_source(10, received=NAN, lag=(0.0, 0.0))

    with pytest.raises(EvaluationError, match=S):
        evaluate(a_topology(SOURCE), samples, settings())


BUSY_VERTEX = a_vertex(2, parallelism=4, inputs={1: HASH})
BUSY_SAMPLES = [
    a_sample(
        at * 1000,
        {
            S: {M.NUM_RECORDS_IN: float(at), M.LAG: 0.0, M.LOAD: 0.1},
            vertex_id(2): {
                M.LOAD: load,
                M.NUM_RECORDS_IN_PER_SECOND: rate,
                M.NUM_RECORDS_IN: count,
                M.ACCUMULATED_BUSY_TIME: busy_ms,
            },
        },
    )
    for at, load, rate, count, busy_ms in (
        (0, 0.55, 880.0, 0.0, 10000.0),
        (30, 0.65, 920.0, 29000.0, 80000.0),
        (60, 0.60, 900.0, 60000.0, 160000.0),
    )
]


@pytest.mark.parametrize(
    ("aggregator", "load", "rate"),
    [
        pytest.param("MAX", 0.6, 1500.0, id="maximum: from load and reported rate"),
        pytest.param("MIN", 0.6, 1500.0, id="minimum: the same"),
        pytest.param("AVG", 0.625, 1600.0, id="average: from both counters"),
    ],
)
def test_true_processing_rate_is_the_input_per_busy_time(aggregator: str, load: float, rate: float) -> None:
    chosen = settings({"metrics.busy-time.aggregator": aggregator})

    vertex = evaluate(a_topology(SOURCE, BUSY_VERTEX), BUSY_SAMPLES, chosen).vertices[vertex_id(2)]

    assert same(vertex[M.LOAD], NAN, load)
    assert same(vertex[M.TRUE_PROCESSING_RATE], NAN, rate)


RATES = {1: (300.0, 450.0), 2: (800.0, 400.0), 3: (1000.0, 2500.0), 4: (2500.0, 0.0), 5: (50.0, 0.0)}
A, B = a_vertex(1), a_vertex(2)
C = a_vertex(3, inputs={1: HASH, 2: HASH})
D = a_vertex(4, inputs={3: HASH})


def output_ratio(
    edge: tuple[int, int],
    vertices: list[Vertex],
    rates: Mapping[int, tuple[float, float]],
    *,
    is_strict: bool = True,
    is_balanced: bool = True,
) -> float:
    """Return the ratio of an edge, given by the numbers of its vertices; see :data:`RATES`."""
    topology, window = a_topology(*vertices), MetricWindow(rates_of(vertices, rates))
    downstream = topology.vertices[vertex_id(edge[1])]
    return output_ratios(topology, window, downstream, is_strict=is_strict, is_balanced=is_balanced)[vertex_id(edge[0])]


def rates_of(vertices: list[Vertex], rates: Mapping[int, tuple[float, float]]) -> list[MetricSample]:
    """Make samples one second apart from records/s in and out per vertex number."""
    numbers = [int(vertex.vertex_id, 16) for vertex in vertices]
    return [
        a_sample(
            second * 1000,
            {
                vertex_id(n): {M.NUM_RECORDS_IN: rates[n][0] * second, M.NUM_RECORDS_OUT: rates[n][1] * second}
                for n in numbers
            },
        )
        for second in (0, 1)
    ]


def test_a_source_that_has_finished_takes_no_part_in_what_a_vertex_receives() -> None:
    finished = dataclasses.replace(B, is_finished=True)
    rates = {**RATES, 2: (-800.0, -400.0)}  # its counters are 0 from then on

    ratios = [output_ratio((n, 3), [A, finished, C, D], rates) for n in (1, 2)]

    assert ratios == [pytest.approx(1000 / 300), 0.0]


@pytest.mark.parametrize(
    ("is_balanced", "expected"), [pytest.param(False, 0.0, id="reference"), pytest.param(True, NAN, id="improved")]
)
def test_a_receiver_that_went_back_says_nothing_but_in_the_reference(is_balanced: bool, expected: float) -> None:
    rates = {1: (300.0, 450.0), 3: (-5.0, 0.0)}

    ratio = output_ratio((1, 3), [A, a_vertex(3, inputs={1: HASH})], rates, is_balanced=is_balanced)

    assert ratio == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("utilization", "expected"),
    [
        pytest.param(0.5, 200.0, id="half"),
        pytest.param(1.5, 100.0, id="more than all is all"),
        pytest.param(0.0, INF, id="none"),
        pytest.param(-1.0, INF, id="less than none"),
    ],
)
def test_capacity_bounds_the_utilization(utilization: float, expected: float) -> None:
    metrics = evaluated_vertex(target=100.0, rate=0.0)

    assert target_capacity(metrics, utilization, catch_up=0) == expected


def test_capacity_for_an_infinite_target_saturates() -> None:
    metrics = evaluated_vertex(target=INF, rate=0.0)

    assert target_capacity(metrics, 0.5, catch_up=600, restart_time=60) == 9.223372036854775807e18
    assert target_capacity(metrics, 0.5, catch_up=600, restart_time=0) == 0.0
