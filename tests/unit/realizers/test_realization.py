from __future__ import annotations

import dataclasses

import pytest

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.realizers.realization import BoundedMemory, Throttle, check_overrides

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


def test_nothing_is_remembered_at_first() -> None:
    assert BoundedMemory[str, int]().get("a") is None


def test_put_returns_what_was_there() -> None:
    remembered: BoundedMemory[str, int] = BoundedMemory()

    assert remembered.put("a", 1) is None
    assert remembered.put("a", 2) == 1
    assert remembered.get("a") == 2


def test_what_was_put_first_is_forgotten_when_full() -> None:
    remembered: BoundedMemory[str, int] = BoundedMemory(capacity=2)
    remembered.put("a", 1)
    remembered.put("b", 2)
    remembered.put("a", 3)

    remembered.put("c", 4)

    assert [remembered.get(key) for key in "abc"] == [3, None, 4]


@pytest.mark.parametrize("unusable", [0, -1, True, 1.0, "2", None])
def test_an_unusable_override_is_refused_by_name(unusable: object) -> None:
    overrides: dict[str, object] = {"a": 1, "b": unusable}

    with pytest.raises(RealizeError, match="vertex b"):
        check_overrides(overrides)  # type: ignore[arg-type]
