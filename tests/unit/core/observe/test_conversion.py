import dataclasses
import math

import pytest

from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, MetricSample, ScalingMetric
from flink_autoscaler.core.model.numbers import r3
from flink_autoscaler.core.model.reading import ClusterReading, VertexAggregates
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy, Vertex
from flink_autoscaler.core.observe import metric_names
from flink_autoscaler.core.observe.conversion import Conversion, convert, convert_globals, convert_vertex
from testkit.builders.core import (
    a_cluster,
    a_reading,
    a_sample,
    a_topology,
    a_vertex,
    of_total,
    options_with,
    vertex_id,
)

NAN, INF = math.nan, math.inf
SOURCE = a_vertex(1)
OPERATOR = a_vertex(2, inputs={1: ShipStrategy.HASH})


def conversion(options: dict[str, str] | None = None, samples: tuple[MetricSample, ...] = ()) -> Conversion:
    return Conversion.of(options_with(options), samples)


def converted(
    vertex: Vertex, answers: VertexAggregates, options: dict[str, str] | None = None
) -> dict[ScalingMetric, float]:
    return convert_vertex(vertex, answers, conversion(options))


@pytest.mark.parametrize(("aggregator", "expected"), [("MAX", 0.61), ("MIN", 0.13), ("AVG", 0.403)])
def test_load_is_the_busy_time_of_the_chosen_subtask(aggregator: str, expected: float) -> None:
    busy = Aggregate(minimum=130.0, maximum=610.0, average=402.5)

    values = converted(OPERATOR, {FlinkMetric.BUSY_TIME: busy}, {"metrics.busy-time.aggregator": aggregator})

    assert r3(values[ScalingMetric.LOAD]) == expected


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        pytest.param(Aggregate(maximum=-5.0), NAN, id="negative is unknown"),
        pytest.param(Aggregate(maximum=2001.0), NAN, id="more than all the time is unknown"),
        pytest.param(Aggregate(maximum=1000.0), 1.0, id="all the time"),
        pytest.param(Aggregate(maximum=NAN), NAN, id="NaN is unknown"),
        pytest.param(Aggregate(maximum=INF), NAN, id="infinite is unknown"),
        pytest.param(Aggregate(minimum=1.0), NAN, id="not the aggregate that is needed"),
        pytest.param(None, NAN, id="no such metric"),
    ],
)
def test_load_is_unknown_without_a_finite_busy_time(busy: Aggregate | None, expected: float) -> None:
    answers = {} if busy is None else {FlinkMetric.BUSY_TIME: busy}

    assert converted(OPERATOR, answers)[ScalingMetric.LOAD] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("read", "records_in", "records_out", "expected"),
    [
        pytest.param(7000, 100.0, 200.0, 7000.0, id="the vertex counts its input"),
        pytest.param(0, 5400.0, 9900.0, 5400.0, id="the source task counts its input"),
        pytest.param(0, 0.0, 9900.0, 9900.0, id="only the output is counted"),
        pytest.param(-1, 5400.0, 9900.0, NAN, id="a negative count of the vertex is unknown"),
        pytest.param(2**53 + 2, 5400.0, 9900.0, NAN, id="a count that is too large is unknown"),
        pytest.param(10**400, 5400.0, 9900.0, NAN, id="a count beyond all doubles is unknown"),
        pytest.param(0, -1.0, 9900.0, NAN, id="a negative count of the source task is unknown"),
        pytest.param(0, 1e308, 9900.0, NAN, id="a count of the source task that is too large is unknown"),
    ],
)
def test_records_in_of_a_source_come_from_the_first_counter_that_counts(
    read: int, records_in: float, records_out: float, expected: float
) -> None:
    source = dataclasses.replace(SOURCE, io=IoMetrics(records_in=read))
    answers = {
        FlinkMetric.SOURCE_RECORDS_IN: of_total(records_in),
        FlinkMetric.SOURCE_RECORDS_OUT: of_total(records_out),
    }

    assert converted(source, answers)[ScalingMetric.NUM_RECORDS_IN] == pytest.approx(expected, nan_ok=True)


def test_records_in_of_an_operator_are_those_of_the_vertex() -> None:
    answers = {FlinkMetric.SOURCE_RECORDS_IN: of_total(5400.0)}

    assert converted(OPERATOR, answers)[ScalingMetric.NUM_RECORDS_IN] == 0.0


