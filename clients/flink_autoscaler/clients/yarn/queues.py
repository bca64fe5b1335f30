"""What a ResourceManager says about its nodes and queues, from decoded JSON to typed values.

Lists come in several shapes, by version and JSON library: a list of one entry may be the bare entry, an empty one
null, an empty object or an empty text. Fields that are not read are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flink_autoscaler.clients.flink.fields import (
    Fields,
    integer,
    number,
    object_of,
    objects_in,
    optional_object,
    optional_text,
    text,
    wrong,
)

ROOT: Final = "root"
_WHERE: Final = "scheduler"
_FAIR_STEP_MB: Final = 1024
"""Default of ``yarn.resource-types.memory-mb.increment-allocation``."""


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

    def times(self, factor: float) -> Amount:
        """Return a multiple, rounded down."""
        return Amount(int(self.memory_mb * factor), int(self.vcores * factor))


NOTHING: Final = Amount(0, 0)


@dataclass(frozen=True, slots=True)
class ClusterAmounts:
    """What ``GET /ws/v1/cluster/metrics`` tells about all nodes.

    Attributes:
        total: Of all nodes.
        available: Neither allocated nor reserved.
        has_large_containers: Whether some container has more than one virtual core.
    """

    total: Amount
    available: Amount
    has_large_containers: bool


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
    used: Amount = NOTHING
    most: Amount | None = None
    most_per_user: Amount | None = None
    users: Mapping[str, Amount] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queues:
    """What ``GET /ws/v1/cluster/scheduler`` tells.

    Attributes:
        by_path: Empty for a scheduler that is not known.
        counts_cpu: Whether the scheduler looks at virtual cores when it gives containers.
        memory_step_mb: Containers get a multiple of this; 1 where it is not known.
    """

    by_path: Mapping[str, Queue]
    counts_cpu: bool
    memory_step_mb: int = 1


def cluster_amounts(answer: object) -> ClusterAmounts:
    """Decode ``/ws/v1/cluster/metrics``."""
    where = "clusterMetrics"
    metrics = object_of(object_of(answer, "cluster metrics").get(where), where)
    available = Amount(integer(metrics, "availableMB", where), integer(metrics, "availableVirtualCores", where))
    used = Amount(
        integer(metrics, "allocatedMB", where, 0) + integer(metrics, "reservedMB", where, 0),
        integer(metrics, "allocatedVirtualCores", where, 0) + integer(metrics, "reservedVirtualCores", where, 0),
    )
    total = Amount(integer(metrics, "totalMB", where), integer(metrics, "totalVirtualCores", where))
    containers = integer(metrics, "containersAllocated", where, 0)
    return ClusterAmounts(
        total=total,
        # Only the capacity scheduler takes what is reserved off what is available.
        available=lesser(available, total.minus(used)),
        has_large_containers=integer(metrics, "allocatedVirtualCores", where, 0) > containers,
    )


def lesser(left: Amount, right: Amount) -> Amount:
    """Return the lesser memory and the lesser cores."""
    return Amount(min(left.memory_mb, right.memory_mb), min(left.vcores, right.vcores))


def scheduler_queues(answer: object, cluster: ClusterAmounts) -> Queues:
    """Decode ``/ws/v1/cluster/scheduler``.

    Args:
        answer: Of the capacity, fair or FIFO scheduler.
        cluster: For limits that are given as a share of the cluster.
    """
    scheduler = object_of(object_of(answer, _WHERE).get(_WHERE), _WHERE)
    info = object_of(scheduler.get("schedulerInfo"), "schedulerInfo")
    match optional_text(info, "type", "schedulerInfo"):
        case "capacityScheduler":
            return _capacity_queues(info, cluster)
        case "fairScheduler":
            return _fair_queues(info)
        case "fifoScheduler":
            step = integer(info, "minQueueMemoryCapacity", "schedulerInfo", 1)
            return Queues({"default": Queue("default")}, counts_cpu=False, memory_step_mb=max(1, step))
    return Queues({}, counts_cpu=False)


def _capacity_queues(info: Fields, cluster: ClusterAmounts) -> Queues:
    """Decode the queues below the root, which has no other limit than the nodes.

    The scheduler does not tell its resource calculator. The default one counts memory alone, and every amount that
    it works out has one virtual core: those of containers, and the limits for application masters. More than one
    tells that cores are counted.
    """
    queues: dict[str, Queue] = {}
    counts_cpu, step = cluster.has_large_containers, 0
    pending = [(ROOT, entry) for entry in _entries(info, "queues", "queue")]
    while pending:
        parent, entry = pending.pop()
        path = f"{parent}.{text(entry, 'queueName', 'queue')}"
        queues[path] = _capacity_queue(path, parent if parent != ROOT else None, entry, cluster.total)
        masters = _amount(entry, "AMResourceLimit", path)
        counts_cpu = counts_cpu or (masters is not None and masters.vcores > 1)
        step = max(step, _least_allocation(entry, path))
        pending += [(path, child) for child in _entries(entry, "queues", "queue")]
    return Queues(queues, counts_cpu, max(1, step))


def _capacity_queue(path: str, parent: str | None, entry: Fields, total: Amount) -> Queue:
    users = {text(user, "username", path): user for user in _entries(entry, "users", "user")}
    weights = {name: number(user, "userWeight", path) for name, user in users.items()}
    return Queue(
        path=path,
        parent=parent,
        used=_amount(entry, "resourcesUsed", path) or NOTHING,
        most=_limit(entry, "maxEffectiveCapacity", "absoluteMaxCapacity", total),
        most_per_user=_most_per_user(entry, path, total),
        users={name: _amount(user, "resourcesUsed", path) or NOTHING for name, user in users.items()},
        weights={name: weight for name, weight in weights.items() if weight not in (None, 1.0)},
    )


def _limit(entry: Fields, effective: str, share: str, total: Amount) -> Amount | None:
    """Return a limit that is given in MB and cores, or as percents of the cluster, as before Hadoop 3.1."""
    amount = _amount(entry, effective, _WHERE)
    if amount is not None and amount.memory_mb > 0:
        return amount
    percent = number(entry, share, _WHERE)
    return None if percent is None else total.times(percent / 100)


def _most_per_user(entry: Fields, path: str, total: Amount) -> Amount | None:
    """Return the part of the queue's guaranteed capacity that a user may have, often all of it.

    ``userResourceLimit`` is of no use: it moves along with what is used.
    """
    factor = number(entry, "userLimitFactor", path)
    guaranteed = _limit(entry, "minEffectiveCapacity", "absoluteCapacity", total)
    # A negative factor switches the limit off, and without a guaranteed capacity there is none.
    if factor is None or factor < 0 or guaranteed is None or guaranteed.memory_mb <= 0:
        return None
    return guaranteed.times(factor)


def _least_allocation(entry: Fields, path: str) -> int:
    """Return the least memory of a container, 0 where it is not told."""
    for partition in _entries(optional_object(entry, "capacities", path), "queueCapacitiesByPartition", None):
        for resource in _resources(optional_object(partition, "configuredMinResource", path)):
            if resource.get("name") == "memory-mb":
                return integer(resource, "minimumAllocation", path, 0)
    return 0


def _resources(amount: Fields) -> Iterator[Fields]:
    yield from _entries(amount, "resourceInformations", "resourceInformation")


def _fair_queues(info: Fields) -> Queues:
    """Decode all queues. Their names are paths already, and the scheduler gives no cores that it does not have.

    It does not tell the steps of memory. They are taken as its default ones, unless what is used shows finer ones.
    """
    queues: dict[str, Queue] = {}
    step = _FAIR_STEP_MB
    pending: list[tuple[str | None, Fields]] = [(None, object_of(info.get("rootQueue"), "rootQueue"))]
    while pending:
        parent, entry = pending.pop()
        path = text(entry, "queueName", "queue")
        used = _amount(entry, "usedResources", path) or NOTHING
        step = math.gcd(step, used.memory_mb)
        used = used.plus(_amount(entry, "reservedResources", path) or NOTHING)
        queues[path] = Queue(path, parent, used, _amount(entry, "maxResources", path))
        pending += [(path, child) for child in _entries(entry, "childQueues", "queue")]
    return Queues(queues, counts_cpu=True, memory_step_mb=step)


def _amount(entry: Fields, name: str, where: str) -> Amount | None:
    resource = optional_object(entry, name, where)
    if not resource:
        return None
    return Amount(integer(resource, "memory", f"{where}.{name}"), integer(resource, "vCores", f"{where}.{name}", 0))


def _entries(fields: Fields, outer: str, inner: str | None) -> list[Fields]:
    """Return the entries of a list in any shape: in a field of its own, or wrapped in an object with one field."""
    value = fields.get(outer)
    if inner is not None and isinstance(value, dict):
        value = value.get(inner)
    if not value:
        return []
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list):
        return objects_in(value, outer)
    raise wrong(outer, "a list", value)
