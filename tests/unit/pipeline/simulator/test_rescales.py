"""What a rescale does to a job that flows."""

from __future__ import annotations

import pytest

from flink_autoscaler.pipeline.simulator.model import FluidJob, JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import (
    RescaleParams,
    RescaleResponse,
    RescalingJob,
)

VERTEX = "a" * 32
STEP = 5.0


def a_job(parallelism: int = 1, terms: RescaleParams | None = None) -> RescalingJob:
    """A job whose subtasks take 50,000 records/s each."""
    model = JobModel.chain([VertexModel(VERTEX, "only", 50e3, max_parallelism=8)])
    return RescalingJob(FluidJob(model, {VERTEX: parallelism}), terms or RescaleParams())


def flow(job: RescalingJob, seconds: float, rate: float) -> list[float]:
    """Let time pass and return the lag after every step."""
    lags = []
    for _ in range(round(seconds / STEP)):
        job.flow(STEP, (rate,))
        lags.append(job.fluid.lag())
    return lags


def test_outage_of_a_minute_costs_what_the_closed_form_says() -> None:
    # 100,000 records/s, 60 s away, 150,000 records/s afterwards: 6 M wait, gone after 120 s, and the lag is above
    # 30 s for (60 - 30) * 150 / (150 - 100) = 90 s.
    job = a_job(parallelism=2, terms=RescaleParams(60.0))
    job.request({VERTEX: 3})
    lags = flow(job, 60.0, 100e3)
    backlog = job.fluid.backlog[0]
    lags += flow(job, 300.0, 100e3)

    assert backlog == pytest.approx(6e6)
    assert max(lags) == pytest.approx(60.0)
    assert sum(STEP for lag in lags if lag > 30.0) == pytest.approx(90.0, abs=STEP)
    drained = next(n for n, lag in enumerate(lags) if n > 12 and lag == 0)
    assert (drained + 1) * STEP - 60.0 == pytest.approx(120.0, abs=STEP)


def test_job_works_on_during_the_delay() -> None:
    job = a_job(parallelism=1, terms=RescaleParams(10.0, delay=20.0))
    job.request({VERTEX: 2})

    flow(job, 20.0, 40e3)

    assert job.fluid.served == [800e3]
    assert job.fluid.parallelism == {VERTEX: 1}
    assert job.requested == {VERTEX: 2}


def test_rescale_is_exact_to_the_instant_within_a_step() -> None:
    job = a_job(parallelism=1, terms=RescaleParams(3.0, delay=1.0))
    job.request({VERTEX: 2})

    job.flow(10.0, (100e3,))

    # One second at 50,000, three at nothing, six at 100,000.
    assert job.fluid.served == pytest.approx([650e3])
    assert (job.stopped_at, job.running_since) == (1.0, 4.0)


def test_replay_makes_the_outage_count_for_longer() -> None:
    job = a_job(parallelism=3, terms=RescaleParams(60.0, replay=15.0))
    flow(job, 60.0, 100e3)
    job.request({VERTEX: 4})

    lags = flow(job, 60.0, 100e3)

    assert lags[-1] == pytest.approx(75.0)
    assert job.rescales[0].replayed == pytest.approx(1.5e6)


def test_requests_during_a_rescale_are_rejected() -> None:
    job = a_job(terms=RescaleParams(10.0, delay=10.0))

    answers = [job.request({VERTEX: 2}), job.request({VERTEX: 2}), job.request({VERTEX: 3})]
    flow(job, 15.0, 0.0)
    answers.append(job.request({VERTEX: 1}))

    assert answers == [
        RescaleResponse.ACCEPTED,
        RescaleResponse.UNCHANGED,
        RescaleResponse.REJECTED,
        RescaleResponse.REJECTED,
    ]
    assert job.rejected == 2
    flow(job, 5.0, 0.0)
    assert job.fluid.parallelism == {VERTEX: 2}


def test_request_is_limited_to_the_max_parallelism() -> None:
    job = a_job(parallelism=8)

    assert job.request({VERTEX: 9, "b" * 32: 2}) is RescaleResponse.UNCHANGED


def test_slots_change_when_the_old_execution_stops() -> None:
    job = a_job(parallelism=1, terms=RescaleParams(10.0, delay=5.0))
    job.request({VERTEX: 4})
    slots = []

    for _ in range(4):
        job.flow(4.0, (0.0,))
        slots.append(job.slots)

    assert slots == [1, 4, 4, 4]
    assert [(r.slots_before, r.slots_after, r.is_up) for r in job.rescales] == [(1, 4, True)]


def test_recorded_outages_come_one_after_the_other_and_again() -> None:
    job = a_job(terms=RescaleParams(60.0, outages=(10.0, 20.0)))

    for parallelism in (2, 3, 4):
        job.request({VERTEX: parallelism})
        flow(job, 30.0, 10e3)

    assert [each.running - each.stopped for each in job.rescales] == [10.0, 20.0, 10.0]
