"""Improvements over the reference that show in a decision, and what the reference comes to."""

import dataclasses

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    PIPELINE_MAP,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    draining_pipeline,
    pipeline,
    single_source,
    stuck_pipeline,
)


def context(options: dict[str, str], **job: float) -> JobAutoScalerContext:
    return a_context({**SINGLE_SOURCE_OPTIONS, **options}, taskmanager_cpu=job.get("cpu"))


def third_pass(job: JobAutoScalerContext, readings: list[JobReading]) -> PassOutcome:
    return JobDriver(job).run_each_minute(readings)


def busy_source_of_a_group() -> list[JobReading]:
    return [single_source(minute, rate=200.0, busy_ms=1000.0, group="g") for minute in (1, 2, 3)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {SINGLE_SOURCE: 6}, id="improved: up to the quota"),
        pytest.param({"compat": "reference"}, {}, id="reference: not at all"),
    ],
)
def test_a_quota_below_what_is_needed(options: dict[str, str], expected: dict[str, int]) -> None:
    job = context({**options, "quota.cpu": "6"}, cpu=1.0)

    outcome = third_pass(job, busy_source_of_a_group())

    assert outcome.wanted == expected
    assert "ResourceQuotaReached" in [event.reason for event in outcome.events]


def test_a_quota_that_suffices_changes_nothing() -> None:
    outcome = third_pass(context({"quota.cpu": "8"}, cpu=1.0), busy_source_of_a_group())

    assert outcome.wanted == {SINGLE_SOURCE: 8}
    assert outcome.events == ()


@pytest.mark.parametrize(("compat", "expected"), [("improved", 4), ("reference", 2)])
def test_a_busy_vertex_while_a_backlog_is_drained(compat: str, expected: int) -> None:
    # For the 100 records/s that arrive, a tenth of the parallelism would do.
    outcome = third_pass(context({"compat": compat}), draining_pipeline())

    assert outcome.wanted == {SINGLE_SOURCE: 2, PIPELINE_MAP: expected}


@pytest.mark.parametrize(("compat", "source", "expected"), [("improved", 4, 8), ("reference", 16, 16)])
def test_a_vertex_behind_a_source_that_cannot_grow(compat: str, source: int, expected: int) -> None:
    outcome = third_pass(context({"compat": compat}), stuck_pipeline())

    assert outcome.wanted == {SINGLE_SOURCE: source, PIPELINE_MAP: expected}


def test_a_bottleneck_that_can_grow_limits_nothing() -> None:
    readings = [pipeline(minute, pending=6000.0 * minute, rate=100.0, busy_ms=(1000.0, 1000.0)) for minute in (1, 2, 3)]

    outcome = third_pass(context({}), readings)

    assert isinstance(outcome.decision, Rescale)
    assert outcome.wanted == {SINGLE_SOURCE: 16, PIPELINE_MAP: 16}


def test_the_same_inputs_lead_to_the_same_decision() -> None:
    readings = busy_source_of_a_group()

    first, second = (third_pass(context({}), readings) for _ in range(2))

    assert dataclasses.replace(first, seconds={}) == dataclasses.replace(second, seconds={})
