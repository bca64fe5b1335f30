"""What the queues and nodes of a YARN cluster can still give.

A container fits when each queue on the way to the root and the nodes have room for it. What is left counts:

- memory always;
- virtual cores where the scheduler looks at them: always with the fair scheduler, never with the FIFO scheduler, and
  with the capacity scheduler where something tells that its resource calculator is the dominant one. Where nothing
  tells it, every container has one core, and counting them would be a limit that YARN itself does not know;
- a user's share of the queue (``user-limit-factor``) where the user is known. YARN lets a user go beyond it with one
  last container; that one is not counted on.

The number of applications of a queue says nothing about containers of one that runs. Room that is scattered over
nodes, or is on labelled ones, is counted as if it were in one place, so that YARN may still give less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple, Protocol

from flink_autoscaler.clients.yarn.queues import (
    NOTHING,
    ROOT,
    Amount,
    ClusterAmounts,
    Queue,
    Queues,
    cluster_amounts,
    lesser,
    scheduler_queues,
)
from flink_autoscaler.core.model.job import Headroom

SCHEDULER_PATH: Final = "/ws/v1/cluster/scheduler"
METRICS_PATH: Final = "/ws/v1/cluster/metrics"

_MB: Final = 1 << 20
_NODES: Final = "the nodes"


class JsonSource(Protocol):
    """Answers GET requests, as :class:`ResourceManagerClient` does."""

    async def get_json(self, path: str, *, params: Mapping[str, str] | None = None) -> object:
        """Return a decoded answer.

        Raises:
            FlinkRestError: There was none.
        """
        ...


class _Limit(NamedTuple):
    """What is left below one limit, and what the limit is, for people."""

    left: Amount
    name: str


@dataclass(frozen=True, slots=True)
class YarnCapacity:
    """The queues and nodes of a YARN cluster at one instant."""

    queues: Queues
    cluster: ClusterAmounts

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
        limits = [*self._limits(found, user), _Limit(self.cluster.available, _NODES)]
        left = reduce(lesser, (limit.left for limit in limits))
        tightest = min(limits, key=lambda limit: limit.left.memory_mb).name
        return Headroom(
            source=f"YARN queue {found.path}" + ("" if tightest == found.path else f" (limited by {tightest})"),
            cpu=float(max(0, left.vcores)) if self.queues.counts_cpu else None,
            memory=max(0, left.memory_mb) * _MB,
            memory_step=self.queues.memory_step_mb * _MB,
        )

    def _find(self, queue: str) -> Queue | None:
        by_path = self.queues.by_path
        exact = by_path.get(queue) or by_path.get(f"{ROOT}.{queue}")
        if exact is not None:
            return exact
        named = [found for path, found in by_path.items() if path.endswith(f".{queue}")]
        return named[0] if len(named) == 1 else None

    def _limits(self, queue: Queue, user: str | None) -> Iterator[_Limit]:
        above: Queue | None = queue
        while above is not None:
            if above.most is not None:
                # All that the nodes have is the limit of the root, where it has one.
                yield _Limit(above.most.minus(above.used), _NODES if above.path == ROOT else above.path)
            above = None if above.parent is None else self.queues.by_path[above.parent]
        if user is not None and queue.most_per_user is not None:
            most = queue.most_per_user.times(queue.weights.get(user, 1.0))
            yield _Limit(most.minus(queue.users.get(user, NOTHING)), f"the share of user {user}")


async def yarn_capacity(rm: JsonSource) -> YarnCapacity:
    """Ask a ResourceManager, with two requests at the same time.

    Raises:
        FlinkRestError: It did not answer as documented.
    """
    metrics, scheduler = await asyncio.gather(rm.get_json(METRICS_PATH), rm.get_json(SCHEDULER_PATH))
    cluster = cluster_amounts(metrics)
    return YarnCapacity(scheduler_queues(scheduler, cluster), cluster)


async def queue_headroom(rm: JsonSource, queues: Iterable[str]) -> dict[str, Headroom]:
    """Return what any user's applications can still get per queue; queues that are not listed are left out.

    Raises:
        FlinkRestError: The ResourceManager did not answer as documented.
    """
    capacity = await yarn_capacity(rm)
    found = {queue: capacity.headroom(queue) for queue in queues}
    return {queue: headroom for queue, headroom in found.items() if headroom is not None}
