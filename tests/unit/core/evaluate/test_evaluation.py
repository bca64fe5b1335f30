import dataclasses
import math
from collections.abc import Mapping

import pytest

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.evaluate.evaluation import (
    EvaluationSettings,
    evaluate,
    is_processing_backlog,
    output_ratios,
    rate_thresholds,
    target_capacity,
    true_processing_rate,
)
from flink_autoscaler.core.model.metrics import EvaluatedMetric, MetricSample, ScalingMetric, avg, of
from flink_autoscaler.core.model.topology import ShipStrategy, Vertex
from flink_autoscaler.core.observe.window import MetricWindow
from testkit.builders.core import a_sample, a_topology, a_vertex, evaluated, options_with, vertex_id

NAN, INF = math.nan, math.inf
M = ScalingMetric
HASH = ShipStrategy.HASH
SOURCE = a_vertex(1)
S = vertex_id(1)


def settings(options: Mapping[str, str] | None = None, restart_time: int = 300) -> EvaluationSettings:
    return EvaluationSettings.of(options_with(options), restart_time)


def same(metric: EvaluatedMetric, current: float, average: float) -> bool:
    return metric == pytest.approx((current, average), nan_ok=True)


def test_evaluated_metrics_are_rounded_when_they_are_made() -> None:
    assert same(of(2.6755), 2.676, NAN)
    assert same(avg(0.0004), NAN, 0.0004)


def of_source(seconds: float, *, received: float, lag: tuple[float, float]) -> list[MetricSample]:
    """Make two samples of a source that has received that many records meanwhile."""
    before = {M.NUM_RECORDS_IN: 0.0, M.LAG: lag[0], M.LOAD: 0.5}
    after = {M.NUM_RECORDS_IN: received, M.LAG: lag[1], M.LOAD: 0.5}
    return [a_sample(0, {S: before}), a_sample(round(seconds * 1000), {S: after})]


def test_a_source_has_to_sustain_what_it_received_and_what_piled_up() -> None:
    samples = of_source(75, received=39000.0, lag=(12000.0, 9000.0))

    source = evaluate(a_topology(SOURCE), samples, settings()).vertices[S]

    assert same(source[M.TARGET_DATA_RATE], NAN, 480.0)
    assert same(source[M.CATCH_UP_DATA_RATE], 5.0, NAN)
    assert same(source[M.LAG], 9000.0, NAN)


def test_nothing_is_caught_up_without_a_catch_up_duration() -> None:
    samples = of_source(75, received=39000.0, lag=(12000.0, 9000.0))

    source = evaluate(a_topology(SOURCE), samples, settings({"catch-up.duration": "0"})).vertices[S]

    assert source[M.CATCH_UP_DATA_RATE].current == 0.0


def test_a_target_is_never_negative() -> None:
    samples = of_source(10, received=10.0, lag=(12000.0, 0.0))

    source = evaluate(a_topology(SOURCE), samples, settings()).vertices[S]

    assert source[M.TARGET_DATA_RATE].average == 0.0


def test_a_source_without_ingestion_rate_is_an_error() -> None:
    samples = of_source(10, received=NAN, lag=(0.0, 0.0))

    with pytest.raises(EvaluationError, match=S):
        evaluate(a_topology(SOURCE), samples, settings())


@pytest.mark.parametrize(
    ("received", "lag", "expected"),
    [
        pytest.param(520.0, 9000.0, False, id="17 s of lag"),
        pytest.param(520.0, 156000.0, False, id="exactly 300 s"),
        pytest.param(520.0, 156001.0, True, id="more than 300 s"),
        pytest.param(0.0, 2.0, True, id="lag without input"),
        pytest.param(0.0, 1.0, False, id="a record of each partition, which is never read"),
        pytest.param(0.0, 0.0, False, id="neither lag nor input"),
        pytest.param(NAN, 1e9, False, id="input unknown"),
    ],
)
def test_a_job_processes_backlog_when_some_source_lags_behind(received: float, lag: float, expected: bool) -> None:
    window = MetricWindow(of_source(1, received=received, lag=(lag, lag)))

    assert is_processing_backlog(a_topology(SOURCE), window, settings()) is expected


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


@pytest.mark.parametrize(
    ("from_busy_time", "observed", "expected"),
    [
        pytest.param(1500.0, 1300.0, 1300.0, id="more than 15 % above the observed one"),
        pytest.param(1500.0, 1310.0, 1500.0, id="not that much above"),
        pytest.param(NAN, 1310.0, 1310.0, id="busy time unknown"),
        pytest.param(INF, 1310.0, 1310.0, id="no input"),
        pytest.param(1500.0, NAN, 1500.0, id="nothing observed"),
        pytest.param(NAN, NAN, NAN, id="nothing known"),
        pytest.param(1500.0, INF, 1500.0, id="observed without input"),
    ],
)
def test_the_observed_rate_is_used_when_busy_time_promises_too_much(
    from_busy_time: float, observed: float, expected: float
) -> None:
    rate = true_processing_rate(from_busy_time, observed, 0.15)

    assert rate == pytest.approx(expected, nan_ok=True)