PREVIOUS = 777.0


@pytest.mark.parametrize(
    ("rate", "lag", "backpressure_ms", "expected"),
    [
        pytest.param(640.0, 25000.0, 350.0, 984.615, id="catching up"),
        pytest.param(640.0, 19200.0, 350.0, 984.615, id="30 s of lag are enough"),
        pytest.param(640.0, 19000.0, 350.0, PREVIOUS, id="not catching up: carried over"),
        pytest.param(640.0, 25000.0, 1000.0, PREVIOUS, id="fully backpressured: carried over"),
        pytest.param(640.0, 25000.0, NAN, PREVIOUS, id="backpressure unknown: carried over"),
        pytest.param(640.0, 25000.0, None, PREVIOUS, id="backpressure without an average: carried over"),
        pytest.param(0.5, 25000.0, 500.0, 1.0, id="less than a record per second"),
        pytest.param(0.0, 500.0, 0.0, INF, id="no input"),
    ],
)
def test_observed_rate_is_measured_while_a_source_catches_up(
    rate: float, lag: float, backpressure_ms: float | None, expected: float
) -> None:
    answers = {
        FlinkMetric.SOURCE_RECORDS_IN_RATE: of_total(rate),
        FlinkMetric.PENDING_RECORDS: of_total(lag),
        FlinkMetric.BACKPRESSURE_TIME: Aggregate(average=backpressure_ms),
    }
    samples = tuple(a_sample(at, {vertex_id(1): {ScalingMetric.OBSERVED_TPR: PREVIOUS}}) for at in (0, 1))

    values = convert_vertex(SOURCE, answers, conversion(samples=samples))

    assert r3(values[ScalingMetric.OBSERVED_TPR]) == expected


@pytest.mark.parametrize("rate", [-3.0, 1e8 + 1, 1e308, INF, NAN])
def test_a_rate_that_no_subtask_has_is_not_observed(rate: float) -> None:
    values = converted(SOURCE, {FlinkMetric.SOURCE_RECORDS_IN_RATE: of_total(rate)})

    assert ScalingMetric.OBSERVED_TPR not in values


@pytest.mark.parametrize(
    ("options", "parallelism", "rate", "expected"),
    [
        pytest.param({}, 1, 1e8, 1e8, id="as fast as a subtask can be"),
        pytest.param({}, 1, 1e8 + 1, NAN, id="faster than a subtask"),
        pytest.param({}, 3, 3e8, 3e8, id="as fast as three subtasks"),
        pytest.param({"metrics.max-rate-per-subtask": "1e9"}, 1, 1e9, 1e9, id="another limit"),
        pytest.param({"metrics.max-rate-per-subtask": "10"}, 2, 21.0, NAN, id="beyond another limit"),
        pytest.param({"compat": "reference"}, 1, 1e308, 1e308, id="reference"),
    ],
)
def test_a_rate_is_bounded_per_subtask(options: dict[str, str], parallelism: int, rate: float, expected: float) -> None:
    operator = dataclasses.replace(OPERATOR, parallelism=parallelism)

    values = converted(operator, {FlinkMetric.RECORDS_IN_RATE: of_total(rate)}, options)

    assert values[ScalingMetric.NUM_RECORDS_IN_PER_SECOND] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("lag", [-1.0, 1e308, INF, NAN, 2.0**54])
def test_a_lag_that_cannot_be_is_unknown(lag: float) -> None:
    assert math.isnan(converted(SOURCE, {FlinkMetric.PENDING_RECORDS: of_total(lag)})[ScalingMetric.LAG])


@pytest.mark.parametrize("counter", [-1.0, INF, 2.0**63])
def test_busy_time_that_cannot_be_is_unknown(counter: float) -> None:
    operator = dataclasses.replace(OPERATOR, io=IoMetrics(busy_ms=counter))

    assert math.isnan(converted(operator, {})[ScalingMetric.ACCUMULATED_BUSY_TIME])


