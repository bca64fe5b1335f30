from __future__ import annotations

import dataclasses

import pytest

from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.rescale_facts import RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import (
    ProviderInfo,
    SupplyRules,
    TaskManagerFleet,
    is_reactive,
    reactive_parallelism,
    slots_came,
)


def taskmanagers(*ids: str, slots: int = 4) -> tuple[TaskManagerFacts, ...]:
    return tuple(TaskManagerFacts(each, slots, 0) for each in ids)


# Two TaskManagers of the provider with four slots each.
INFO = ProviderInfo(desired=2, running=2, taskmanager_ids=frozenset({"own-1", "own-2"}))
FLEET = TaskManagerFleet(INFO, taskmanagers("own-1", "own-2"))


def test_every_vertex_takes_all_slots_up_to_its_maximum() -> None:
    assert reactive_parallelism(12, {"source": 8, "work": 16}) == {"source": 8, "work": 12}


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        pytest.param(0, 0, id="none"),
        pytest.param(1, 1, id="a part of one"),
        pytest.param(8, 2, id="whole ones"),
        pytest.param(9, 3, id="targets 5, 9 and 1 in slots of four: three"),
    ],
)
def test_slots_are_rounded_up_to_whole_taskmanagers(slots: int, expected: int) -> None:
    assert FLEET.count_for(slots) == expected


@pytest.mark.parametrize(
    ("changes", "slots", "expected"),
    [
        pytest.param({"minimum": 2}, 1, 2, id="never fewer than the minimum"),
        pytest.param({"maximum": 2}, 99, 2, id="never more than the maximum"),
        pytest.param({"slots_per_taskmanager": 2}, 8, 4, id="the provider knows the slots better"),
    ],
)
def test_the_limits_of_the_provider_hold(changes: dict[str, int], slots: int, expected: int) -> None:
    fleet = dataclasses.replace(FLEET, info=dataclasses.replace(INFO, **changes))  # type: ignore[arg-type]

    assert fleet.count_for(slots) == expected


def test_spare_taskmanagers_come_on_top() -> None:
    assert dataclasses.replace(FLEET, rules=SupplyRules(spare=1)).count_for(8) == 3


def test_slots_of_others_need_not_be_added() -> None:
    fleet = dataclasses.replace(FLEET, registered=(*FLEET.registered, *taskmanagers("theirs", slots=3)))

    assert (fleet.other_slots, fleet.slots, fleet.count_for(9)) == (3, 11, 2)


def test_a_taskmanager_that_leaves_belongs_to_nobody() -> None:
    info = dataclasses.replace(INFO, taskmanager_ids=frozenset({"own-1"}), leaving_ids=frozenset({"own-2"}))
    fleet = dataclasses.replace(FLEET, info=info)

    assert (fleet.own_count, fleet.other_slots, fleet.slots) == (1, 0, 4)


def test_without_ids_the_rules_say_how_many_belong_to_others() -> None:
    info = dataclasses.replace(INFO, taskmanager_ids=None)
    fleet = TaskManagerFleet(info, taskmanagers("a", "b", "c"), SupplyRules(others=1))

    assert (fleet.own_count, fleet.other_slots, fleet.count_for(9)) == (2, 4, 2)


def test_slots_that_others_had_a_moment_ago_still_count() -> None:
    fleet = dataclasses.replace(FLEET, lately=4)

    assert (fleet.other_slots, fleet.listed_other_slots, fleet.count_for(8)) == (4, 0, 1)


def test_without_any_taskmanager_the_configuration_tells_its_slots() -> None:
    assert TaskManagerFleet(INFO, (), usual_slots=3).count_for(9) == 3


def test_slots_that_are_not_known_have_not_come() -> None:
    assert slots_came(RescaleFacts(), {"work": 4}, {"work": 8}) is False


@pytest.mark.parametrize(("mode", "expected"), [("reactive", True), (" REACTIVE ", True), ("", False)])
def test_the_mode_is_read_in_any_case(mode: str, expected: bool) -> None:
    endpoint = Endpoint("http://127.0.0.1:1")
    job = JobAutoScalerContext("c/j", None, JobStatus.RUNNING, {"scheduler-mode": mode}, endpoint)

    assert is_reactive(job) is expected
