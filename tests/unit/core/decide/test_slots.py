from __future__ import annotations

import math

import pytest

from flink_autoscaler.core.decide.slots import (
    FreeSlotsCheck,
    Quota,
    exceeds_quota,
    free_slots,
    slots_after,
)
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.ports.plugins import ResourceRequest
from testkit.builders.core import a_plan, a_topology, a_vertex
from testkit.builders.core_passes import SOURCE, outcome_after_full_window

HASH = ShipStrategy.HASH
CHAIN = a_topology(
    a_vertex(1, parallelism=4),
    a_vertex(2, parallelism=6, inputs={1: HASH}),
    a_vertex(3, parallelism=6, inputs={2: HASH}),
)


@pytest.mark.parametrize(
    ("slots_used", "expected"),
    [
        pytest.param(6.0, 10, id="shared: the widest vertex counts"),
        pytest.param(16.0, 22, id="not shared: all count"),
        pytest.param(10.0, 22, id="neither: all count"),
        pytest.param(math.nan, 22, id="unknown: all count"),
    ],
)
def test_slots_are_shared_when_as_many_are_used_as_the_widest_vertex_has(slots_used: float, expected: int) -> None:
    assert slots_after(CHAIN, a_plan({1: (4, 10)}), slots_used) == expected


GROUPS = a_topology(
    a_vertex(1, parallelism=8, group="g1"),
    a_vertex(2, parallelism=5, inputs={1: HASH}, group="g1"),
    a_vertex(3, parallelism=3, inputs={2: HASH}, group="g2"),
    a_vertex(4, parallelism=40, inputs={3: HASH}, group="g2"),
)
GIB = 1 << 30


def quota(cpu: float | None = None, memory_gib: int | None = None) -> Quota:
    return Quota(cpu, None if memory_gib is None else memory_gib * GIB, 2.0, 4 * GIB, 4)


def test_a_plan_that_needs_no_more_taskmanagers_is_within_any_quota() -> None:
    assert not exceeds_quota(GROUPS, a_plan({1: (8, 9)}), quota(cpu=0.1))


def test_a_scale_down_is_within_any_quota() -> None:
    assert not exceeds_quota(GROUPS, a_plan({4: (40, 20)}), quota(cpu=0.1))


def test_there_is_no_quota_without_slot_sharing_groups() -> None:
    assert not exceeds_quota(CHAIN, a_plan({1: (4, 400)}), quota(cpu=0.1))


@pytest.mark.parametrize(
    ("reported", "expected"),
    [("3", 3), ("0", 0), ("3.0", 3), ("NaN", None), ("Infinity", None), ("many", None), (None, None)],
)
def test_free_slots_are_what_the_jobmanager_reports(reported: str | None, expected: int | None) -> None:
    metrics = {} if reported is None else {"taskSlotsAvailable": reported}

    assert free_slots(ClusterReading(jobmanager=metrics)) == expected


CHOSEN = {"job.autoscaler.resource-check": "free-slots"}
# Needs twice the slots that the job has: at a target of 0.25 its ten subtasks become twenty.
GROWS = {"job.autoscaler.utilization.target": "0.25", "job.autoscaler.utilization.max": "0.3"}


@pytest.mark.parametrize(
    ("more", "available", "expected"),
    [
        pytest.param(3, "3", True, id="just enough"),
        pytest.param(4, "3", False, id="one short"),
        pytest.param(-2, "0", True, id="shrinking needs nothing"),
        pytest.param(0, None, True, id="no growth, number unknown"),
        pytest.param(1, None, False, id="growth, number unknown"),
        pytest.param(1, "many", False, id="growth, not a number"),
        pytest.param(1, "NaN", False, id="growth, NaN"),
    ],
)
def test_a_plan_has_to_fit_into_the_free_slots(more: int, available: str | None, expected: bool) -> None:
    request = ResourceRequest(1, 2, 1.0, 1, slots_used=4, slots_needed=4 + more, more_slots=more)
    cluster = ClusterReading({} if available is None else {"taskSlotsAvailable": available})

    assert FreeSlotsCheck().try_schedule(request, cluster) is expected


def test_a_job_that_chose_the_check_is_held_back_where_no_slot_is_free() -> None:
    options = {**GROWS, "job.autoscaler.utilization.min": "0"}

    free, checked = outcome_after_full_window(options), outcome_after_full_window({**options, **CHOSEN})

    assert isinstance(free.decision, Rescale)
    assert free.decision.summaries[SOURCE].new > 10
    assert isinstance(checked.decision, Hold)
    assert [event.reason for event in checked.events] == ["NotSchedulable"]
    assert dict(checked.state.overrides) == {}


def test_a_job_that_chose_the_check_may_shrink() -> None:
    outcome = outcome_after_full_window(CHOSEN)

    assert isinstance(outcome.decision, Rescale)
    assert outcome.decision.summaries[SOURCE].new < 10
