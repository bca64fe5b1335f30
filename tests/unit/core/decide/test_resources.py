"""Room in the cluster, quotas and executors: what they are asked, and what is told when they stop a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flink_autoscaler.core.decide.plan import Plan
from flink_autoscaler.core.decide.resources import in_whole_taskmanagers
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import ClusterCapacity, Headroom
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import JobState, ScalingSummaries, ScalingSummary
from flink_autoscaler.core.model.syntax import parse_duration
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassOutcome
from flink_autoscaler.core.ports.plugins import ExecutorContext, Plugins, ResourceRequest
from testkit.builders.core import (
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_topology,
    a_vertex,
    evaluated_vertex,
    single_source,
    vertex_id,
)

HALF_AN_HOUR = parse_duration("30 min")


CLUSTER = a_cluster(slots_used=4)


@dataclass
class Check:
    """A resource check with a fixed answer."""

    answer: bool
    seen: list[tuple[ResourceRequest, ClusterReading]] = field(default_factory=list)

    def try_schedule(self, request: ResourceRequest, cluster: ClusterReading) -> bool:
        self.seen.append((request, cluster))
        return self.answer


@dataclass
class Veto:
    """An executor that does not want any change, and writes down what it was given."""

    priority: int = 0
    seen: list[tuple[ExecutorContext, ScalingSummaries]] = field(default_factory=list)

    def apply(self, context: ExecutorContext, summaries: ScalingSummaries) -> ScalingSummaries | None:
        self.seen.append((context, summaries))
        return {}


def job(options: Mapping[str, str], flink: Mapping[str, str] | None = None, **resources: float) -> JobAutoScalerContext:
    memory = resources.get("memory")
    return a_context(
        {**SINGLE_SOURCE_OPTIONS, **options},
        flink,
        taskmanager_cpu=resources.get("cpu"),
        taskmanager_memory=None if memory is None else int(memory),
    )


def doubled(context: JobAutoScalerContext, plugins: Plugins | None = None) -> PassOutcome:
    """Run a source that wants to go from 4 to 8."""
    readings = [single_source(minute, rate=200.0, busy_ms=1000.0, group="g") for minute in (1, 2, 3)]
    return JobDriver(context, plugins=plugins or Plugins()).run_each_minute(readings, CLUSTER)


CHECKED = {"resource-check": "mine"}


@pytest.mark.parametrize(
    ("flink", "resources", "expected"),
    [
        pytest.param(
            {},
            {},
            ResourceRequest(current=4, new=8, cpu=0.0, memory=0, slots_used=4, slots_needed=8, more_slots=4),
            id="one slot per TaskManager, whose size is not known",
        ),
        pytest.param(
            {"taskmanager.numberOfTaskSlots": "3", "taskmanager.memory.process.size": "4g"},
            {"cpu": 2.0, "memory": 1 << 30},
            ResourceRequest(current=2, new=3, cpu=2.0, memory=4 << 30, slots_used=4, slots_needed=8, more_slots=4),
            id="configured memory comes first",
        ),
        pytest.param(
            {},
            {"memory": 1 << 30},
            ResourceRequest(current=4, new=8, cpu=0.0, memory=1 << 30, slots_used=4, slots_needed=8, more_slots=4),
            id="memory of the cluster where none is configured",
        ),
    ],
)
def test_a_resource_check_is_asked_about_the_whole_plan(
    flink: Mapping[str, str], resources: dict[str, float], expected: ResourceRequest
) -> None:
    check = Check(answer=True)

    doubled(
        job({**CHECKED, "sample-check.enabled": "false"}, flink, **resources),
        Plugins(resource_checks={"mine": check}),
    )

    assert check.seen == [(expected, CLUSTER)]


def test_a_plan_without_room_is_told_and_no_executor_is_asked() -> None:
    executor = Veto()
    options = {**CHECKED, "scaling.custom-executors": "a", "scaling.custom-executor.a.class": "x.Veto"}
    plugins = Plugins(resource_checks={"mine": Check(answer=False)}, executors={"x.Veto": executor})

    outcome = doubled(job(options), plugins)

    text = "the cluster cannot schedule 8 slots; 4 are in use"
    message = f"Scaling is held back: {text}"
    assert outcome.decision.reasons[-1] == Reason("NOT_SCHEDULABLE", text)
    assert outcome.events == (Event(EventType.WARNING, "NotSchedulable", message, "NotSchedulable", HALF_AN_HOUR),)
    assert executor.seen == []


IGNORED = {
    "resource check": (
        CHECKED,
        Reason("RESOURCE_CHECK", "resource check 'mine' is ignored: there is no such plug-in"),
    ),
    "executor": (
        {"scaling.custom-executors": "mine", "scaling.custom-executor.mine.class": "x.Gone"},
        Reason("SCALING_EXECUTOR", "scaling executor 'mine' is ignored: no plug-in 'x.Gone'"),
    ),
    "executor without class": (
        {"scaling.custom-executors": "mine"},
        Reason("SCALING_EXECUTOR", "scaling executor 'mine' is ignored: no plug-in None"),
    ),
    "alignment mode": (
        {
            "scaling.parallelism-alignment.mode": "mine",
            "scaling.parallelism-alignment.mode.mine.class": "x.Gone",
        },
        Reason("ALIGNMENT_MODE", "alignment mode 'mine' is replaced by BALANCED: no plug-in 'x.Gone'"),
    ),
}


@pytest.mark.parametrize(("options", "reason"), IGNORED.values(), ids=IGNORED.keys())
def test_a_plugin_that_is_not_there_is_a_reason_and_an_event_and_nothing_else(
    options: Mapping[str, str], reason: Reason
) -> None:
    outcome = doubled(job(options))

    assert outcome.target.parallelism == {SINGLE_SOURCE: 8}
    assert reason in outcome.decision.reasons
    assert outcome.events == (Event(EventType.WARNING, "PluginProblem", reason.text, reason.code, HALF_AN_HOUR),)


@pytest.mark.parametrize(("options", "reason"), IGNORED.values(), ids=IGNORED.keys())
def test_a_plugin_that_is_not_there_is_a_reason_only_in_the_reference(
    options: Mapping[str, str], reason: Reason
) -> None:
    outcome = doubled(job({**options, "compat": "reference"}))

    assert reason in outcome.decision.reasons
    assert outcome.events == ()


QUOTA_TEXT = "Resource usage is above the allowed limit for scaling operations. Please adjust the quota by hand."


@pytest.mark.parametrize("compat", ["improved", "reference"])
def test_a_quota_that_was_reached_is_explained_and_told(compat: str) -> None:
    outcome = doubled(job({"quota.cpu": "6", "compat": compat}, cpu=1.0))

    assert outcome.decision.reasons[-1] == Reason("QUOTA_REACHED", QUOTA_TEXT)
    assert outcome.events == (Event(EventType.WARNING, "ResourceQuotaReached", QUOTA_TEXT, None, HALF_AN_HOUR),)


@pytest.mark.parametrize(
    ("quota", "resources", "expected"),
    [
        pytest.param({"quota.memory": "6g"}, {"memory": 1 << 30}, 6, id="memory"),
        pytest.param({"quota.memory": "8g"}, {"memory": 1 << 30}, 8, id="memory that suffices"),
        pytest.param({"quota.memory": "1 b"}, {}, 8, id="memory of a TaskManager is not known"),
        pytest.param({"quota.cpu": "1"}, {}, 8, id="CPUs of a TaskManager are not known"),
        pytest.param(
            {"quota.cpu": "9", "quota.memory": "5g"}, {"cpu": 1.0, "memory": 1 << 30}, 5, id="the tighter one"
        ),
    ],
)
def test_each_quota_limits_on_its_own(quota: Mapping[str, str], resources: dict[str, float], expected: int) -> None:
    assert doubled(job(quota, None, **resources)).target.parallelism == {SINGLE_SOURCE: expected}


def test_a_plan_cut_by_a_quota_expects_what_the_cut_parallelism_brings() -> None:
    outcome = doubled(job({"quota.cpu": "6"}, cpu=1.0))

    assert isinstance(outcome.decision, Rescale)
    summary = outcome.decision.summaries[SINGLE_SOURCE]
    assert (summary.current, summary.new) == (4, 6)
    # 200 records/s at parallelism 4.
    assert summary.metrics[ScalingMetric.EXPECTED_PROCESSING_RATE].current == 300.0
    assert summary.metrics[ScalingMetric.RECOMMENDED_PARALLELISM].current == 6.0


QUEUE = Headroom("YARN queue root.q", cpu=3.0, memory=4 << 30)


FULL = a_cluster(slots_used=8)


NOT_TOLD = replace(FULL, jobmanager={**FULL.jobmanager, "taskSlotsAvailable": "NaN"})


SMALL = {"cpu": 1.0, "memory": 1 << 30}


def doubled_within(
    headroom: Headroom | None,
    options: Mapping[str, str] | None = None,
    cluster: ClusterReading = FULL,
    flink: Mapping[str, str] | None = None,
    resources: Mapping[str, float] = SMALL,
) -> PassOutcome:
    """Run a source that wants to go from 4 to 8, by default without a free slot and with one slot per TaskManager."""
    all_options = {"rescale-filters.enabled": "false", **(options or {})}
    context = replace(job(all_options, flink, **resources), headroom=headroom)
    readings = [single_source(minute, rate=200.0, busy_ms=1000.0, group="g") for minute in (1, 2, 3)]
    return JobDriver(context).run_each_minute(readings, cluster)


def test_a_scale_up_is_cut_to_the_headroom_and_both_are_told() -> None:
    outcome = doubled_within(QUEUE)

    text = "YARN queue root.q can give 3 more TaskManagers (4096 MB, 3 CPUs left): vertex 1 4 -> 7 instead of 8"
    message = f"Scaling up is limited: {text}"
    assert outcome.target.parallelism == {SINGLE_SOURCE: 7}
    assert outcome.decision.reasons[-1] == Reason("HEADROOM_REACHED", text)
    assert outcome.events == (Event(EventType.WARNING, "HeadroomReached", message, "HeadroomReached", HALF_AN_HOUR),)


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        pytest.param(2, {SINGLE_SOURCE: 6}, id="half of what is wanted"),
        pytest.param(1, {}, id="less than half"),
    ],
)
def test_half_of_what_a_scale_up_wants_always_goes(room: int, expected: Mapping[str, int]) -> None:
    outcome = doubled_within(replace(QUEUE, taskmanagers=room), {"rescale-filters.enabled": "true"})

    waits = [reason.text for reason in outcome.decision.reasons if reason.code == "WAITS_FOR_MORE_SLOTS"]
    text = "1 of 4 additional slots are available; the scale-up waits for half of them"
    assert outcome.target.parallelism == expected
    assert waits == ([] if expected else [text])


@pytest.mark.parametrize(("room", "expected"), [(2, {SINGLE_SOURCE: 6}), (1, {})], ids=["half", "less"])
def test_half_as_many_as_a_job_has_go_however_many_it_wants(room: int, expected: Mapping[str, int]) -> None:
    bounds = {"utilization.target": "0.2", "utilization.max": "0.3", "utilization.min": "0.1"}
    options = {"rescale-filters.enabled": "true", **bounds}

    outcome = doubled_within(replace(QUEUE, taskmanagers=room), options)

    waits = [reason.figures for reason in outcome.decision.reasons if reason.code == "WAITS_FOR_MORE_SLOTS"]
    assert outcome.target.parallelism == expected
    assert [dict(each)["wanted"] for each in waits] == ([] if expected else [16.0])


def test_nothing_is_decided_or_remembered_where_nothing_is_left() -> None:
    outcome = doubled_within(replace(QUEUE, memory=0))

    assert not isinstance(outcome.decision, Rescale)
    assert (outcome.target.parallelism, outcome.state.history, outcome.report) == ({}, {}, None)
    assert outcome.decision.reasons[-1].code == "HEADROOM_REACHED"


def test_a_headroom_that_suffices_changes_nothing() -> None:
    ample = doubled_within(replace(QUEUE, cpu=4.0))

    assert repr(ample) == repr(doubled_within(None))


@pytest.mark.parametrize(
    ("headroom", "cluster", "expected"),
    [
        pytest.param(replace(QUEUE, taskmanagers=1), a_cluster(slots_used=6), 7, id="reported by the cluster"),
        pytest.param(
            replace(QUEUE, taskmanagers=1, slots=0), a_cluster(slots_used=6), 5, id="all are promised already"
        ),
        pytest.param(replace(QUEUE, taskmanagers=0, slots=3), FULL, 7, id="nothing can be added"),
        pytest.param(replace(QUEUE, taskmanagers=2), NOT_TOLD, 6, id="not known, none is counted on"),
    ],
)
def test_free_slots_come_first(headroom: Headroom, cluster: ClusterReading, expected: int) -> None:
    assert doubled_within(headroom, cluster=cluster).target.parallelism == {SINGLE_SOURCE: expected}


@pytest.mark.parametrize(
    ("resources", "flink", "expected"),
    [
        pytest.param(
            {"cpu": 1.0, "memory": 1 << 30}, {"taskmanager.memory.process.size": "512m"}, 6, id="granted more"
        ),
        pytest.param(
            {"cpu": 1.0, "memory": 1 << 30}, {"taskmanager.memory.process.size": "2g"}, 5, id="will need more"
        ),
        pytest.param({"cpu": 1.0}, {"taskmanager.memory.process.size": "600m"}, 6, id="rounded up to the step"),
    ],
)
def test_memory_of_a_taskmanager_is_what_it_is_granted(
    resources: dict[str, float], flink: Mapping[str, str], expected: int
) -> None:
    headroom = Headroom("x", memory=2 << 30, memory_step=512 << 20)

    assert doubled_within(headroom, flink=flink, resources=resources).target.parallelism == {SINGLE_SOURCE: expected}


@pytest.mark.parametrize(
    ("resources", "expected", "unchecked"),
    [
        pytest.param({"memory": 1 << 30}, 6, "CPU", id="CPUs"),
        pytest.param({"cpu": 1.0}, 7, "memory", id="memory"),
        pytest.param({}, 8, "CPU and memory", id="both"),
    ],
)
def test_a_size_that_is_not_known_limits_nothing_and_that_is_said(
    resources: dict[str, float], expected: int, unchecked: str
) -> None:
    outcome = doubled_within(replace(QUEUE, memory=2 << 30), resources=resources)

    text = f"headroom of YARN queue root.q is not checked for {unchecked}: unknown for a TaskManager"
    assert outcome.target.parallelism == {SINGLE_SOURCE: expected}
    assert Reason("HEADROOM_UNKNOWN", text) in outcome.decision.reasons


def test_a_size_that_is_not_known_is_not_said_where_free_slots_suffice() -> None:
    outcome = doubled_within(QUEUE, cluster=a_cluster(slots_used=4), resources={})

    assert outcome.target.parallelism == {SINGLE_SOURCE: 8}
    assert "HEADROOM_UNKNOWN" not in [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize(("left", "expected"), [(1, 5), (2, 6), (3, 6)])
def test_the_tighter_one_of_quota_and_headroom_counts(left: int, expected: int) -> None:
    outcome = doubled_within(replace(QUEUE, taskmanagers=left), {"quota.cpu": "6"})

    assert outcome.target.parallelism == {SINGLE_SOURCE: expected}


def test_a_scale_down_passes_where_nothing_is_left() -> None:
    context = replace(job({}, cpu=1.0, memory=1 << 30), headroom=replace(QUEUE, cpu=0.0, memory=0))
    readings = [single_source(minute, rate=200.0, busy_ms=100.0, group="g") for minute in (1, 2, 3)]

    outcome = JobDriver(context).run_each_minute(readings, FULL)

    assert outcome.target.parallelism == {SINGLE_SOURCE: 2}
    assert outcome.events == ()


def test_an_executor_sees_the_plan_the_graph_and_the_metrics_of_job_and_cluster() -> None:
    executor = Veto()
    options = {"scaling.custom-executors": "a", "scaling.custom-executor.a.class": "x.Veto"}

    doubled(job(options), Plugins(executors={"x.Veto": executor}))

    ((context, summaries),) = executor.seen
    assert summaries[SINGLE_SOURCE].new == 8
    assert context.topology.vertices[SINGLE_SOURCE].parallelism == 4
    assert context.metrics.vertices[SINGLE_SOURCE][ScalingMetric.TRUE_PROCESSING_RATE].average == 200.0
    assert context.metrics.globals_[ScalingMetric.NUM_TASK_SLOTS_USED].current == 4.0


def test_a_veto_names_the_executor_and_its_class() -> None:
    options = {"scaling.custom-executors": "a", "scaling.custom-executor.a.class": "x.Veto"}

    outcome = doubled(job(options), Plugins(executors={"x.Veto": Veto()}))

    text = f"Scaling was vetoed by the scaling executor 'a' ({__name__}.Veto)"
    assert outcome.decision.reasons[-1] == Reason("VETOED", text)
    assert outcome.events == (Event(EventType.WARNING, "ScalingVetoed", text, "ScalingVetoed:a", HALF_AN_HOUR),)


class Failing:
    """A plug-in whose every attribute and answer fails."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    @property
    def priority(self) -> int:
        raise self._error

    def try_schedule(self, request: ResourceRequest, cluster: ClusterReading) -> bool:
        raise self._error


