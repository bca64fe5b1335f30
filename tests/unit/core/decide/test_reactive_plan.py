from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from flink_autoscaler.core.decide.plan import Plan
from flink_autoscaler.core.decide.resources import in_whole_taskmanagers
from flink_autoscaler.core.model.job import ClusterCapacity
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric
from flink_autoscaler.core.model.state import JobState, ScalingSummary
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.ports.passes import EvaluatedJob
from testkit.builders.core import a_cluster, a_context, a_topology, a_vertex, evaluated_vertex, vertex_id

A, B = vertex_id(1), vertex_id(2)
REACTIVE = {"scheduler-mode": "reactive", "taskmanager.numberOfTaskSlots": "4"}


def a_job(
    *,
    parallelism: int = 4,
    limits: tuple[int, int] = (128, 128),
    flink: Mapping[str, str] | None = None,
    capacity: ClusterCapacity | None = None,
) -> EvaluatedJob:
    """Two vertices that run in all slots there are."""
    topology = a_topology(
        a_vertex(1, parallelism=min(parallelism, limits[0]), max_parallelism=limits[0]),
        a_vertex(2, parallelism=min(parallelism, limits[1]), max_parallelism=limits[1], inputs={1: ShipStrategy.HASH}),
    )
    vertices = {v: dict(evaluated_vertex(target=100.0, rate=400.0, parallelism=4)) for v in topology.vertices}
    return EvaluatedJob(
        context=replace(a_context({}, REACTIVE if flink is None else flink), capacity=capacity),
        topology=topology,
        metrics=EvaluatedMetrics(vertices, {}),
        state=JobState(),
        cluster=a_cluster(),
        excluded=frozenset(),
        restart_time=0,
        now_ms=0,
    )


def after(job: EvaluatedJob, plan: Mapping[str, int], *, is_cut: bool = False) -> Plan:
    metrics, vertices = job.metrics.vertices, job.topology.vertices
    changes = {v: ScalingSummary(vertices[v].parallelism, new, metrics[v]) for v, new in plan.items()}
    return in_whole_taskmanagers(Plan(changes, metrics, {}), job, is_cut=is_cut)


def planned(job: EvaluatedJob, plan: Mapping[str, int], *, is_cut: bool = False) -> dict[str, int]:
    return {v: change.new for v, change in after(job, plan, is_cut=is_cut).changes.items()}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param({A: 5}, {A: 8, B: 8}, id="one slot more: one TaskManager more, and all vertices in it"),
        pytest.param({A: 8, B: 1}, {A: 8, B: 8}, id="the widest vertex counts"),
        pytest.param({B: 1}, {}, id="a vertex that stays keeps the others"),
        pytest.param({A: 2, B: 1}, {}, id="fewer slots of the only TaskManager: nothing"),
        pytest.param({}, {}, id="no plan"),
    ],
)
def test_a_plan_becomes_whole_taskmanagers(plan: dict[str, int], expected: dict[str, int]) -> None:
    assert planned(a_job(), plan) == expected


def test_a_plan_shrinks_to_what_the_widest_vertex_needs() -> None:
    assert planned(a_job(parallelism=12), {A: 5, B: 1}) == {A: 8, B: 8}


def test_a_vertex_runs_up_to_its_maximum() -> None:
    assert planned(a_job(limits=(128, 6)), {A: 9}) == {A: 12, B: 6}


def test_a_vertex_at_its_maximum_stays() -> None:
    assert planned(a_job(limits=(128, 4)), {A: 9}) == {A: 12}


def test_slots_beyond_every_maximum_are_not_asked_for() -> None:
    assert planned(a_job(limits=(8, 6)), {A: 100}) == {A: 8, B: 6}


def test_the_slots_of_the_taskmanagers_that_are_there_count() -> None:
    capacity = ClusterCapacity(taskmanagers=2, slots=4, free_slots=0, slots_per_taskmanager=2)

    assert planned(a_job(capacity=capacity), {A: 5}) == {A: 6, B: 6}


def test_a_cluster_without_taskmanagers_is_taken_as_it_is_configured() -> None:
    capacity = ClusterCapacity(taskmanagers=0, slots=0, free_slots=0, slots_per_taskmanager=0)

    assert planned(a_job(capacity=capacity), {A: 5}) == {A: 8, B: 8}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param({A: 11}, {A: 8, B: 8}, id="growth is rounded down"),
        pytest.param({A: 7}, {}, id="growth by less than a TaskManager is none"),
        pytest.param({A: 12, B: 12}, {A: 12, B: 12}, id="what fits stays"),
    ],
)
def test_a_plan_that_was_cut_stays_within_its_limits(plan: dict[str, int], expected: dict[str, int]) -> None:
    assert planned(a_job(), plan, is_cut=True) == expected


def test_a_cut_plan_still_shrinks_to_what_is_needed() -> None:
    assert planned(a_job(parallelism=12), {A: 5, B: 1}, is_cut=True) == {A: 8, B: 8}


def test_the_metrics_say_what_a_vertex_comes_to_that_the_plan_left_alone() -> None:
    metrics = after(a_job(), {A: 8}).metrics[B]

    assert metrics[ScalingMetric.RECOMMENDED_PARALLELISM].current == 8
    assert metrics[ScalingMetric.EXPECTED_PROCESSING_RATE].current == 800.0


@pytest.mark.parametrize(
    ("plan", "code"), [pytest.param({A: 5}, "REACTIVE"), pytest.param({A: 2, B: 2}, "REACTIVE_UNCHANGED")]
)
def test_the_reasons_say_what_became_of_the_plan(plan: dict[str, int], code: str) -> None:
    reasons = after(a_job(), plan).reasons

    assert [reason.code for reason in reasons] == [code]


def test_other_jobs_keep_their_plans() -> None:
    assert planned(a_job(flink={}), {A: 5}) == {A: 5}
