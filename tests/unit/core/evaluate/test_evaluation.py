"""What comes along the edges into a vertex adds up to what the vertex received."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.evaluate.evaluation import (
    EvaluationSettings,
    Sender,
    edge_rates,
    evaluate,
    merge,
    output_ratios,
    target_capacity,
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
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy, Vertex
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


@pytest.mark.parametrize(
    ("received", "senders", "expected"),
    [
        pytest.param(7.0, {}, {}, id="a source: no edges"),
        pytest.param(7.0, {"a": Sender(NAN, 3)}, {"a": 7.0}, id="one input: all of it, whatever was sent"),
        pytest.param(300.0, {"a": Sender(100.0, 1), "b": Sender(200.0, 1)}, {"a": 100.0, "b": 200.0}, id="consistent"),
        pytest.param(3.0, {"a": Sender(100.0, 1), "b": Sender(200.0, 1)}, {"a": 1.0, "b": 2.0}, id="sent too much"),
        pytest.param(600.0, {"a": Sender(100.0, 1), "b": Sender(200.0, 1)}, {"a": 200.0, "b": 400.0}, id="too little"),
        pytest.param(510.0, {"a": Sender(1000.0, 2), "b": Sender(500.0, 1)}, {"a": 10.0, "b": 500.0}, id="the rest"),
        pytest.param(3.0, {"a": Sender(1000.0, 2), "b": Sender(500.0, 1)}, {"a": 0.0, "b": 3.0}, id="no rest"),
        pytest.param(3.0, {"a": Sender(400.0, 4), "b": Sender(400.0, 2)}, {"a": 1.0, "b": 2.0}, id="per edge"),
        pytest.param(5.0, {"a": Sender(0.0, 2), "b": Sender(1.0, 1)}, {"a": 0.0, "b": 5.0}, id="one sends nothing"),
        pytest.param(6.0, {"a": Sender(0.0, 2), "b": Sender(0.0, 1)}, {"a": 3.0, "b": 3.0}, id="none says it sent"),
        pytest.param(0.0, {"a": Sender(NAN, 1), "b": Sender(9.0, 1)}, {"a": 0.0, "b": 0.0}, id="nothing received"),
        pytest.param(5.0, {"a": Sender(NAN, 1), "b": Sender(9.0, 1)}, {"a": NAN, "b": NAN}, id="a sender is unknown"),
        pytest.param(5.0, {"a": Sender(-1.0, 1), "b": Sender(9.0, 1)}, {"a": NAN, "b": NAN}, id="a sender went back"),
        pytest.param(NAN, {"a": Sender(1.0, 1), "b": Sender(9.0, 1)}, {"a": NAN, "b": NAN}, id="unknown"),
        pytest.param(-5.0, {"a": Sender(1.0, 1)}, {"a": NAN}, id="went back"),
        pytest.param(INF, {"a": Sender(1.0, 1)}, {"a": NAN}, id="infinite"),
        pytest.param(4.0, {"a": Sender(1e308, 1), "b": Sender(1e308, 1)}, {"a": 2.0, "b": 2.0}, id="no overflow"),
    ],
)
def test_what_was_received_is_divided_between_the_senders(
    received: float, senders: Mapping[str, Sender], expected: Mapping[str, float]
) -> None:
    assert edge_rates(received, senders) == pytest.approx(expected, nan_ok=True)


COUNTS = st.integers(0, 2**53)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[JobTopology, list[MetricSample]]:
    """Make a graph without circles, and two samples of counters that have nothing to do with each other."""
    vertices = []
    for number in range(1, draw(st.integers(2, 7)) + 1):
        inputs = draw(st.sets(st.integers(1, number - 1), max_size=4)) if number > 1 else set()
        vertices.append(a_vertex(number, inputs=dict.fromkeys(sorted(inputs), ShipStrategy.HASH)))
    grown = {v.vertex_id: (draw(COUNTS), draw(COUNTS)) for v in vertices}
    samples = [
        a_sample(
            at * 1000,
            {
                v: {M.NUM_RECORDS_IN: float(at * read), M.NUM_RECORDS_OUT: float(at * sent), M.LAG: 0.0, M.LOAD: 0.5}
                for v, (read, sent) in grown.items()
            },
        )
        for at in (0, 1)
    ]
    return a_topology(*vertices), samples


@given(jobs())
def test_edges_into_a_vertex_carry_what_it_received_whatever_counters_say(
    job: tuple[JobTopology, list[MetricSample]],
) -> None:
    topology, samples = job
    window = MetricWindow(samples)

    for vertex in topology.vertices.values():
        received = window.rate(M.NUM_RECORDS_IN, vertex.vertex_id)
        ratios = output_ratios(topology, window, vertex, is_strict=True, is_balanced=True)
        rates = {v: ratio * window.rate(M.NUM_RECORDS_IN, v) for v, ratio in ratios.items()}
        assert all(rate >= 0.0 for rate in rates.values())
        if vertex.inputs and all(window.rate(M.NUM_RECORDS_IN, v) > 0 for v in rates):
            assert sum(rates.values()) == pytest.approx(received)


@given(jobs())
def test_a_vertex_under_a_steady_load_has_to_sustain_what_it_receives(
    job: tuple[JobTopology, list[MetricSample]],
) -> None:
    topology, samples = job
    window = MetricWindow(samples)

    metrics = evaluate(topology, samples, EvaluationSettings.of(options_with(), 300)).vertices

    for v in topology.vertices:
        received = window.rate(M.NUM_RECORDS_IN, v)
        # Rounded to a thousandth vertex by vertex, which ratios may multiply: too small rates tell nothing.
        if all(window.rate(M.NUM_RECORDS_IN, each) >= 1.0 for each in topology.vertices):
            assert metrics[v][M.TARGET_DATA_RATE].average == pytest.approx(received, rel=0.01, abs=0.01)


SOURCE_ALONE = a_topology(a_vertex(1))


def source_samples(*minutes: Mapping[ScalingMetric, float]) -> list[MetricSample]:
    """Make one sample per minute of a source that receives 10 records/s, has no lag and is half busy."""
    usual = {M.LAG: 0.0, M.LOAD: 0.5}
    return [
        a_sample(at * 60_000, {S: {M.NUM_RECORDS_IN: 600.0 * at, **usual, **given}}) for at, given in enumerate(minutes)
    ]


def evaluated_source(
    *minutes: Mapping[ScalingMetric, float], options: Mapping[str, str] | None = None
) -> EvaluatedVertex:
    return evaluate(SOURCE_ALONE, source_samples(*minutes), settings(options)).vertices[S]


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

    source, seen = custom(SOURCE_ALONE, source_samples(*LAGGING), doubled, {"catch-up.duration": "0"})

    assert seen == [(S, True)]
    assert source[M.SCALE_UP_RATE_THRESHOLD].current == 20.0
    assert source[M.SCALE_DOWN_RATE_THRESHOLD].current == INF


def test_thresholds_that_a_custom_evaluator_sets_stay() -> None:
    changes = {M.TARGET_DATA_RATE: EvaluatedMetric(NAN, 20.0), M.SCALE_UP_RATE_THRESHOLD: of(7.0)}

    source, _ = custom(SOURCE_ALONE, source_samples({}, {}), changes, {"catch-up.duration": "0"})

    assert source[M.SCALE_UP_RATE_THRESHOLD].current == 7.0


def test_a_metric_that_was_not_there_is_added_as_it_is() -> None:
    merged = merge({}, {M.LAG: EvaluatedMetric(5.0, NAN)})

    assert tuple(merged[M.LAG]) == pytest.approx((5.0, NAN), nan_ok=True)


def test_busy_time_may_promise_exactly_the_tolerated_share_more() -> None:
    assert true_processing_rate(1500.0, 1200.0, 0.25) == 1500.0
    assert true_processing_rate(1501.0, 1200.0, 0.25) == 1200.0
