"""The border behind which the orders of people are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import Orders


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of a command.

    Attributes:
        orders: Those of the job from now on.
        text: What was done, or why nothing was, for people.
        reason: Of the event about it; None when nothing was done.
        is_refused: Whether nothing was done although somebody may rely on it.
    """

    orders: Orders
    text: str
    reason: str | None = None
    is_refused: bool = False

    @property
    def event(self) -> Event | None:
        """What is to be kept for those who ask later; None when nothing was done."""
        return None if self.reason is None else Event(EventType.NORMAL, self.reason, self.text)


Command = Callable[[Orders, int], CommandResult]
"""Takes the orders of a job and the instant, epoch milliseconds; may be called several times, so it changes nothing."""


class OrderStore(Protocol):
    """Keeps the orders of all jobs.

    Calls for different clusters may come from different threads. Implementations raise :class:`StoreError` and nothing
    else.
    """

    def orders(self, cluster: str) -> Mapping[JobKey, Orders]:
        """Return the orders for jobs of a cluster, only for jobs that have any. Called once per pass; only reads.

        Jobs whose keys do not name a cluster are in the answer for every cluster.
        """
        ...

    def change(self, job_key: JobKey, command: Command) -> CommandResult:
        """Apply a command to the orders of one job; of commands that come at the same time none gets lost."""
        ...

    def tidy(self, cluster: str, now_ms: int) -> None:
        """Remove what is over at an instant, epoch milliseconds, from the orders that were read last.

        Called in every pass of a daemon that acts.
        """
        ...

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the orders for jobs whose state is deleted. Unknown ones do nothing."""
        ...