EXECUTED = {"scaling.custom-executors": "mine", "scaling.custom-executor.mine.class": "x.Mine"}


@pytest.mark.parametrize("error", [RuntimeError("boom"), OSError("boom"), AssertionError("boom"), SystemExit("boom")])
@pytest.mark.parametrize("options", [CHECKED, EXECUTED], ids=["resource check", "priority"])
def test_whatever_a_plugin_raises_is_the_error_of_its_job_and_the_sample_stays(
    options: dict[str, str], error: BaseException
) -> None:
    plugin: Any = Failing(error)
    readings = [single_source(minute, rate=200.0, busy_ms=1000.0, group="g") for minute in (1, 2, 3)]
    driver = JobDriver(job(options), plugins=Plugins(resource_checks={"mine": plugin}, executors={"x.Mine": plugin}))

    outcome = driver.run_each_minute(readings, CLUSTER)

    assert "boom" in str(outcome.error)
    assert outcome.decision.reasons[0].code in ("PLUGIN", "EVALUATION")
    assert outcome.observation.sample is not None
    assert len(outcome.state.samples) == 3


def test_a_priority_that_is_no_number_names_the_executor() -> None:
    outcome = doubled(job(EXECUTED), Plugins(executors={"x.Mine": Veto("high")}))  # type: ignore[arg-type]

    assert "scaling executor 'mine' has the priority 'high', not a number" in str(outcome.error)


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
