from __future__ import annotations

from collections.abc import Sequence

import pytest

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import Realization, RealizationTerms, RealizeResult, ScalingRealizer
from flink_autoscaler.core.ports.task_managers import PENDING, OperationState, Progress, SupplyRules
from flink_autoscaler.realizers.task_managers.count import TaskManagerCountRealizer
from flink_autoscaler.realizers.testing.realizer_contract import ScalingRealizerContract
from testkit.builders.realizers import Clients, Clock
from testkit.builders.task_managers import JOB_ID, REACTIVE, SINK, SOURCE, FakeProvider, ReactiveCluster
from testkit.fakes.flink import Canned, FakeFlink, flink_error


@pytest.fixture
def cluster(flink: FakeFlink) -> ReactiveCluster:
    """A cluster with one TaskManager of four slots, all taken by the job."""
    return ReactiveCluster(flink, FakeProvider(1))


@pytest.fixture
def counting(cluster: ReactiveCluster, clients: Clients, clock: Clock) -> TaskManagerCountRealizer:
    return TaskManagerCountRealizer(clients, clients.loop, cluster.supplies, clock=clock)


class TestTaskManagerCountRealizer(ScalingRealizerContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: ReactiveCluster, clients: Clients) -> None:
        self.cluster, self.clients = cluster, clients

    def make_realizer(self) -> ScalingRealizer:
        return TaskManagerCountRealizer(self.clients, self.clients.loop, self.cluster.supplies)

    def running_job(self) -> JobAutoScalerContext:
        return self.cluster.context()

    def vertices(self) -> Sequence[str]:
        return [SOURCE, SINK]

    def changes(self) -> Sequence[object]:
        return self.cluster.provider.calls


def counts(cluster: ReactiveCluster) -> list[int]:
    return [count for count, _ in cluster.provider.calls]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param({SOURCE: 1, SINK: 4}, [], id="as many as there are"),
        pytest.param({SOURCE: 1, SINK: 5}, [2], id="one slot more: one TaskManager more"),
        pytest.param({SOURCE: 9, SINK: 5}, [3], id="the widest vertex counts"),
        pytest.param({SOURCE: 100}, [4], id="at most the maximum parallelism of the vertices"),
    ],
)
def test_the_widest_vertex_says_how_many_taskmanagers_there_are(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, overrides: dict[str, int], expected: list[int]
) -> None:
    counting.realize_overrides(cluster.context(), overrides)

    assert counts(cluster) == expected


