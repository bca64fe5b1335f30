"""Free capacity of the queues and nodes of a YARN cluster.

A container fits when each queue on the way to the root and the nodes have room for it. What is left counts:

- memory always;
- virtual cores where the scheduler looks at them: always with the fair scheduler, never with the FIFO scheduler, and
  with the capacity scheduler where something tells that its resource calculator is the dominant one. Where nothing
  tells it, every container has one core, and counting them would be a limit that YARN itself does not know;
- a user's share of the queue (``user-limit-factor``) where the user is known. YARN lets a user go beyond it with one
  last container; that one is not counted on.

The number of applications of a queue says nothing about containers of one that runs. Room that is scattered over
nodes, or is on labelled ones, is counted as if it were in one place, so that YARN may still give less.

In the answers lists come in several shapes, by version and JSON library: a list of one entry may be the bare entry, an
empty one null, an empty object or an empty text.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, NamedTuple, Protocol

from flink_autoscaler.clients.http.json_object import JsonObject, objects_in, wrong
from flink_autoscaler.core.model.job import Headroom

SCHEDULER_PATH: Final = "/ws/v1/cluster/scheduler"
METRICS_PATH: Final = "/ws/v1/cluster/metrics"

_ROOT: Final = "root"
_WHERE: Final = "scheduler"
_FAIR_STEP_MB: Final = 1024
"""Default of ``yarn.resource-types.memory-mb.increment-allocation``."""

_MB: Final = 1 << 20
_NODES: Final = "the nodes"


class JsonSource(Protocol):
    """Answers GET requests, as :class:`ResourceManagerClient` does."""

    async def get_json(self, path: str, *, params: Mapping[str, str] | None = None) -> object:
        """Return a decoded answer. Raises FlinkRestError: There was none."""
        ...


class Amount(NamedTuple):
    """Memory in MB, as YARN counts it, and virtual cores."""

    memory_mb: int
    vcores: int

    def plus(self, other: Amount) -> Amount:
        """Return both together."""
        return Amount(self.memory_mb + other.memory_mb, self.vcores + other.vcores)

    def minus(self, other: Amount) -> Amount:
        """Return what is left, negative where there is too little."""
        return Amount(self.memory_mb - other.memory_mb, self.vcores - other.vcores)

    def lesser(self, other: Amount) -> Amount:
        """Return the lesser memory and the lesser cores."""
        return Amount(min(self.memory_mb, other.memory_mb), min(self.vcores, other.vcores))

    def times(self, factor: float) -> Amount:
        """Return a multiple, rounded down."""
        return Amount(int(self.memory_mb * factor), int(self.vcores * factor))


_NOTHING: Final = Amount(0, 0)


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue.

    Attributes:
        path: Names from the root on, separated by dots.
        parent: Path of the queue above it; None for the uppermost ones that are limited.
        used: What its applications have, reservations included.
        most: What they may have; None where that is not limited.
        most_per_user: What the applications of a user of weight 1 may have; None where that is not limited.
        users: What each user's applications have.
        weights: Weight of the users, as far as it is not 1.
    """

    path: str
    parent: str | None = None
    used: Amount = _NOTHING
    most: Amount | None = None
    most_per_user: Amount | None = None
    users: Mapping[str, Amount] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


class _Limit(NamedTuple):
    """Rest below one limit, and a description of the limit."""

    left: Amount
    name: str


