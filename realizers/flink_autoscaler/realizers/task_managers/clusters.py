"""Clusters whose TaskManagers somebody starts and stops, and what earlier passes saw of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, TypeVar

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.rescale_facts import TaskManagerFacts
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.task_managers import ProviderInfo, TaskManagerFleet, TaskManagerSupply
from flink_autoscaler.realizers.realization import GRACE
from flink_autoscaler.realizers.task_managers.scaling_operation import ScalingOperation

T = TypeVar("T")

LOST: Final = 60.0
"""Seconds after which a TaskManager of others that is not listed any more counts as gone for good; Flink itself waits
50 s for a heartbeat, and one that comes back does so within seconds."""

_REQUESTS: Final = 5
"""Most requests in a row, each of which has the endpoint's timeout."""

Supplies = Callable[[str], TaskManagerSupply | None]
"""Gives who manages the TaskManagers of a cluster, by its name; None where nobody does."""


class CheckpointWait:
    """Waits for the instant at which a restart repeats least work: right after a completed checkpoint.

    Notices, from one pass to the next, that one was completed. Compares no clocks of different machines.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._seen_ms: int | None = None

    def is_ready(self, completed_ms: int | None, max_wait: float, now: float) -> bool:
        """Tell whether to go ahead.

        Args:
            completed_ms: Instant of the latest completed checkpoint; None without any.
            max_wait: Seconds after which to go ahead without one.
            now: Seconds of a clock that never runs backward.

        Returns:
            False in the first call, then whether a checkpoint was completed since, or the time is over.
        """
        if self._since is None:
            self._since, self._seen_ms = now, completed_ms
            return False
        return completed_ms != self._seen_ms or now - self._since > max_wait

    def reset(self) -> None:
        """Forget what was waited for."""
        self._since = self._seen_ms = None


@dataclass
class ManagedCluster:
    """Memory of one cluster; one thread at a time uses it.

    Attributes:
        idle_since: When each TaskManager was first seen without work, seconds of the clock.
    """

    supply: TaskManagerSupply
    operation: ScalingOperation
    idle_since: dict[str, float] = field(default_factory=dict)
    checkpoint: CheckpointWait = field(default_factory=CheckpointWait)
    lock: Lock = field(default_factory=Lock)
    _usual_slots: int | None = None
    _others: int = 0
    _others_at: float = 0.0

    def fleet(
        self, info: ProviderInfo, registered: tuple[TaskManagerFacts, ...], *, configured_slots: int, now: float
    ) -> TaskManagerFleet:
        """Return the fleet, with what only earlier passes saw.

        Args:
            info: What the provider says.
            registered: What the cluster lists.
            configured_slots: Slots of a TaskManager by the configuration; counts until one was seen.
            now: Seconds of a clock that never runs backward.
        """
        fleet = TaskManagerFleet(info, registered, self.supply.rules, self._usual_slots or configured_slots)
        if registered:
            self._usual_slots = fleet.slots_per_taskmanager
        if fleet.listed_other_slots >= self._others or now - self._others_at >= LOST:
            self._others, self._others_at = fleet.listed_other_slots, now
        return replace(fleet, lately=self._others)


class ManagedClusters:
    """Finds clusters by their names, and asks them and their providers.

    Args:
        clients: Gives the client of a cluster; the caller owns it.
        loop: Runs the requests of those clients; owned by the caller.
        supplies: Who gives a cluster its TaskManagers; owned by the caller.
        clock: Seconds that never run backward.
    """

    def __init__(
        self,
        clients: Callable[[Endpoint], FlinkRestClient],
        loop: EventLoopThread,
        supplies: Supplies,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._clients = clients
        self._loop = loop
        self._supplies = supplies
        self._clusters: dict[str, ManagedCluster] = {}
        self._lock = Lock()

    def get(self, name: str) -> ManagedCluster | None:
        """Return what is remembered about a cluster; it begins anew where the provider is another one.

        Returns:
            None where nobody gives the cluster its TaskManagers.
        """
        supply = self._supplies(name)
        if supply is None:
            return None
        with self._lock:
            known = self._clusters.get(name)
            if known is None or known.supply is not supply:
                known = self._clusters[name] = ManagedCluster(supply, ScalingOperation(supply, self.clock))
            return known

    def fleet(self, context: JobAutoScalerContext, cluster: ManagedCluster) -> TaskManagerFleet:
        """Return the TaskManagers that there are now.

        Raises:
            FlinkRestError: The cluster did not say which there are.
            RealizeError: The provider did not.
        """
        registered = self.ask(context, lambda client: client.taskmanagers())
        info = cluster.supply.provider.describe()
        return cluster.fleet(info, registered, configured_slots=context.flink_options.task_slots, now=self.clock())

    def ask(
        self, context: JobAutoScalerContext, request: Callable[[FlinkRestClient], Coroutine[object, object, T]]
    ) -> T:
        """Send requests to the cluster of a job and wait for the answer; raises what they raise."""
        client = self._clients(context.endpoint)
        return self._loop.run(request(client), _REQUESTS * context.endpoint.timeout + GRACE)