def test_an_idle_vertex_is_infinitely_fast() -> None:
    samples = of_source(60, received=0.0, lag=(0.0, 0.0))

    source = evaluate(a_topology(SOURCE), samples, settings()).vertices[S]

    assert source[M.TRUE_PROCESSING_RATE].average == INF


RATES = {1: (300.0, 450.0), 2: (800.0, 400.0), 3: (1000.0, 2500.0), 4: (2500.0, 0.0), 5: (50.0, 0.0)}
A, B = a_vertex(1), a_vertex(2)
C = a_vertex(3, inputs={1: HASH, 2: HASH})
D = a_vertex(4, inputs={3: HASH})
E = a_vertex(5, inputs={2: HASH})


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


@pytest.mark.parametrize(
    ("edge", "vertices", "expected"),
    [
        pytest.param((1, 3), [A, B, C, D], 2.0, id="what C received and not from B"),
        pytest.param((2, 3), [A, B, C, D], 0.6875, id="what C received and not from A"),
        pytest.param((3, 4), [A, B, C, D], 2.5, id="the only input"),
        pytest.param((1, 3), [A, B, C, D, E], 1.5, id="B has another output: what A sent"),
        pytest.param((2, 3), [A, B, C, D, E], 0.6875, id="only the other inputs matter"),
        pytest.param((3, 4), [A, B, C, D, E], 2.5, id="the only input still"),
    ],
)
def test_output_ratio_in_the_reference_is_taken_from_the_receiver_where_that_tells(
    edge: tuple[int, int], vertices: list[Vertex], expected: float
) -> None:
    assert output_ratio(edge, vertices, RATES, is_balanced=False) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("edge", "vertices", "expected"),
    [
        pytest.param((1, 3), [A, B, C, D], 450 * 1000 / 850 / 300, id="A's part of what A and B sent to C"),
        pytest.param((2, 3), [A, B, C, D], 400 * 1000 / 850 / 800, id="and B's"),
        pytest.param((3, 4), [A, B, C, D], 2.5, id="the only input"),
        pytest.param((1, 3), [A, B, C, D, E], 1.5, id="A sends to C alone"),
        pytest.param((2, 3), [A, B, C, D, E], 0.6875, id="B has another output: what C received and not from A"),
        pytest.param((3, 4), [A, B, C, D, E], 2.5, id="the only input still"),
    ],
)
def test_output_ratios_divide_what_was_received(edge: tuple[int, int], vertices: list[Vertex], expected: float) -> None:
    assert output_ratio(edge, vertices, RATES) == pytest.approx(expected)


def test_a_source_that_has_finished_takes_no_part_in_what_a_vertex_receives() -> None:
    finished = dataclasses.replace(B, is_finished=True)
    rates = {**RATES, 2: (-800.0, -400.0)}  # its counters are 0 from then on

    ratios = [output_ratio((n, 3), [A, finished, C, D], rates) for n in (1, 2)]

    assert ratios == [pytest.approx(1000 / 300), 0.0]


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        pytest.param({1: (0.0, 450.0), 3: (10.0, 0.0)}, 0.0, id="nothing received"),
        pytest.param({1: (300.0, 450.0), 3: (0.0, 0.0)}, 0.0, id="nothing passed on"),
    ],
)
def test_output_ratio_is_zero_where_nothing_flows(rates: Mapping[int, tuple[float, float]], expected: float) -> None:
    assert output_ratio((1, 3), [A, a_vertex(3, inputs={1: HASH})], rates) == expected


@pytest.mark.parametrize(
    ("is_balanced", "expected"), [pytest.param(False, 0.0, id="reference"), pytest.param(True, NAN, id="improved")]
)
def test_a_receiver_that_went_back_says_nothing_but_in_the_reference(is_balanced: bool, expected: float) -> None:
    rates = {1: (300.0, 450.0), 3: (-5.0, 0.0)}

    ratio = output_ratio((1, 3), [A, a_vertex(3, inputs={1: HASH})], rates, is_balanced=is_balanced)

    assert ratio == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("is_strict", "expected"), [pytest.param(False, 0.0, id="reference"), pytest.param(True, NAN, id="improved")]
)
@pytest.mark.parametrize(
    "rates",
    [
        pytest.param({1: (NAN, 450.0), 3: (10.0, 0.0)}, id="input of the sender"),
        pytest.param({1: (300.0, 450.0), 3: (NAN, 0.0)}, id="input of the receiver"),
    ],
)
def test_an_unknown_output_ratio_is_zero_only_in_the_reference(
    rates: Mapping[int, tuple[float, float]], is_strict: bool, expected: float
) -> None:
    ratio = output_ratio((1, 3), [A, a_vertex(3, inputs={1: HASH})], rates, is_strict=is_strict)

    assert ratio == pytest.approx(expected, nan_ok=True)


