"""How long vertices waited: what a sample keeps of it, and the shares of the metric window."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime, ScalingMetric
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.observe.conversion import Conversion, convert
from flink_autoscaler.core.observe.window import MetricWindow, NonBusyShares, non_busy_shares, non_busy_times
from testkit.builders.core import a_cluster, a_reading, a_topology, a_vertex, options_with, vertex_id

V = vertex_id(1)
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
