"""A reactive cluster for tests: a fake JobManager, and a provider whose TaskManagers come when the test says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import (
    DONE,
    OperationState,
    Progress,
    ProviderInfo,
    SupplyRules,
    TaskManagerSupply,
)
from testkit.fakes.flink import Canned, FakeFlink, FakeVertex

JOB_ID = "4ad5c7b1e0f24c0b8f4b1d6f3b0f5a11"
SOURCE = "431c11b7410a217cf29a345eb02981d0"
SINK = "afa3664e2d13439221e8d041382a4dc1"
SLOTS = 4
REACTIVE = {"scheduler-mode": "reactive", "job.autoscaler.scaling.event.interval": "10 s"}


class FakeProvider:
    """Has as many TaskManagers as it is told, at once, under the names ``tm-1``, ``tm-2`` and so on.

    Attributes:
        ids: Those that run.
        leaving: Those that were stopped.
        calls: Counts and victims that it was asked for.
        state: What it says about every operation.
        problem: What it says instead of doing anything; None does it.
    """

    def __init__(self, count: int = 0, *, minimum: int = 0, maximum: int | None = 4, knows_ids: bool = True) -> None:
        self.desired: int | None = count
        self.ids = [f"tm-{number + 1}" for number in range(count)]
        self.leaving: list[str] = []
        self.calls: list[tuple[int, tuple[str, ...]]] = []
        self.state: OperationState = DONE
        self.problem: str | None = None
        self.minimum, self.maximum, self.knows_ids = minimum, maximum, knows_ids
        self._started = count

    def describe(self) -> ProviderInfo:
        self._check()
        return ProviderInfo(
            self.desired,
            len(self.ids),
            minimum=self.minimum,
            maximum=self.maximum,
            can_pick_victims=self.knows_ids,
            taskmanager_ids=frozenset(self.ids) if self.knows_ids else None,
            leaving_ids=frozenset(self.leaving) if self.knows_ids else frozenset(),
        )

    def set_desired(self, count: int, victims: Sequence[str] = ()) -> str:
        self._check()
        if count < self.minimum or (self.maximum is not None and count > self.maximum):
            raise RealizeError("beyond the limits")
        self.calls.append((count, tuple(victims)))
        self.desired = count
        while len(self.ids) < count:
            self._started += 1
            self.ids.append(f"tm-{self._started}")
        first = [each for each in victims if each in self.ids]
        others = [each for each in reversed(self.ids) if each not in first]
        for each in (first + others)[: len(self.ids) - count]:
            self.ids.remove(each)
            self.leaving.append(each)
        return f"operation-{len(self.calls)}"

    def operation(self, operation_id: str) -> OperationState:
        number = operation_id.removeprefix("operation-")
        known = number.isdecimal() and int(number) <= len(self.calls)
        return self.state if known else OperationState(Progress.FAILED, "not known")

    def close(self) -> None:
        """Keep everything."""

    def die(self) -> None:
        """Let all TaskManagers end by themselves."""
        self.leaving += self.ids
        self.ids = []

    def _check(self) -> None:
        if self.problem is not None:
            raise RealizeError(self.problem)


@dataclasses.dataclass
class ReactiveCluster:
    """A fake cluster with one job of a source and a sink, which can run with up to 16 subtasks.

    Attributes:
        registered: TaskManagers by id, with their free slots.
    """

    flink: FakeFlink
    provider: FakeProvider
    rules: SupplyRules = dataclasses.field(default_factory=SupplyRules)
    max_parallelism: int = 16

    def __post_init__(self) -> None:
        vertices = [
            FakeVertex(SOURCE, "Source: orders", SLOTS, self.max_parallelism),
            FakeVertex(SINK, "sink", SLOTS, self.max_parallelism, inputs={SOURCE: "HASH"}),
        ]
        self.job = self.flink.add_job("orders", vertices, job_id=JOB_ID)
        self.supply = TaskManagerSupply(self.provider, self.rules)
        self.registered: dict[str, int] = {}
        self.checkpoint(1000)
        self.interval(10_000)
        self.register(*self.provider.ids)

    def supplies(self, cluster: str) -> TaskManagerSupply | None:
        """Give the provider to the cluster ``c``."""
        return self.supply if cluster == "c" else None

    def register(self, *ids: str, free: int = 0) -> None:
        """Let TaskManagers offer their slots."""
        self.registered |= dict.fromkeys(ids, free)
        self._answer_taskmanagers()

    def lose(self, *ids: str) -> None:
        """Let TaskManagers be gone."""
        for each in ids:
            del self.registered[each]
        self._answer_taskmanagers()

    def checkpoint(self, at_ms: int) -> None:
        """Complete a checkpoint."""
        latest = {"completed": {"latest_ack_timestamp": at_ms, "state_size": 1}}
        self.flink.fault("/checkpoints", Canned.json({"latest": latest}))

    def interval(self, interval_ms: int) -> None:
        """Set the time between checkpoints."""
        self.flink.fault("/checkpoints/config", Canned.json({"interval": interval_ms}))

    def context(self, configuration: Mapping[str, str] | None = None, **changes: Any) -> JobAutoScalerContext:
        """Make the context of the job: running, in reactive mode unless told otherwise."""
        settings = REACTIVE if configuration is None else configuration
        endpoint = self.flink.endpoint(timeout=5.0)
        context = JobAutoScalerContext("c/orders", JOB_ID, JobStatus.RUNNING, settings, endpoint, cluster="c")
        return dataclasses.replace(context, **changes)

    def _answer_taskmanagers(self) -> None:
        entries = [{"id": each, "slotsNumber": SLOTS, "freeSlots": free} for each, free in self.registered.items()]
        self.flink.fault("/taskmanagers", Canned.json({"taskmanagers": entries}))