def test_what_is_asked_for_is_told(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    realization = counting.realize_overrides(cluster.context(), {SOURCE: 4, SINK: 7})

    (event,) = realization.events
    assert (realization.result, realization.requested) == (RealizeResult.REQUESTED, {SOURCE: 4, SINK: 7})
    assert (event.type, event.reason) == (EventType.NORMAL, "TaskManagersRequested")
    assert event.message == "Asked for 2 TaskManagers instead of 1: the job needs 7 slots"


def test_slots_have_to_stay_before_they_count(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, clock: Clock
) -> None:
    counting.realize_overrides(cluster.context(), {SINK: 7})
    clock.now = 20.0
    cluster.register("tm-2")
    first = counting.realize_overrides(cluster.context(), {SINK: 7})
    clock.now = 25.0
    cluster.lose("tm-2")
    counting.realize_overrides(cluster.context(), {SINK: 7})
    cluster.register("tm-2")
    second = counting.realize_overrides(cluster.context(), {SINK: 7})
    clock.now = 35.0
    third = counting.realize_overrides(cluster.context(), {SINK: 7})

    assert first == second == Realization(RealizeResult.UNCHANGED)
    assert [event.message for event in third.events] == ["2 TaskManagers are there after 25 s, with 8 slots"]
    assert counting.realize_overrides(cluster.context(), {SINK: 7}) == Realization(RealizeResult.UNCHANGED)


def test_it_goes_on_with_the_taskmanagers_that_have_come(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, clock: Clock
) -> None:
    counting.realize_overrides(cluster.context(), {SINK: 12})
    cluster.register("tm-2")
    clock.now = 601.0

    realization = counting.realize_overrides(cluster.context(), {SINK: 12})

    (event,) = realization.events
    assert cluster.provider.calls[-1] == (2, ("tm-3",))
    assert cluster.provider.ids == ["tm-1", "tm-2"]
    assert (event.type, event.reason) == (EventType.WARNING, "TaskManagersMissing")
    assert event.message.startswith("Only 2 of 3 TaskManagers came within 600 s")


def test_taskmanagers_that_did_not_come_are_asked_for_again_later_and_later(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, clock: Clock
) -> None:
    asked_at = []
    for second in range(0, 2000, 5):
        clock.now = float(second)
        before = len(cluster.provider.calls)
        counting.realize_overrides(cluster.context(), {SINK: 8})
        asked_at += [second] if [count for count, _ in cluster.provider.calls[before:]] == [2] else []

    assert asked_at == [0, 620, 1255, 1920]


def test_a_change_that_is_under_way_is_not_asked_for_twice(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster
) -> None:
    cluster.provider.state = PENDING
    counting.realize_overrides(cluster.context(), {SINK: 8})

    realization = counting.realize_overrides(cluster.context(), {SINK: 12})

    assert counts(cluster) == [2]
    assert realization == Realization(RealizeResult.UNCHANGED)


def test_an_operation_that_fails_is_told_and_tried_again_after_a_while(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, clock: Clock
) -> None:
    counting.realize_overrides(cluster.context(), {SINK: 8})
    cluster.provider.state = OperationState(Progress.FAILED, "no quota left")
    cluster.provider.desired = 1
    cluster.provider.ids = ["tm-1"]
    failed = counting.realize_overrides(cluster.context(), {SINK: 8})
    clock.now = 14.0
    counting.realize_overrides(cluster.context(), {SINK: 8})
    assert counts(cluster) == [2]

    clock.now = 15.0
    cluster.provider.state = PENDING
    counting.realize_overrides(cluster.context(), {SINK: 8})

    assert counts(cluster) == [2, 2]
    assert failed.result is RealizeResult.REFUSED
    assert [(event.reason, event.type) for event in failed.events] == [("TaskManagerProviderFailed", EventType.WARNING)]
    assert "no quota left" in failed.events[0].message


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.RESTARTING])
def test_taskmanagers_that_died_are_started_again(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, status: JobStatus
) -> None:
    counting.realize_overrides(cluster.context(), {SINK: 4})
    cluster.provider.die()
    cluster.lose("tm-1")

    realization = counting.realize_overrides(cluster.context(status=status), {SINK: 4})

    assert counts(cluster) == [1]
    assert realization.result is not RealizeResult.REQUESTED
    assert [event.message for event in realization.events] == [
        "Only 0 of 1 TaskManagers were left; started the others again"
    ]


def test_taskmanagers_that_die_at_once_are_not_started_in_every_pass(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, clock: Clock
) -> None:
    for second in range(0, 120, 5):
        clock.now = float(second)
        cluster.provider.die()
        counting.realize_overrides(cluster.context(), {SINK: 4})

    assert len(cluster.provider.calls) == 4


@pytest.fixture
def wide(flink: FakeFlink) -> ReactiveCluster:
    """A cluster with three TaskManagers, of which the second has the most free slots."""
    cluster = ReactiveCluster(flink, FakeProvider(3), SupplyRules(checkpoints=3))
    cluster.register("tm-1", free=1)
    cluster.register("tm-2", free=2)
    return cluster


@pytest.fixture
def shrinking(wide: ReactiveCluster, clients: Clients, clock: Clock) -> TaskManagerCountRealizer:
    return TaskManagerCountRealizer(clients, clients.loop, wide.supplies, clock=clock)


