"""Counters that went back: those that began anew, and those that never did."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.observe.counters import BACK_WITHIN, Samples, analyze_resets
from flink_autoscaler.core.observe.window import MetricWindow
from testkit.builders.core import a_sample, vertex_id

NAN = math.nan
V, OTHER = vertex_id(1), vertex_id(2)
COUNTER = ScalingMetric.NUM_RECORDS_IN
MINUTE = 60_000
GREATEST = {V: 1e8}


def minutes(*values: float) -> Samples:
    """Make samples of a counter, one a minute."""
    return tuple(a_sample(number * MINUTE, {V: {COUNTER: value}}) for number, value in enumerate(values))


def steady(count: int, *, start: float = 1e9) -> list[float]:
    """Return a counter that grows by 100 records/s."""
    return [start + 6000.0 * number for number in range(count)]


def pass_by_pass(values: Sequence[float]) -> tuple[Samples, float]:
    """Take in a counter sample by sample; return what is remembered in the end, and the rate."""
    kept: Samples = ()
    for sample in minutes(*values):
        window = analyze_resets((*kept, sample), GREATEST)
        kept = window.stored
    return kept, MetricWindow(window.for_rates).rate(COUNTER, V)


def known(samples: Sequence[MetricSample]) -> list[bool]:
    return [not math.isnan(sample.vertices[V][COUNTER]) for sample in samples]


@pytest.mark.parametrize("lie", [0.0, 1e9 - 1], ids="a counter at {:g}".format)
@pytest.mark.parametrize("length", range(1, BACK_WITHIN + 1))
@pytest.mark.parametrize("truth_before", [2, 8])
def test_a_counter_that_is_back_where_it_was_going_was_never_reset(lie: float, length: int, truth_before: int) -> None:
    values = steady(truth_before + length + 3)
    values[truth_before : truth_before + length] = [lie] * length

    kept, rate = pass_by_pass(values)

    assert rate == 100.0
    assert known(kept) == [value != lie for value in values]


@pytest.mark.parametrize("length", range(1, BACK_WITHIN + 1))
def test_a_counter_that_falls_to_where_it_was_going_was_too_high_before(length: int) -> None:
    values = steady(8 + length)
    values[4 : 4 + length] = [3e9] * length

    kept, rate = pass_by_pass(values)

    assert rate == 100.0
    assert known(kept) == [value != 3e9 for value in values]


def test_with_one_value_before_the_fall_the_counter_begins_when_it_is_back() -> None:
    rates = [pass_by_pass([1e9, 0.0, *steady(count, start=1e9 + 12_000)])[1] for count in (1, 2)]

    assert math.isnan(rates[0])
    assert rates[1] == 100.0


@pytest.mark.parametrize("before", [1, 2, 8])
def test_a_counter_that_goes_on_from_where_it_fell_to_has_begun_anew(before: int) -> None:
    values = [*steady(before), 60.0, 6060.0, 12_060.0, 18_060.0]

    kept, rate = pass_by_pass(values)

    assert rate == 100.0
    assert known(kept) == [False] * before + [True] * 4


@pytest.mark.parametrize("before", [1, 2, 4])
def test_a_counter_that_began_anew_may_overtake_what_it_was(before: int) -> None:
    values = [*steady(before, start=3000.0), 100.0, *steady(8, start=6100.0)]

    rates = [pass_by_pass(values[: before + length])[1] for length in (2, 3, 4, 9)]

    assert [rate for rate in rates if not math.isnan(rate)][-3:] == [100.0] * 3


def test_a_counter_that_stood_still_is_back_where_it_stood() -> None:
    assert pass_by_pass([500.0, 500.0, 500.0, 0.0, 500.0, 500.0])[1] == 0.0


def test_a_growth_that_no_subtask_can_have_is_none() -> None:
    values = steady(8)
    values[4] = 1e9 + 1e8 * 60 * 8

    rates = [pass_by_pass(values[:length])[1] for length in range(2, 9)]

    assert [rate for rate in rates if not math.isnan(rate)] == [100.0] * 6


def test_a_counter_that_began_anew_leaves_other_metrics_alone() -> None:
    values = [*steady(3), 0.0, 6000.0, 12_000.0, 18_000.0]
    samples = tuple(
        a_sample(number * MINUTE, {V: {COUNTER: value, ScalingMetric.LOAD: 0.5}}) for number, value in enumerate(values)
    )

    kept, _ = analyze_resets(samples, GREATEST)

    assert known(kept) == [False] * 3 + [True] * 4
    assert [sample.vertices[V][ScalingMetric.LOAD] for sample in kept] == [0.5] * 7


def test_a_vertex_that_is_not_looked_at_keeps_its_counters() -> None:
    samples = minutes(*steady(3), 0.0)

    assert analyze_resets(samples, {}) == (samples, samples)


def test_a_counter_is_compared_with_its_last_known_value_however_old() -> None:
    samples = minutes(*steady(3), *[NAN] * 9, 8.0)

    assert known(analyze_resets(samples, GREATEST).for_rates) == [False] * 12 + [True]


@given(
    growth=st.lists(st.integers(1, 1000), min_size=6, max_size=30),
    data=st.data(),
    scale=st.sampled_from([1.0, 1e3]),
)
def test_a_fall_never_makes_a_rate_faster_than_the_counter_ever_was(
    growth: list[int], data: st.DataObject, scale: float
) -> None:
    truth = [1e9 + each * scale for each in accumulate(growth)]
    place = data.draw(st.integers(2, len(truth) - 1))
    values = [*truth]
    values[place] = data.draw(st.floats(0.0, truth[place - 1] - 1))

    _, rate = pass_by_pass(values)

    greatest = max(later - earlier for earlier, later in pairwise(truth)) / 60
    assert math.isnan(rate) or -1e-6 <= rate <= greatest * 1.001
