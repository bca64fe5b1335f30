from __future__ import annotations

import pytest

from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import SupplyRules
from flink_autoscaler.realizers.task_managers.slots import ReleasedTaskManagers, SlotSupply
from testkit.builders.realizers import Clients, Clock
from testkit.builders.task_managers import FakeProvider, ReactiveCluster
from testkit.fakes.flink import FakeFlink


@pytest.fixture
def cluster(flink: FakeFlink) -> ReactiveCluster:
    """A cluster with two TaskManagers of four slots, whose job takes all of them."""
    return ReactiveCluster(flink, FakeProvider(2), SupplyRules(idle=60.0))


@pytest.fixture
def supply(cluster: ReactiveCluster, clients: Clients, clock: Clock) -> SlotSupply:
    return SlotSupply(clients, clients.loop, cluster.supplies, clock=clock)


@pytest.fixture
def job(cluster: ReactiveCluster) -> JobAutoScalerContext:
    return cluster.context({"jobmanager.scheduler": "adaptive"})


def test_slots_that_are_there_are_not_asked_for(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext
) -> None:
    assert supply.ensure(job, 8) is None
    assert cluster.provider.calls == []


def test_missing_slots_are_asked_for_once_and_awaited(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext, clock: Clock
) -> None:
    first = supply.ensure(job, 11)
    clock.now = 20.0
    second = supply.ensure(job, 11)

    assert cluster.provider.calls == [(3, ())]
    assert first is not None
    assert (first.slots, first.taskmanagers, first.problem) == (4, 1, None)
    assert [event.message for event in first.events] == [
        "Asked for 3 TaskManagers instead of 2: the jobs need 11 slots"
    ]
    assert second is not None
    assert (second.slots, second.waited, second.events) == (4, 20.0, ())


def test_that_they_have_come_is_told_once(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext, clock: Clock
) -> None:
    supply.ensure(job, 11)
    cluster.register("tm-3", free=4)
    settling = supply.ensure(job, 11)
    clock.now = 10.0
    settled = supply.ensure(job, 11)

    assert settling is None
    assert settled is not None
    assert (settled.slots, [event.reason for event in settled.events]) == (0, ["TaskManagersReady"])
    assert supply.ensure(job, 11) is None


def test_a_provider_that_fails_is_a_problem(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext
) -> None:
    cluster.provider.problem = "no quota left"

    coming = supply.ensure(job, 11)

    assert coming is not None
    assert (coming.slots, coming.problem) == (0, "no quota left")
    assert [event.reason for event in coming.events] == ["TaskManagerProviderFailed"]


def test_nothing_more_comes_beyond_the_limit(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext
) -> None:
    cluster.provider.maximum = 2

    coming = supply.ensure(job, 11)

    assert coming is not None
    assert (coming.slots, coming.taskmanagers) == (0, 0)
    assert coming.problem == "there are to be at most 2 TaskManagers"
    assert cluster.provider.calls == []


@pytest.mark.parametrize(("maximum", "expected"), [(4, 8), (2, 0), (None, None)])
def test_what_could_be_added_is_known(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext, maximum: int | None, expected: int | None
) -> None:
    cluster.provider.maximum = maximum

    assert supply.addable(job) == expected


def test_a_cluster_without_provider_gets_nothing(supply: SlotSupply, cluster: ReactiveCluster) -> None:
    other = cluster.context(cluster="other")

    assert supply.addable(other) == 0
    assert supply.ensure(other, 99) is None
    assert supply.release(other, 1) == ReleasedTaskManagers()


def test_nothing_is_changed_while_another_daemon_may_act(
    cluster: ReactiveCluster, clients: Clients, job: JobAutoScalerContext
) -> None:
    supply = SlotSupply(clients, clients.loop, cluster.supplies, may_act=lambda: False)

    assert supply.ensure(job, 99) is None
    assert supply.release(job, 0) == ReleasedTaskManagers()
    assert cluster.provider.calls == []


def test_taskmanagers_without_work_go_after_a_while(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext, clock: Clock
) -> None:
    cluster.register("tm-1", free=4)
    early = [supply.release(job, 4)]
    clock.now = 59.0
    early.append(supply.release(job, 4))

    clock.now = 60.0
    released = supply.release(job, 4)

    assert early == [ReleasedTaskManagers(), ReleasedTaskManagers()]
    assert released.count == 1
    assert cluster.provider.calls == [(1, ("tm-1",))]
    assert cluster.provider.ids == ["tm-2"]


def test_one_that_works_in_between_has_to_wait_again(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext, clock: Clock
) -> None:
    for second, free in ((0.0, 4), (30.0, 3), (60.0, 4), (90.0, 4)):
        clock.now = second
        cluster.register("tm-1", free=free)
        supply.release(job, 4)

    assert cluster.provider.calls == []


def test_taskmanagers_that_are_needed_stay_although_they_have_no_work(
    supply: SlotSupply, cluster: ReactiveCluster, job: JobAutoScalerContext, clock: Clock
) -> None:
    cluster.register("tm-1", free=4)
    for clock.now in (0.0, 60.0):
        supply.release(job, 5)

    assert cluster.provider.calls == []


def test_a_provider_that_cannot_pick_victims_keeps_all(flink: FakeFlink, clients: Clients, clock: Clock) -> None:
    cluster = ReactiveCluster(flink, FakeProvider(2, knows_ids=False))
    supply = SlotSupply(clients, clients.loop, cluster.supplies, clock=clock)
    cluster.register("tm-1", free=4)
    for clock.now in (0.0, 60.0):
        supply.release(cluster.context(), 4)

    assert cluster.provider.calls == []
