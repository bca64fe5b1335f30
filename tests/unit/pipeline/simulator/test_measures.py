"""The figures of a run, on runs that can be done in the head."""

from __future__ import annotations

import pytest

from flink_autoscaler.pipeline.simulator.measures import Trace, measure, reversals
from flink_autoscaler.pipeline.simulator.rescales import SimulatedRescale
from flink_autoscaler.pipeline.simulator.workloads import HOUR

VERTEX = "a" * 32


def a_trace() -> Trace:
    """Four hours: two with 2 slots, two with 4; the third with a lag of 90 s."""
    trace = Trace()
    for lag, slots in ((0.0, 2), (60.0, 2), (90.0, 4), (0.0, 4)):
        trace.add(HOUR, lag, slots)
    return trace


def a_rescale(at: float, before: int, after: int, replayed: float = 0.0) -> SimulatedRescale:
    return SimulatedRescale(at, at, at + 60, {VERTEX: before}, {VERTEX: after}, before, after, replayed)


def test_measures_of_a_run() -> None:
    rescales = [a_rescale(0.0, 4, 2, replayed=10.0), a_rescale(2 * HOUR, 2, 4, replayed=5.0)]

    measures = measure(a_trace(), rescales, slo_lag=60.0, min_slot_seconds=6 * HOUR)

    assert measures.duration == 4 * HOUR
    assert measures.slot_hours == 12.0
    assert measures.over_slo == HOUR
    assert measures.over_slo / measures.duration == 0.25
    assert measures.lag_max == 90.0
    assert (measures.ups, measures.downs, measures.rescales, measures.reversals) == (1, 1, 2, 0)
    assert measures.replayed == 15.0
    assert measures.efficiency == 0.5
    # Three slots on average: five hours of them for the late one, two minutes of them for the rescales.
    assert measures.score == pytest.approx(12 + 3 * (5 + 2 / 60))


def test_percentile_is_the_least_lag_that_is_not_exceeded_in_so_much_of_the_time() -> None:
    trace = Trace()
    for lag in range(100, 0, -1):
        trace.add(5.0, float(lag), 1)

    assert trace.lag_percentiles((50, 95, 99, 100)) == {50: 50.0, 95: 95.0, 99: 99.0, 100: 100.0}


def test_percentile_weighs_steps_by_their_length() -> None:
    trace = Trace()
    trace.add(9.0, 1.0, 1)
    trace.add(1.0, 7.0, 1)

    assert trace.lag_percentiles((50, 90, 91)) == {50: 1.0, 90: 1.0, 91: 7.0}


@pytest.mark.parametrize(
    ("rescales", "expected"),
    [
        pytest.param([a_rescale(0, 4, 2), a_rescale(HOUR, 2, 4)], 1, id="taken back within an hour"),
        pytest.param([a_rescale(0, 4, 2), a_rescale(HOUR + 1, 2, 4)], 0, id="taken back later"),
        pytest.param([a_rescale(0, 2, 4), a_rescale(60, 4, 8)], 0, id="twice the same way"),
        pytest.param([a_rescale(0, 2, 4), a_rescale(60, 4, 2), a_rescale(120, 2, 4)], 2, id="to and fro"),
    ],
)
def test_reversals(rescales: list[SimulatedRescale], expected: int) -> None:
    assert reversals(rescales) == expected