def test_taskmanagers_are_stopped_together_right_after_a_checkpoint(
    shrinking: TaskManagerCountRealizer, wide: ReactiveCluster, clock: Clock
) -> None:
    waiting = [shrinking.realize_overrides(wide.context(), {SINK: 4}) for _ in range(2)]
    assert wide.provider.calls == []

    wide.checkpoint(2000)
    clock.now = 10.0
    realization = shrinking.realize_overrides(wide.context(), {SINK: 4})

    assert waiting == [Realization(RealizeResult.UNCHANGED)] * 2
    assert realization.result is RealizeResult.REQUESTED
    assert wide.provider.calls == [(1, ("tm-2", "tm-1", "tm-3"))]


def test_a_checkpoint_is_not_waited_for_for_ever(
    shrinking: TaskManagerCountRealizer, wide: ReactiveCluster, clock: Clock
) -> None:
    for second in (0.0, 30.0):
        clock.now = second
        shrinking.realize_overrides(wide.context(), {SINK: 4})
    assert wide.provider.calls == []

    clock.now = 31.0
    shrinking.realize_overrides(wide.context(), {SINK: 4})

    assert counts(wide) == [1]


def test_waiting_begins_anew_when_the_load_came_back_meanwhile(
    shrinking: TaskManagerCountRealizer, wide: ReactiveCluster
) -> None:
    shrinking.realize_overrides(wide.context(), {SINK: 4})
    shrinking.realize_overrides(wide.context(), {SINK: 12})
    wide.checkpoint(2000)

    shrinking.realize_overrides(wide.context(), {SINK: 4})

    assert wide.provider.calls == []


def test_taskmanagers_that_never_registered_go_without_waiting(
    shrinking: TaskManagerCountRealizer, wide: ReactiveCluster
) -> None:
    wide.lose("tm-2", "tm-3")

    shrinking.realize_overrides(wide.context(), {SINK: 4})

    assert wide.provider.ids == ["tm-1"]


def test_a_taskmanager_that_is_leaving_does_not_count(
    shrinking: TaskManagerCountRealizer, wide: ReactiveCluster
) -> None:
    shrinking.realize_overrides(wide.context(), {SINK: 8})
    wide.checkpoint(2000)
    shrinking.realize_overrides(wide.context(), {SINK: 8})
    wide.provider.calls.clear()

    shrinking.realize_overrides(wide.context(), {SINK: 8})

    assert wide.provider.leaving == ["tm-2"]
    assert wide.provider.calls == []


def test_a_provider_that_knows_no_ids_counts_all_but_those_of_others(
    flink: FakeFlink, clients: Clients, clock: Clock
) -> None:
    cluster = ReactiveCluster(flink, FakeProvider(1, knows_ids=False), SupplyRules(others=1))
    cluster.register("tm-1", "first-of-all")
    realizer = TaskManagerCountRealizer(clients, clients.loop, cluster.supplies, clock=clock)

    realizer.realize_overrides(cluster.context(), {SINK: 12})

    assert counts(cluster) == [2]


def test_the_limit_of_the_provider_is_told(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    cluster.provider.maximum = 1

    realization = counting.realize_overrides(cluster.context(), {SINK: 8})

    assert realization.result is RealizeResult.REFUSED
    assert [event.message for event in realization.events] == [
        "The job needs 8 slots, but there are to be at most 1 TaskManagers, with 4 slots"
    ]


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        pytest.param({"execution.runtime-mode": "BATCH"}, "batch mode", id="batch"),
        pytest.param({"execution.target": "yarn-application"}, "YARN", id="YARN"),
        pytest.param(
            {"cluster.fine-grained-resource-management.enabled": "true"}, "fine-grained", id="fine-grained resources"
        ),
    ],
)
def test_limits_of_reactive_mode_are_named_before_anything_is_done(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, configuration: dict[str, str], told: str
) -> None:
    realization = counting.realize_overrides(cluster.context({**REACTIVE, **configuration}), {SINK: 8})

    assert realization.result is RealizeResult.REFUSED
    assert [(event.reason, told in event.message) for event in realization.events] == [("ReactiveModeLimits", True)]
    assert cluster.provider.calls == []


