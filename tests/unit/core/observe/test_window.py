import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.observe.window import (
    Columns,
    MetricWindow,
    WindowSettings,
    full_at_ms,
    mean_of,
    trim,
)
from testkit.builders.core import a_sample, vertex_id

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


def test_average_skips_samples_without_the_metric() -> None:
    samples = [a_sample(0), a_sample(1, {V: {}}), a_sample(2, {V: {ScalingMetric.LOAD: 0.5}})]

    assert MetricWindow(samples).average(ScalingMetric.LOAD, V) == 0.5


def test_latest_looks_at_the_newest_sample_only() -> None:
    window = MetricWindow([a_sample(0, {V: {ScalingMetric.LAG: 5.0}}), a_sample(1, {V: {}})])

    assert window.latest(ScalingMetric.LAG, V) is None
    assert window.latest(ScalingMetric.LAG, vertex_id(2)) is None


REFERENCE = WindowSettings(stable_at_ms=60_000, length_ms=120_000, keeps_edge=False)
IMPROVED = WindowSettings(stable_at_ms=60_000, length_ms=120_000, keeps_edge=True)


@pytest.mark.parametrize("settings", [REFERENCE, IMPROVED], ids=["reference", "improved"])
def test_the_window_is_full_after_stabilization_and_its_length(settings: WindowSettings) -> None:
    samples: tuple[MetricSample, ...] = ()
    table = []

    for second in (0, 60, 120, 180):
        now_ms = second * SECOND
        full_at = full_at_ms(samples, settings, now_ms)
        samples = (*samples, a_sample(now_ms))
        is_full = now_ms >= full_at
        samples = trim(samples, settings, now_ms) if is_full else samples
        table.append((second, full_at // SECOND, is_full, [s.at_ms // SECOND for s in samples]))

    assert table == [
        (0, 120, False, [0]),
        (60, 180, False, [0, 60]),
        (120, 180, False, [0, 60, 120]),
        (180, 180, True, [60, 120, 180]),
    ]


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


def test_a_full_window_flickers_when_passes_jitter_in_the_reference() -> None:
    assert run_passes(REFERENCE, JITTER) == [False, False, True, False, True, False]


def test_a_full_window_stays_full_when_passes_jitter() -> None:
    assert run_passes(IMPROVED, JITTER) == [False, False, True, True, True, True]


@given(st.lists(st.integers(min_value=50, max_value=70), min_size=4, max_size=30))
def test_a_full_window_stays_full_for_any_jitter(steps: list[int]) -> None:
    seconds = [60 + sum(steps[:at]) for at in range(len(steps))]

    full = run_passes(IMPROVED, seconds)

    assert full == sorted(full)


def test_trim_keeps_a_sample_at_the_very_start_of_the_window() -> None:
    samples = tuple(a_sample(at * SECOND) for at in (59, 60, 120, 180))

    assert [s.at_ms for s in trim(samples, REFERENCE, 180_000)] == [60_000, 120_000, 180_000]


def test_passes_rarer_than_the_window_leave_one_sample_in_the_reference() -> None:
    samples = (a_sample(60_000), a_sample(360_000))

    assert len(trim(samples, REFERENCE, 360_000)) == 1
    assert len(trim(samples, IMPROVED, 360_000)) == 2


def test_samples_with_other_metrics_count_in_one_window() -> None:
    rate = ScalingMetric.OBSERVED_TPR
    samples = (
        a_sample(0, {V: {COUNTER: 0.0}}),
        a_sample(1000, {V: {COUNTER: 100.0, rate: 10.0}}),
        a_sample(2000, {}),
        a_sample(3000, {V: {rate: 30.0, COUNTER: 600.0}}),
    )

    window = MetricWindow(samples)

    assert window.rate(COUNTER, V) == 200.0
    assert window.average(rate, V) == 20.0
    assert window.latest(COUNTER, V) == 600.0
    assert window.latest(rate, vertex_id(2)) is None


@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from([COUNTER, ScalingMetric.LAG, ScalingMetric.LOAD]), st.floats()), max_size=8
    )
)
def test_columns_are_what_the_samples_say(rows: list[dict[ScalingMetric, float]]) -> None:
    columns = Columns([a_sample(number, {V: row}) for number, row in enumerate(rows)])

    for metric in (COUNTER, ScalingMetric.LAG, ScalingMetric.LOAD):
        expected = [row.get(metric, NAN) for row in rows]
        found = list(columns.column(metric, V)) or [NAN] * len(rows)
        assert list(map(repr, found)) == list(map(repr, expected))