@dataclass(frozen=True, slots=True)
class YarnCapacity:
    """The queues and nodes of a YARN cluster at one instant.

    Attributes:
        available: What the nodes have that is neither allocated nor reserved.
        queues: By path; empty for a scheduler that is not known.
        counts_cpu: Whether the scheduler looks at virtual cores when it gives containers.
        memory_step_mb: Containers get a multiple of this; 1 where it is not known.
    """

    available: Amount
    queues: Mapping[str, Queue] = field(default_factory=dict)
    counts_cpu: bool = False
    memory_step_mb: int = 1

    def headroom(self, queue: str, user: str | None = None) -> Headroom | None:
        """Return what an application can still get.

        Args:
            queue: Path, with or without the root, or the last name where it is the only one of that name.
            user: Owner of the application; None leaves the limits for users out.

        Returns:
            What is left, never negative; None where the scheduler does not list the queue.
        """
        found = self._find(queue)
        if found is None:
            return None
        limits = [*self._limits(found, user), _Limit(self.available, _NODES)]
        left = reduce(Amount.lesser, (limit.left for limit in limits))
        tightest = min(limits, key=lambda limit: limit.left.memory_mb).name
        return Headroom(
            source=f"YARN queue {found.path}" + ("" if tightest == found.path else f" (limited by {tightest})"),
            cpu=float(max(0, left.vcores)) if self.counts_cpu else None,
            memory=max(0, left.memory_mb) * _MB,
            memory_step=self.memory_step_mb * _MB,
        )

    def _find(self, queue: str) -> Queue | None:
        exact = self.queues.get(queue) or self.queues.get(f"{_ROOT}.{queue}")
        if exact is not None:
            return exact
        named = [found for path, found in self.queues.items() if path.endswith(f".{queue}")]
        return named[0] if len(named) == 1 else None

    def _limits(self, queue: Queue, user: str | None) -> Iterator[_Limit]:
        above: Queue | None = queue
        while above is not None:
            if above.most is not None:
                # All that the nodes have is the limit of the root, where it has one.
                yield _Limit(above.most.minus(above.used), _NODES if above.path == _ROOT else above.path)
            above = None if above.parent is None else self.queues[above.parent]
        if user is not None and queue.most_per_user is not None:
            most = queue.most_per_user.times(queue.weights.get(user, 1.0))
            yield _Limit(most.minus(queue.users.get(user, _NOTHING)), f"the share of user {user}")


async def yarn_capacity(rm: JsonSource) -> YarnCapacity:
    """Ask a ResourceManager, with two requests at the same time.

    Raises:
        FlinkRestError: It did not answer as documented.
    """
    metrics, scheduler = await asyncio.gather(rm.get_json(METRICS_PATH), rm.get_json(SCHEDULER_PATH))
    return _scheduler_capacity(scheduler, _nodes(metrics))


class _Nodes(NamedTuple):
    """All nodes together, and whether some container has more than one virtual core."""

    total: Amount
    available: Amount
    has_large_containers: bool


def _nodes(answer: object) -> _Nodes:
    """Decode ``/ws/v1/cluster/metrics``."""
    metrics = JsonObject(JsonObject(answer, "cluster metrics").get("clusterMetrics"), "clusterMetrics")
    available = Amount(metrics.integer("availableMB"), metrics.integer("availableVirtualCores"))
    used = Amount(
        metrics.integer("allocatedMB", 0) + metrics.integer("reservedMB", 0),
        metrics.integer("allocatedVirtualCores", 0) + metrics.integer("reservedVirtualCores", 0),
    )
    total = Amount(metrics.integer("totalMB"), metrics.integer("totalVirtualCores"))
    containers = metrics.integer("containersAllocated", 0)
    return _Nodes(
        total=total,
        # Only the capacity scheduler takes what is reserved off what is available.
        available=available.lesser(total.minus(used)),
        has_large_containers=metrics.integer("allocatedVirtualCores", 0) > containers,
    )


def _scheduler_capacity(answer: object, nodes: _Nodes) -> YarnCapacity:
    """Decode ``/ws/v1/cluster/scheduler`` of the capacity, fair or FIFO scheduler."""
    scheduler = JsonObject(JsonObject(answer, _WHERE).get(_WHERE), _WHERE)
    info = JsonObject(scheduler.get("schedulerInfo"), "schedulerInfo")
    match info.optional_text("type"):
        case "capacityScheduler":
            return _capacity_scheduler(info, nodes)
        case "fairScheduler":
            return _fair_scheduler(info, nodes)
        case "fifoScheduler":
            step = max(1, info.integer("minQueueMemoryCapacity", 1))
            return YarnCapacity(nodes.available, {"default": Queue("default")}, memory_step_mb=step)
    return YarnCapacity(nodes.available)


def _capacity_scheduler(info: JsonObject, nodes: _Nodes) -> YarnCapacity:
    """Decode the queues below the root, which has no other limit than the nodes.

    The scheduler does not tell its resource calculator. The default one counts memory alone, and every amount that
    it works out has one virtual core: those of containers, and the limits for application masters. More than one
    tells that cores are counted.
    """
    queues: dict[str, Queue] = {}
    counts_cpu, step = nodes.has_large_containers, 1
    pending = [(_ROOT, entry) for entry in _entries(info, "queues", "queue")]
    while pending:
        parent, entry = pending.pop()
        path = f"{parent}.{entry.named('queue').text('queueName')}"
        entry = entry.named(path)
        queues[path] = _capacity_queue(path, parent if parent != _ROOT else None, entry, nodes.total)
        masters = _amount(entry, "AMResourceLimit")
        counts_cpu = counts_cpu or (masters is not None and masters.vcores > 1)
        step = max(step, _least_allocation(entry, path))
        pending += [(path, child) for child in _entries(entry, "queues", "queue")]
    return YarnCapacity(nodes.available, queues, counts_cpu, step)


