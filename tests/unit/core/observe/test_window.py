"""How long vertices waited: what a sample keeps of it, and the shares of the metric window."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime, ScalingMetric, VertexId
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.observe.conversion import Conversion, convert
from flink_autoscaler.core.observe.window import (
    MetricWindow,
    NonBusyShares,
    VertexTable,
    WindowSettings,
    full_at_ms,
    mean_of,
    non_busy_shares,
    non_busy_times,
    trim,
)
from testkit.builders.core import a_cluster, a_reading, a_sample, a_topology, a_vertex, options_with, vertex_id

NAN, INF = math.nan, math.inf


V = vertex_id(1)


COUNTER = ScalingMetric.NUM_RECORDS_IN


SECOND = 1000


def counted(*values: tuple[float, float]) -> tuple[MetricSample, ...]:
    """Make samples of a counter from pairs of (second, value)."""
    return tuple(a_sample(round(at * SECOND), {V: {COUNTER: value}}) for at, value in values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([(0, 1000), (30, NAN), (75, 40000)], 520.0, id="from the first to the last known value"),
        pytest.param([(0, NAN), (10, 100), (20, 300), (30, NAN)], 20.0, id="unknown edges are skipped"),
        pytest.param([(0, 300), (10, 100)], -20.0, id="negative when the counter went back"),
        pytest.param([(0, 1.0), (0.0005, 2.0)], NAN, id="one instant is one sample"),
        pytest.param([(0, 1.0), (0.001, 2.0)], 1000.0, id="a millisecond apart"),
        pytest.param([(0, 1), (10, NAN)], NAN, id="one known value"),
        pytest.param([(0, NAN)], NAN, id="no known value"),
    ],
)
def test_rate_is_the_growth_per_second(values: list[tuple[float, float]], expected: float) -> None:
    rate = MetricWindow(counted(*values)).rate(COUNTER, V)

    assert rate == pytest.approx(expected, nan_ok=True)


def test_rate_of_a_vertex_without_samples_is_unknown() -> None:
    assert math.isnan(MetricWindow([a_sample(0), a_sample(1000)]).rate(COUNTER, V))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([900], NAN, id="one is fewer than two"),
        pytest.param([900, 1100], 1000, id="two"),
        pytest.param([900, 1100, INF], 1000, id="infinity is left out"),
        pytest.param([INF], INF, id="nothing but infinity"),
        pytest.param([INF, 900], NAN, id="one finite value is fewer than two"),
        pytest.param([NAN, NAN], NAN, id="nothing known"),
        pytest.param([], NAN, id="nothing"),
    ],
)
def test_mean_needs_enough_finite_values(values: list[float], expected: float) -> None:
    assert mean_of(values, 2) == pytest.approx(expected, nan_ok=True)


def test_latest_looks_at_the_newest_sample_only() -> None:
    window = MetricWindow([a_sample(0, {V: {ScalingMetric.LAG: 5.0}}), a_sample(1, {V: {}})])

    assert window.latest(ScalingMetric.LAG, V) is None
    assert window.latest(ScalingMetric.LAG, vertex_id(2)) is None


IMPROVED = WindowSettings(stable_at_ms=60_000, length_ms=120_000, keeps_edge=True)


def run_passes(settings: WindowSettings, seconds: list[int]) -> list[bool]:
    """Tell for each pass whether its window was full."""
    samples: tuple[MetricSample, ...] = ()
    full = []
    for second in seconds:
        is_full = second * SECOND >= full_at_ms(samples, settings, second * SECOND)
        samples = (*samples, a_sample(second * SECOND))
        samples = trim(samples, settings, second * SECOND) if is_full else samples
        full.append(is_full)
    return full


JITTER = [60, 121, 181, 240, 302, 359]


def test_a_full_window_stays_full_when_passes_jitter() -> None:
    assert run_passes(IMPROVED, JITTER) == [False, False, True, True, True, True]


@given(st.lists(st.integers(min_value=50, max_value=70), min_size=4, max_size=30))
def test_a_full_window_stays_full_for_any_jitter(steps: list[int]) -> None:
    seconds = [60 + sum(steps[:at]) for at in range(len(steps))]

    full = run_passes(IMPROVED, seconds)

    assert full == sorted(full)


@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from([COUNTER, ScalingMetric.LAG, ScalingMetric.LOAD]), st.floats()), max_size=8
    )
)
def test_values_are_what_the_samples_say(rows: list[dict[ScalingMetric, float]]) -> None:
    window = MetricWindow([a_sample(number, {V: row}) for number, row in enumerate(rows)])

    for metric in (COUNTER, ScalingMetric.LAG, ScalingMetric.LOAD):
        expected = [row.get(metric, NAN) for row in rows]
        found = list(window.values(metric, V)) or [NAN] * len(rows)
        assert list(map(repr, found)) == list(map(repr, expected))


W = vertex_id(2)


LOAD, LAG = ScalingMetric.LOAD, ScalingMetric.LAG


Plain = dict[VertexId, dict[ScalingMetric, float]]


numbers = st.floats()


plain = st.dictionaries(
    st.integers(0, 9).map(vertex_id),
    st.dictionaries(st.sampled_from(list(ScalingMetric)), numbers, max_size=6),
    max_size=5,
)


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


@given(vertices=plain)
def test_a_table_says_what_the_maps_say_that_it_was_made_of(vertices: Plain) -> None:
    table: Mapping[VertexId, Mapping[ScalingMetric, float]] = VertexTable.of(vertices)

    assert list(table) == list(vertices)
    for v, metrics in vertices.items():
        assert v in table
        assert list(table[v]) == list(metrics)
        assert all(same(value, metrics[metric]) for metric, value in table[v].items())
        assert all(same(table[v][metric], value) for metric, value in metrics.items())
        assert all((metric in table[v]) == (metric in metrics) for metric in ScalingMetric)
        assert all(table[v].get(metric) is None for metric in ScalingMetric if metric not in metrics)


@given(vertices=plain, others=plain)
def test_tables_are_equal_where_maps_are_but_for_nan_which_is_equal_to_itself(vertices: Plain, others: Plain) -> None:
    def named(given: Plain) -> dict[VertexId, dict[ScalingMetric, float | str]]:
        return {
            v: {metric: "NaN" if math.isnan(value) else value for metric, value in metrics.items()}
            for v, metrics in given.items()
        }

    assert (VertexTable.of(vertices) == VertexTable.of(others)) == (named(vertices) == named(others))
    assert (VertexTable.of(vertices) == others) == (named(vertices) == named(others))
    assert VertexTable.of(vertices) == vertices
    assert vertices == VertexTable.of(vertices)


@given(vertices=plain)
def test_a_table_travels(vertices: Plain) -> None:
    table = VertexTable.of(vertices)

    arrived = pickle.loads(pickle.dumps(table))

    assert arrived == table
    assert arrived.layout is table.layout


def test_samples_that_tell_the_same_share_their_layout() -> None:
    first = VertexTable.of({V: {LOAD: 0.5, LAG: 1.0}, W: {LOAD: 0.25}})
    second = VertexTable.of({V: {LOAD: 0.75, LAG: 2.0}, W: {LOAD: NAN}})
    other = VertexTable.of({V: {LAG: 1.0, LOAD: 0.5}, W: {LOAD: 0.25}})

    assert first.layout is second.layout
    assert first.layout is not other.layout
    assert first == other


def test_a_table_is_nothing_else() -> None:
    table = VertexTable.of({V: {LOAD: 0.5}})

    assert table != 1
    assert table[V] != 1
    assert repr(table) == repr({V: {LOAD: 0.5}})
    assert repr(table[V]) == repr({LOAD: 0.5})


MINUTE = 60_000


def a_window(*times: tuple[float, float, float] | None) -> tuple[MetricSample, ...]:
    """Make a sample per minute; the times are idle, backpressured and busy milliseconds, None tells nothing."""
    return tuple(
        MetricSample(at * MINUTE, {V: {ScalingMetric.ACCUMULATED_BUSY_TIME: time[2]}}, {}, waited={V: _waiting(time)})
        if time
        else MetricSample(at * MINUTE, {V: {}}, {})
        for at, time in enumerate(times)
    )


def _waiting(time: tuple[float, float, float]) -> NonBusyTime:
    return NonBusyTime(time[0], time[1])


def test_a_finished_vertex_does_not_wait() -> None:
    io = IoMetrics(idle_ms=5.0, backpressured_ms=0.0)

    assert non_busy_times([a_vertex(1, io=io, is_finished=True)]) == {}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param({"compat": "reference"}, set(), id="nobody asks"),
        pytest.param({}, {V}, id="of sources, for their limits"),
        pytest.param({"policy": "varga"}, {V, vertex_id(2)}, id="a policy that may ask"),
    ],
)
def test_a_sample_has_them_for_those_that_somebody_asks_for(options: dict[str, str], kept: set[str]) -> None:
    io = IoMetrics(idle_ms=5.0, backpressured_ms=1.0)
    vertices = [a_vertex(1, io=io), a_vertex(2, io=io, inputs={1: ShipStrategy.HASH})]
    conversion = Conversion.of(options_with(options), ())

    sample, _ = convert(0, a_topology(*vertices), a_reading(vertices), a_cluster(), conversion)

    assert sample.waited == dict.fromkeys(kept, NonBusyTime(5.0, 1.0))


def test_shares_are_those_of_the_whole_window() -> None:
    # Two subtasks for two minutes, of which the reports of the last tell only 100 s.
    samples = a_window((10_000, 500, 0), (40_000, 500, 5_000), (110_000, 20_500, 80_000))

    assert non_busy_shares(MetricWindow(samples), V) == pytest.approx((0.5, 0.1))


def test_shares_after_a_restart_are_those_since() -> None:
    samples = a_window((900_000, 0, 100_000), (1_000, 0, 4_000), None, (31_000, 0, 34_000))

    assert non_busy_shares(MetricWindow(samples), V) == pytest.approx((0.5, 0.0))


def test_busy_time_that_goes_back_by_some_milliseconds_is_no_restart() -> None:
    samples = a_window((0, 0, 100), (30_000, 0, 99), (60_000, 0, 97))

    assert non_busy_shares(MetricWindow(samples), V) == NonBusyShares(1.0, 0.0)


def test_nothing_is_known_of_a_vertex_that_no_sample_has() -> None:
    assert non_busy_shares(MetricWindow(a_window((0, 0, 0), (30_000, 0, 0))), vertex_id(2)) is None
