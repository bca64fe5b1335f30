"""What a queue can still give, from answers of real and described ResourceManagers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from flink_autoscaler.clients.yarn.capacity import METRICS_PATH, SCHEDULER_PATH, yarn_capacity
from flink_autoscaler.core.decide.slots import TaskManagerSize, available_capacity
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.job import Headroom

FIXTURES = Path(__file__).parents[3] / "fixtures" / "yarn"
SCHEDULERS = FIXTURES.with_name("yarn-schedulers")
MB = 1 << 20

Json = dict[str, object]


@dataclass
class Answers:
    """A ResourceManager with fixed answers."""

    metrics: object
    scheduler: object

    async def get_json(self, path: str, *, params: Mapping[str, str] | None = None) -> object:
        return {METRICS_PATH: self.metrics, SCHEDULER_PATH: self.scheduler}[path]


def recorded(name: str, folder: Path = FIXTURES) -> object:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


RECORDED = Answers(recorded("metrics"), recorded("scheduler"))


def metrics(memory: int = 100_000, vcores: int = 100, **more: int) -> Json:
    """Make the metrics of a cluster of which that much is free."""
    allocated = {
        "allocatedMB": more.get("allocatedMB", 0),
        "allocatedVirtualCores": more.get("allocatedVirtualCores", 0),
    }
    total = {
        "totalMB": memory + allocated["allocatedMB"],
        "totalVirtualCores": vcores + allocated["allocatedVirtualCores"],
    }
    free = {"availableMB": memory, "availableVirtualCores": vcores}
    return {"clusterMetrics": {**free, **allocated, **total, **more}}


def amount(memory: int, vcores: int) -> Json:
    return {"memory": memory, "vCores": vcores}


def capacity_scheduler(queues: object) -> Json:
    return {"scheduler": {"schedulerInfo": {"type": "capacityScheduler", "queueName": "root", "queues": queues}}}


def a_queue(name: str, *, used: tuple[int, int] = (0, 0), most: tuple[int, int] = (8000, 8), **more: object) -> Json:
    return {"queueName": name, "resourcesUsed": amount(*used), "maxEffectiveCapacity": amount(*most), **more}


def headroom_in(answers: Answers, queue: str, user: str | None = None) -> Headroom:
    found = asyncio.run(yarn_capacity(answers)).headroom(queue, user)
    assert found is not None
    return found


def left_in(answers: Answers, queue: str, user: str | None = None) -> tuple[int, float | None]:
    found = headroom_in(answers, queue, user)
    assert found.memory is not None
    return found.memory // MB, found.cpu


@pytest.mark.parametrize(
    ("queue", "user", "left", "source"),
    [
        # 4608 MB at most, 1920 MB used.
        pytest.param("orders", "alice", 2688, "YARN queue root.streaming.orders", id="last name"),
        pytest.param("root.streaming.orders", "alice", 2688, "YARN queue root.streaming.orders", id="path"),
        pytest.param("streaming.orders", "alice", 2688, "YARN queue root.streaming.orders", id="path below the root"),
        pytest.param(
            "payments", None, 2304, "YARN queue root.streaming.payments", id="its own limit, below the parent's"
        ),
        pytest.param(
            "payments",
            "alice",
            1228,
            "YARN queue root.streaming.payments (limited by the share of user alice)",
            id="user-limit-factor 1: what the queue is guaranteed",
        ),
        pytest.param(
            "default", None, 4224, "YARN queue root.default (limited by the nodes)", id="what the nodes have free"
        ),
    ],
)
def test_a_real_capacity_scheduler_tells_what_is_left(queue: str, user: str | None, left: int, source: str) -> None:
    found = headroom_in(RECORDED, queue, user)

    # Every container has one core: that is how the default resource calculator looks, which does not count them.
    assert found == Headroom(source, cpu=None, memory=left * MB, memory_step=64 * MB)


def test_queues_that_are_not_listed_are_left_out() -> None:
    capacity = asyncio.run(yarn_capacity(RECORDED))

    found = {queue: capacity.headroom(queue) for queue in ("orders", "nowhere", "root.streaming")}

    assert {queue: headroom.memory for queue, headroom in found.items() if headroom is not None} == {
        "orders": 2688 * MB,
        "root.streaming": 2688 * MB,
    }


def test_a_last_name_that_two_queues_share_means_none_of_them() -> None:
    children = [a_queue("a", queues={"queue": [a_queue("x")]}), a_queue("b", queues={"queue": [a_queue("x")]})]
    capacity = asyncio.run(yarn_capacity(Answers(metrics(), capacity_scheduler({"queue": children}))))

    assert capacity.headroom("x") is None
    assert capacity.headroom("a.x") is not None


CHILD = a_queue("child", used=(1000, 1))


@pytest.mark.parametrize(
    "queues",
    [
        pytest.param({"queue": [a_queue("top", queues={"queue": [CHILD]})]}, id="lists"),
        pytest.param({"queue": a_queue("top", queues={"queue": CHILD})}, id="entries alone"),
        pytest.param([a_queue("top", queues=[CHILD])], id="lists without a wrapper"),
    ],
)
def test_lists_of_any_shape_are_read(queues: object) -> None:
    assert left_in(Answers(metrics(), capacity_scheduler(queues)), "root.top.child") == (7000, None)


@pytest.mark.parametrize(
    ("parent", "leaf", "free", "expected", "source"),
    [
        pytest.param((0, 0), (0, 0), 100_000, 8000, "YARN queue root.p.q", id="nothing used"),
        pytest.param(
            (7000, 0), (1000, 0), 100_000, 3000, "YARN queue root.p.q (limited by root.p)", id="siblings use it"
        ),
        pytest.param((7000, 0), (1000, 0), 500, 500, "YARN queue root.p.q (limited by the nodes)", id="nodes are full"),
        pytest.param((9000, 0), (9000, 0), 100_000, 0, "YARN queue root.p.q", id="more used than allowed"),
        pytest.param((0, 0), (0, 0), -1, 0, "YARN queue root.p.q (limited by the nodes)", id="nodes were lost"),
    ],
)
def test_the_tightest_limit_on_the_way_to_the_root_counts_and_never_below_zero(
    parent: tuple[int, int], leaf: tuple[int, int], free: int, expected: int, source: str
) -> None:
    above = a_queue("p", used=parent, most=(10_000, 10), queues={"queue": [a_queue("q", used=leaf)]})

    found = headroom_in(Answers(metrics(free), capacity_scheduler({"queue": [above]})), "q")

    assert (found.memory, found.source) == (expected * MB, source)


@pytest.mark.parametrize(("cores", "expected"), [(0, None), (1, None), (2, 8.0)])
def test_cores_count_where_the_limit_of_masters_in_any_queue_has_several(cores: int, expected: float | None) -> None:
    queues = {"queue": [a_queue("q"), a_queue("other", AMResourceLimit=amount(4096, cores))]}

    assert left_in(Answers(metrics(), capacity_scheduler(queues)), "q") == (8000, expected)


def test_limits_of_versions_that_only_tell_percents_are_shares_of_the_cluster() -> None:
    leaf: Json = {"queueName": "q", "absoluteMaxCapacity": 40.0, "absoluteCapacity": 20.0, "userLimitFactor": 1.0}
    leaf["resourcesUsed"] = amount(1000, 1)
    answers = Answers(metrics(10_000), capacity_scheduler({"queue": [leaf]}))

    assert left_in(answers, "q") == (3000, None)
    assert left_in(answers, "q", "alice") == (2000, None)


@pytest.mark.parametrize(
    ("factor", "weight", "expected"),
    [
        pytest.param(1.0, 1.0, 1500, id="all of what is guaranteed"),
        pytest.param(2.0, 1.0, 3500, id="twice of it"),
        pytest.param(1.0, 1.5, 2500, id="a user who counts more"),
        pytest.param(-1, 1.0, 7500, id="switched off"),
    ],
)
def test_a_user_has_a_share_of_what_the_queue_is_guaranteed(factor: float, weight: float, expected: int) -> None:
    users = {"user": {"username": "alice", "resourcesUsed": amount(500, 1), "userWeight": weight}}
    leaf = a_queue("q", used=(500, 1), minEffectiveCapacity=amount(2000, 2), userLimitFactor=factor, users=users)

    assert left_in(Answers(metrics(), capacity_scheduler({"queue": [leaf]})), "q", "alice") == (expected, None)


def test_what_is_reserved_is_not_free_with_schedulers_that_count_it_as_available() -> None:
    answers = Answers(metrics(5000, totalMB=5000, reservedMB=1500), capacity_scheduler({"queue": [a_queue("q")]}))

    assert left_in(answers, "q") == (3500, None)


def fair_queue(name: str, used: tuple[int, int], most: tuple[int, int], **more: object) -> Json:
    return {"queueName": name, "usedResources": amount(*used), "maxResources": amount(*most), **more}


def fair_scheduler(root: Json) -> Json:
    return {"scheduler": {"schedulerInfo": {"type": "fairScheduler", "rootQueue": root}}}


@pytest.mark.parametrize("is_wrapped", [False, True], ids=["lists", "wrapped"])
def test_the_fair_scheduler_counts_memory_and_cores(is_wrapped: bool) -> None:
    def children(entry: Json) -> object:
        return {"queue": entry} if is_wrapped else [entry]

    leaf = fair_queue("root.users.alice", (3000, 2), (8000, 100), reservedResources=amount(1000, 0))
    above = fair_queue("root.users", (3000, 2), (10_000, 5), childQueues=children(leaf))
    root = fair_queue("root", (9000, 9), (100_000, 100), childQueues=children(above))

    assert left_in(Answers(metrics(), fair_scheduler(root)), "root.users.alice") == (4000, 3.0)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param(0, 1024, id="nothing used"),
        pytest.param(3072, 1024, id="fits the default"),
        pytest.param(1536, 512, id="finer"),
    ],
)
def test_steps_of_the_fair_scheduler_are_the_default_ones_unless_what_is_used_shows_finer_ones(
    used: int, expected: int
) -> None:
    leaf = fair_queue("root.q", (used, 1), (8000, 100))
    answers = Answers(metrics(), fair_scheduler(fair_queue("root", (used, 1), (9000, 100), childQueues=[leaf])))

    assert headroom_in(answers, "q").memory_step == expected * MB


def test_the_limit_of_the_root_is_what_the_nodes_have() -> None:
    root = fair_queue("root", (1000, 1), (8000, 8), childQueues=[fair_queue("root.q", (0, 0), (8000, 8))])

    found = headroom_in(Answers(metrics(7000), fair_scheduler(root)), "q")

    assert found.source == "YARN queue root.q (limited by the nodes)"


@pytest.mark.parametrize(
    ("scheduler", "queue", "given", "beyond"),
    [
        pytest.param("dominant", "orders", 5, 0, id="capacity scheduler, cores count"),
        pytest.param("capacity", "default", 4, 1, id="the share of a user, which YARN exceeds by one container"),
        # Containers of 704 MB became 1024 MB.
        pytest.param("fair", "root.streaming.orders", 3, 0, id="fair scheduler"),
        pytest.param("fifo", "default", 7, 0, id="FIFO scheduler"),
    ],
)
def test_yarn_gave_what_its_answers_before_had_room_for(scheduler: str, queue: str, given: int, beyond: int) -> None:
    # Hadoop 3.3.6, one node of 6144 MB, a Flink session without TaskManagers. Then a job asked for 40 slots.
    answers = Answers(recorded(f"{scheduler}-metrics", SCHEDULERS), recorded(f"{scheduler}-scheduler", SCHEDULERS))

    room = available_capacity(
        headroom_in(answers, queue, "alice"), TaskManagerSize(slots=2, cpu=2.0, memory=704 * MB), 0
    )

    assert (room.taskmanagers, room.unchecked) == (given - beyond, ())


def test_the_fifo_scheduler_has_one_queue_that_only_the_nodes_limit() -> None:
    info = {"type": "fifoScheduler", "minQueueMemoryCapacity": 1024, "maxQueueMemoryCapacity": 8192}
    answers = Answers(metrics(6000, 0), {"scheduler": {"schedulerInfo": info}})

    found = headroom_in(answers, "default")

    assert found == Headroom("YARN queue default (limited by the nodes)", memory=6000 * MB, memory_step=1024 * MB)


def test_a_scheduler_of_the_future_has_no_headroom() -> None:
    answers = Answers(metrics(), {"scheduler": {"schedulerInfo": {"type": "planetScheduler"}}})

    assert asyncio.run(yarn_capacity(answers)).headroom("default") is None


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        pytest.param(Answers({}, capacity_scheduler([])), "clusterMetrics", id="no metrics"),
        pytest.param(Answers(metrics(), "<html>"), "scheduler", id="not an object"),
        pytest.param(Answers(metrics(), {"scheduler": {}}), "schedulerInfo", id="no scheduler"),
        pytest.param(Answers(metrics(), capacity_scheduler("two")), "queues", id="queues that are text"),
        pytest.param(Answers(metrics(), capacity_scheduler([{}])), "queueName", id="a queue without a name"),
        pytest.param(
            Answers(metrics(), capacity_scheduler([{**a_queue("q"), "resourcesUsed": {"memory": "much"}}])),
            "root.q.resourcesUsed.memory",
            id="memory that is text",
        ),
    ],
)
def test_an_answer_of_another_shape_is_an_error_that_names_the_field(answers: Answers, named: str) -> None:
    with pytest.raises(ResponseError, match=named):
        asyncio.run(yarn_capacity(answers))


def test_queues_may_be_nested_deeply() -> None:
    queue = a_queue("leaf")
    for _ in range(5000):
        queue = a_queue("q", queues={"queue": [queue]})

    assert left_in(Answers(metrics(), capacity_scheduler({"queue": [queue]})), "leaf") == (8000, None)