def _capacity_queue(path: str, parent: str | None, entry: JsonObject, total: Amount) -> Queue:
    users = {user.named(path).text("username"): user.named(path) for user in _entries(entry, "users", "user")}
    weights = {name: user.number("userWeight") for name, user in users.items()}
    return Queue(
        path=path,
        parent=parent,
        used=_amount(entry, "resourcesUsed") or _NOTHING,
        most=_limit(entry, "maxEffectiveCapacity", "absoluteMaxCapacity", total),
        most_per_user=_most_per_user(entry, total),
        users={name: _amount(user, "resourcesUsed") or _NOTHING for name, user in users.items()},
        weights={name: weight for name, weight in weights.items() if weight not in (None, 1.0)},
    )


def _limit(entry: JsonObject, effective: str, share: str, total: Amount) -> Amount | None:
    """Return a limit that is given in MB and cores, or as percents of the cluster, as before Hadoop 3.1."""
    entry = entry.named(_WHERE)
    amount = _amount(entry, effective)
    if amount is not None and amount.memory_mb > 0:
        return amount
    percent = entry.number(share)
    return None if percent is None else total.times(percent / 100)


def _most_per_user(entry: JsonObject, total: Amount) -> Amount | None:
    """Return the part of the queue's guaranteed capacity that a user may have, often all of it.

    ``userResourceLimit`` is of no use: it moves along with what is used.
    """
    factor = entry.number("userLimitFactor")
    guaranteed = _limit(entry, "minEffectiveCapacity", "absoluteCapacity", total)
    # A negative factor switches the limit off, and without a guaranteed capacity there is none.
    if factor is None or factor < 0 or guaranteed is None or guaranteed.memory_mb <= 0:
        return None
    return guaranteed.times(factor)


def _least_allocation(entry: JsonObject, path: str) -> int:
    """Return the least memory of a container, 0 where it is not told."""
    for partition in _entries(entry.child("capacities"), "queueCapacitiesByPartition"):
        least = partition.named(path).child("configuredMinResource")
        for resource in _entries(least, "resourceInformations", "resourceInformation"):
            if resource.get("name") == "memory-mb":
                return resource.named(path).integer("minimumAllocation", 0)
    return 0


def _fair_scheduler(info: JsonObject, nodes: _Nodes) -> YarnCapacity:
    """Decode all queues. Their names are paths already, and the scheduler gives no cores that it does not have.

    It does not tell the steps of memory. They are taken as its default ones, unless what is used shows finer ones.
    """
    queues: dict[str, Queue] = {}
    step = _FAIR_STEP_MB
    pending: list[tuple[str | None, JsonObject]] = [(None, JsonObject(info.get("rootQueue"), "rootQueue"))]
    while pending:
        parent, entry = pending.pop()
        path = entry.named("queue").text("queueName")
        entry = entry.named(path)
        used = _amount(entry, "usedResources") or _NOTHING
        step = math.gcd(step, used.memory_mb)
        used = used.plus(_amount(entry, "reservedResources") or _NOTHING)
        queues[path] = Queue(path, parent, used, _amount(entry, "maxResources"))
        pending += [(path, child) for child in _entries(entry, "childQueues", "queue")]
    return YarnCapacity(nodes.available, queues, counts_cpu=True, memory_step_mb=step)


def _amount(entry: JsonObject, name: str) -> Amount | None:
    resource = entry.child(name)
    return Amount(resource.integer("memory"), resource.integer("vCores", 0)) if resource else None


def _entries(entry: JsonObject, outer: str, inner: str | None = None) -> list[JsonObject]:
    """Return the entries of a list in any shape: in a field of its own, or wrapped in an object with one field."""
    value = entry.get(outer)
    if inner is not None and isinstance(value, dict):
        value = value.get(inner)
    if not value:
        return []
    if isinstance(value, dict):
        return [JsonObject(value, outer)]
    if isinstance(value, list):
        return objects_in(value, outer)
    raise wrong(outer, "a list", value)