@pytest.mark.parametrize(("options", "is_known"), [({}, False), ({"compat": "reference"}, True)])
def test_metrics_of_the_cluster_that_cannot_be_are_left_out(options: dict[str, str], is_known: bool) -> None:
    cluster = a_cluster(heap_used=-1.0, gc_ms=1e308)

    sample, _ = convert(0, a_topology(SOURCE), a_reading([SOURCE]), cluster, conversion(options))

    assert (ScalingMetric.HEAP_MEMORY_USED in sample.globals_) is is_known


def test_nothing_is_carried_over_from_too_few_observations() -> None:
    answers = {FlinkMetric.SOURCE_RECORDS_IN_RATE: of_total(640.0)}
    samples = (a_sample(0, {vertex_id(1): {ScalingMetric.OBSERVED_TPR: PREVIOUS}}),)

    values = convert_vertex(SOURCE, answers, conversion(samples=samples))

    assert math.isnan(values[ScalingMetric.OBSERVED_TPR])


def test_a_vertex_without_busy_time_is_not_scaled() -> None:
    _, excluded = convert(0, a_topology(SOURCE), a_reading([SOURCE]), a_cluster(), conversion())

    assert excluded == {vertex_id(1)}


def test_a_finished_source_is_all_zero_and_infinitely_fast() -> None:
    finished = a_vertex(1, is_finished=True)

    sample, excluded = convert(0, a_topology(finished), a_reading([finished]), a_cluster(), conversion())

    assert excluded == frozenset()
    assert sample.vertices[vertex_id(1)] == {
        ScalingMetric.LOAD: 0.0,
        ScalingMetric.ACCUMULATED_BUSY_TIME: 0.0,
        ScalingMetric.NUM_RECORDS_IN: 0.0,
        ScalingMetric.NUM_RECORDS_OUT: 0.0,
        ScalingMetric.LAG: 0.0,
        ScalingMetric.OBSERVED_TPR: INF,
    }


def test_heap_usage_needs_its_maximum() -> None:
    cluster = ClusterReading(taskmanagers={metric_names.HEAP_USED: Aggregate(maximum=1.0)})

    assert convert_globals(cluster, reports_gc=True) == {}


@pytest.mark.parametrize(
    "jobmanager",
    [
        pytest.param({metric_names.SLOTS_TOTAL: "8"}, id="one is missing"),
        pytest.param({metric_names.SLOTS_TOTAL: "8", metric_names.SLOTS_AVAILABLE: "few"}, id="one is not numeric"),
    ],
)
def test_used_slots_are_known_only_from_two_numbers(jobmanager: dict[str, str]) -> None:
    values = convert_globals(ClusterReading(jobmanager=jobmanager), reports_gc=True)

    assert ScalingMetric.NUM_TASK_SLOTS_USED not in values


INCOMPLETE = dataclasses.replace(SOURCE, io=IoMetrics(records_in=5, records_out=6, busy_ms=7.0, is_complete=False))


def test_counters_of_an_incomplete_vertex_are_unknown() -> None:
    values = converted(INCOMPLETE, {FlinkMetric.BUSY_TIME: Aggregate(maximum=100.0)})

    counters = (ScalingMetric.NUM_RECORDS_IN, ScalingMetric.NUM_RECORDS_OUT, ScalingMetric.ACCUMULATED_BUSY_TIME)
    assert all(math.isnan(values[counter]) for counter in counters)


def test_the_lag_of_an_incomplete_source_is_unknown() -> None:
    values = converted(INCOMPLETE, {FlinkMetric.PENDING_RECORDS: of_total(3.0)})

    assert math.isnan(values[ScalingMetric.LAG])


def test_a_sample_remembers_which_vertices_were_incomplete() -> None:
    sample, _ = convert(0, a_topology(INCOMPLETE), a_reading([INCOMPLETE]), a_cluster(), conversion())

    assert sample.incomplete == {vertex_id(1)}


def test_an_observed_rate_needs_backpressure_to_be_reported() -> None:
    answers = {FlinkMetric.SOURCE_RECORDS_IN_RATE: of_total(640.0), FlinkMetric.PENDING_RECORDS: of_total(25_000.0)}

    assert math.isnan(converted(SOURCE, answers)[ScalingMetric.OBSERVED_TPR])


def test_a_metric_without_a_sum_is_unknown() -> None:
    values = converted(SOURCE, {FlinkMetric.PENDING_RECORDS: Aggregate(maximum=3.0)})

    assert math.isnan(values[ScalingMetric.LAG])
