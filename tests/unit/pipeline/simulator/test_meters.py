"""Flink's own meters: means over a minute, updated every five seconds, anew with every execution."""

from __future__ import annotations

import pytest

from flink_autoscaler.pipeline.simulator.meters import METER_STEP, Meters, MeterSettings, VertexFlow
from flink_autoscaler.pipeline.simulator.model import FluidJob, JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleParams, RescalingJob

SOURCE, WORK = "a" * 32, "b" * 32


def a_job(outage: float = 10.0) -> RescalingJob:
    """Make a source of 1,000 and a vertex of 100 records/s."""
    model = JobModel.chain([VertexModel(SOURCE, "Source: orders", 1000.0), VertexModel(WORK, "work", 100.0)])
    return RescalingJob(FluidJob(model, {SOURCE: 1, WORK: 1}), RescaleParams(outage))


def flow(job: RescalingJob, meters: Meters, seconds: float, rate: float) -> None:
    for _ in range(round(seconds / METER_STEP)):
        job.flow(METER_STEP, (rate,))
        meters.update()


def shown(meters: Meters) -> VertexFlow:
    flows = meters.read()
    assert flows is not None
    return flows[WORK]


def test_a_rise_shows_by_and_by() -> None:
    job = a_job()
    meters = Meters(job, MeterSettings(window=60.0))
    flow(job, meters, 60.0, 20.0)

    flow(job, meters, 30.0, 80.0)

    assert (shown(meters).busy, shown(meters).rate) == pytest.approx((0.5, 50.0))


def test_a_minute_later_nothing_is_left_of_what_was() -> None:
    job = a_job()
    meters = Meters(job, MeterSettings(window=60.0))
    flow(job, meters, 60.0, 20.0)

    flow(job, meters, 60.0, 80.0)

    assert (shown(meters).busy, shown(meters).rate) == pytest.approx((0.8, 80.0))


def test_an_execution_that_has_just_begun_looks_busy_and_slow() -> None:
    job = a_job()
    meters = Meters(job, MeterSettings(window=60.0))

    job.flow(4.0, (20.0,))
    first = shown(meters)
    job.flow(1.0, (20.0,))
    meters.update()
    flow(job, meters, 25.0, 20.0)

    assert (first.busy, first.rate) == (1.0, 0.0)
    # Shares are those of the time since it began, rates are divided by the whole minute.
    assert (shown(meters).busy, shown(meters).rate) == pytest.approx((0.2, 10.0))


def test_a_new_execution_has_new_meters() -> None:
    job = a_job(outage=7.0)
    meters = Meters(job, MeterSettings(window=60.0))
    flow(job, meters, 60.0, 20.0)
    job.request({WORK: 2})

    flow(job, meters, 5.0, 20.0)
    away = meters.read()
    flow(job, meters, 5.0, 20.0)

    assert away is None
    # In three seconds it has taken what came in ten, 200 records, which is a second of work; the two seconds
    # before it began count as busy.
    assert shown(meters).busy == pytest.approx((2 + 1) / 5)


def test_held_up_time_is_a_share_of_the_minute() -> None:
    job = a_job()
    meters = Meters(job, MeterSettings(window=60.0))
    flow(job, meters, 30.0, 50.0)

    flow(job, meters, 30.0, 200.0)

    flows = meters.read()
    assert flows is not None
    # For half of the time the source could do no more than its output: 10 % of its time is busy, 90 % held up.
    assert flows[SOURCE].backpressured == pytest.approx(0.45)
    assert flows[WORK].busy == pytest.approx(0.75)


def test_without_a_window_they_tell_what_happened_since_they_were_read() -> None:
    job = a_job()
    meters = Meters(job)
    job.flow(60.0, (20.0,))
    meters.read()

    job.flow(10.0, (80.0,))

    assert shown(meters).busy == pytest.approx(0.8)