def test_target_rates_flow_downstream() -> None:
    vertices = [A, B, C, D]
    samples = rates_of(vertices, RATES)
    lags = {vertex_id(1): 180.0, vertex_id(2): 0.0}
    samples = [
        dataclasses.replace(s, vertices={v: {**m, M.LAG: lags.get(v, 0.0) * at} for v, m in s.vertices.items()})
        for at, s in enumerate(samples)
    ]

    metrics = evaluate(a_topology(*vertices), samples, settings())

    # A: 300 received and 180 piled up; B: 800.
    target = 1000 * (480 / 300 * 450 / 850 + 400 / 850)
    assert metrics.vertices[vertex_id(3)][M.TARGET_DATA_RATE].average == pytest.approx(target, abs=0.001)
    assert metrics.vertices[vertex_id(4)][M.TARGET_DATA_RATE].average == pytest.approx(target * 2.5, abs=0.002)


THRESHOLD_OPTIONS = {
    "utilization.target": "0.8",
    "utilization.max": "0.95",
    "utilization.min": "0.5",
    "catch-up.duration": "600 s",
}


@pytest.mark.parametrize(
    ("options", "restart_time", "target", "catch_up", "has_backlog", "expected"),
    [
        pytest.param({}, 300, 1500.0, 15.5, False, (1516.0, 4016.0), id="defaults"),
        pytest.param({}, 300, 1500.0, 15.5, True, (1516.0, 2.0**63), id="backlog: never down"),
        pytest.param(THRESHOLD_OPTIONS, 90, 1234.567, 40.0, False, (1340.0, 2694.0), id="explicit band"),
        pytest.param(
            {**THRESHOLD_OPTIONS, "catch-up.duration": "0"},
            90,
            1234.567,
            0.0,
            False,
            (1300.0, 2469.0),
            id="no catch-up",
        ),
        pytest.param({"utilization.min": "0"}, 300, 0.0, 0.0, False, (0.0, INF), id="no lower limit"),
        pytest.param({}, 300, NAN, 0.0, False, (NAN, NAN), id="target unknown"),
        pytest.param({}, 300, 1.0, NAN, False, (NAN, NAN), id="catch-up unknown"),
    ],
)
def test_thresholds_are_the_edges_of_the_band(
    options: dict[str, str],
    restart_time: int,
    target: float,
    catch_up: float,
    has_backlog: bool,
    expected: tuple[float, float],
) -> None:
    metrics = evaluated(target=target, rate=0.0, catch_up=catch_up)

    thresholds = rate_thresholds(metrics, settings(options, restart_time), has_backlog=has_backlog)

    edges = (thresholds[M.SCALE_UP_RATE_THRESHOLD].current, thresholds[M.SCALE_DOWN_RATE_THRESHOLD].current)
    # In backlog mode the lower utilization is 0, and that capacity is infinite.
    assert edges == pytest.approx((expected[0], INF if has_backlog else expected[1]), nan_ok=True)


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
    metrics = evaluated(target=100.0, rate=0.0)

    assert target_capacity(metrics, utilization, catch_up=0) == expected


def test_capacity_for_an_infinite_target_saturates() -> None:
    metrics = evaluated(target=INF, rate=0.0)

    assert target_capacity(metrics, 0.5, catch_up=600, restart_time=60) == 9.223372036854775807e18
    assert target_capacity(metrics, 0.5, catch_up=600, restart_time=0) == 0.0


def test_one_known_global_value_is_its_own_average() -> None:
    first, second = of_source(60, received=60.0, lag=(0.0, 0.0))
    samples = [first, dataclasses.replace(second, globals_={M.HEAP_MEMORY_USED: 7.0})]

    assert evaluate(a_topology(SOURCE), samples, settings()).globals_[M.HEAP_MEMORY_USED].average == 7.0


def test_global_metrics_have_a_latest_value_and_an_average() -> None:
    older = {M.HEAP_MAX_USAGE_RATIO: 0.41234}
    latest = {M.HEAP_MAX_USAGE_RATIO: 0.52, M.GC_PRESSURE: 0.123456, M.NUM_TASK_SLOTS_USED: 6.0}
    samples = of_source(60, received=60.0, lag=(0.0, 0.0))
    samples = [dataclasses.replace(samples[0], globals_=older), dataclasses.replace(samples[1], globals_=latest)]

    metrics = evaluate(a_topology(SOURCE), samples, settings()).globals_

    assert same(metrics[M.GC_PRESSURE], 0.123, NAN)
    assert same(metrics[M.HEAP_MAX_USAGE_RATIO], 0.52, 0.466)
    assert same(metrics[M.NUM_TASK_SLOTS_USED], 6.0, NAN)
    assert same(metrics[M.HEAP_MEMORY_USED], NAN, NAN)
    assert set(metrics) == {
        M.GC_PRESSURE,
        M.NUM_TASK_SLOTS_USED,
        M.HEAP_MAX_USAGE_RATIO,
        M.HEAP_MEMORY_USED,
        M.MANAGED_MEMORY_USED,
        M.METASPACE_MEMORY_USED,
    }
