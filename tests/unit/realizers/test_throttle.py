from __future__ import annotations

import dataclasses

import pytest

from flink_autoscaler.core.model.job import Endpoint, JobAutoScalerContext, JobStatus
from flink_autoscaler.realizers.throttle import Throttle

JOB = JobAutoScalerContext(
    "cluster/orders",
    "0" * 32,
    JobStatus.RUNNING,
    {"job.autoscaler.scaling.event.interval": "10 s"},
    Endpoint("http://localhost:1"),
)


@pytest.mark.parametrize(
    ("instants", "expected"),
    [
        pytest.param([0.0], [True], id="first"),
        pytest.param([0.0, 9.9], [True, False], id="within the interval"),
        pytest.param([0.0, 10.0], [True, True], id="exactly at the interval"),
        pytest.param([0.0, 9.0, 18.0], [True, False, True], id="a refused message does not start the interval anew"),
    ],
)
def test_a_message_is_admitted_once_per_interval(instants: list[float], expected: list[bool]) -> None:
    clock = iter(instants)
    throttle = Throttle(lambda: next(clock))

    assert [throttle.admits(JOB, "reason") for _ in instants] == expected


def test_jobs_and_reasons_are_kept_apart() -> None:
    throttle = Throttle(lambda: 0.0)
    throttle.admits(JOB, "reason")

    assert throttle.admits(JOB, "other")
    assert throttle.admits(dataclasses.replace(JOB, job_key="cluster/other"), "reason")
    assert not throttle.admits(JOB, "reason")