def test_only_one_job_may_run(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    cluster.flink.add_job("another")

    realization = counting.realize_overrides(cluster.context(), {SINK: 8})

    assert "application clusters with one job; 2 run here" in realization.events[0].message
    assert cluster.provider.calls == []


def test_checkpoints_must_be_on(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    cluster.flink.fault("/checkpoints/config", flink_error(404, "Checkpointing is not enabled for this job"))

    realization = counting.realize_overrides(cluster.context(), {SINK: 8})

    assert "checkpointing is off" in realization.events[0].message
    assert cluster.provider.calls == []


@pytest.mark.parametrize(
    ("version", "result"),
    [
        pytest.param("1.12.7", RealizeResult.REFUSED, id="before Flink could do it"),
        pytest.param("1.20.4", RealizeResult.REQUESTED, id="since then"),
        pytest.param("2.3.0", RealizeResult.REQUESTED, id="today"),
        pytest.param("next", RealizeResult.REQUESTED, id="a version that cannot be read"),
    ],
)
@pytest.mark.parametrize("key", ["execution.checkpointing.unaligned", "execution.checkpointing.unaligned.enabled"])
def test_unaligned_checkpoints_are_refused_where_flink_cannot_rescale_from_them(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, key: str, version: str, result: RealizeResult
) -> None:
    cluster.flink.version = version

    realization = counting.realize_overrides(cluster.context({**REACTIVE, key: "true"}), {SINK: 8})

    assert realization.result is result


def test_a_limit_that_is_lifted_is_noticed_after_a_minute(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster, clock: Clock
) -> None:
    cluster.flink.fault("/checkpoints/config", Canned.json({"interval": 2**63 - 1}))
    counting.realize_overrides(cluster.context(), {SINK: 8})
    cluster.interval(1000)
    early = counting.realize_overrides(cluster.context(), {SINK: 8})

    clock.now = 60.0
    late = counting.realize_overrides(cluster.context(), {SINK: 8})

    assert (early.result, late.result) == (RealizeResult.REFUSED, RealizeResult.REQUESTED)


def test_what_does_not_change_is_asked_once(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    for _ in range(3):
        counting.realize_overrides(cluster.context(), {SINK: 4})

    assert cluster.flink.paths().count(f"/jobs/{JOB_ID}") == 1
    assert cluster.flink.paths().count("/taskmanagers") == 3


def test_a_job_that_is_not_reactive_is_refused(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    realization = counting.realize_overrides(cluster.context({"jobmanager.scheduler": "adaptive"}), {SINK: 8})

    assert [event.reason for event in realization.events] == ["NotReactive"]
    assert cluster.provider.calls == []


def test_a_cluster_without_provider_is_refused(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    realization = counting.realize_overrides(cluster.context(cluster="other"), {SINK: 8})

    assert [event.reason for event in realization.events] == ["NoTaskManagerProvider"]
    assert "provider.type of cluster 'other'" in realization.events[0].message


def test_a_job_that_does_not_run_is_repaired(counting: TaskManagerCountRealizer, cluster: ReactiveCluster) -> None:
    job = cluster.context(status=JobStatus.RESTARTING)

    realization = counting.realize_overrides(job, {SINK: 8}, terms=RealizationTerms(is_repair=True))

    assert realization.result is RealizeResult.REQUESTED


def test_a_cluster_that_does_not_answer_is_an_error(
    counting: TaskManagerCountRealizer, cluster: ReactiveCluster
) -> None:
    cluster.flink.fault("/taskmanagers", flink_error(500, "it is broken"))

    with pytest.raises(RealizeError, match=r"TaskManagers of job .* were not changed: .*it is broken"):
        counting.realize_overrides(cluster.context(), {SINK: 8})
