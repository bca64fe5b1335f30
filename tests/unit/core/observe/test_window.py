import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.observe.window import (
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
