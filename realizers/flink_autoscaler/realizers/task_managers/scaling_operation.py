"""Steps by which the TaskManagers of one cluster get from one count to another, over as many passes as that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.ports.task_managers import Progress, TaskManagerFleet, TaskManagerSupply

REQUESTED = "TaskManagersRequested"
READY = "TaskManagersReady"
MISSING = "TaskManagersMissing"
FAILED = "TaskManagerProviderFailed"

_FIRST_WAIT: Final = 15.0
_MAX_WAIT: Final = 1800.0


@dataclass(frozen=True, slots=True)
class OperationStep:
    """Result of one pass.

    Attributes:
        is_requested: Whether the provider was asked for another count.
        problem: Why it is not as it should be; None when it is, or is on its way.
    """

    is_requested: bool = False
    events: tuple[Event, ...] = ()
    problem: str | None = None


@dataclass
class _Change:
    """A change that is under way.

    Attributes:
        count: TaskManagers asked for.
        registered: How many the cluster listed before.
        began: When it began, seconds of the clock.
        operation: Id of the provider's operation while it is not known to have ended.
        ready_since: Since when all of them are there; None while they are not.
    """

    count: int
    registered: int
    began: float
    operation: str | None
    ready_since: float | None = None


@dataclass
class ScalingOperation:
    """Asks the provider of one cluster for TaskManagers, and watches whether they come. Not for several threads.

    Level-triggered: a step compares what is there with what should be, so that a daemon which begins in the middle
    goes on from there. No step waits for anything.

    Args:
        supply: Provider and rules.
        clock: Seconds that never run backward.
    """

    supply: TaskManagerSupply
    clock: Callable[[], float]
    _change: _Change | None = None
    _failures: int = 0
    _retry_at: float = 0.0
    _events: list[Event] = field(default_factory=list)

    @property
    def is_under_way(self) -> bool:
        """True while TaskManagers are awaited, or the provider is at work."""
        return self._change is not None

    @property
    def waited(self) -> float:
        """Seconds since the change began that is under way; 0 when there is none."""
        return 0.0 if self._change is None else self.clock() - self._change.began

    def step(
        self, fleet: TaskManagerFleet, count: int, *, victims: Sequence[str] = (), why: str, interval: Duration
    ) -> OperationStep:
        """Take the cluster one step toward a count.

        Args:
            fleet: How it is.
            count: TaskManagers that the provider is to have, within its limits.
            victims: Ids to stop first, where there are to be fewer.
            why: For people.
            interval: Time within which the same problem is not told again.
        """
        self._events = []
        try:
            is_requested = self._step(fleet, count, victims, why)
        except RealizeError as error:
            return self._on_failure(str(error), interval)
        return OperationStep(is_requested, tuple(self._events))

    def fail(self, problem: str, interval: Duration) -> OperationStep:
        """Take note that the provider could not even say what there is."""
        self._events = []
        return self._on_failure(problem, interval)

    def _step(self, fleet: TaskManagerFleet, count: int, victims: Sequence[str], why: str) -> bool:
        self._end_operation()
        if self._change is not None and self._change.operation is not None:
            self._watch(fleet)
            return False
        if fleet.info.desired != count:
            return self._request(fleet, count, victims, why)
        self._watch_or_heal(fleet, count)
        return False

    def _end_operation(self) -> None:
        """Ask what became of the operation.

        Raises:
            RealizeError: It has failed.
        """
        change = self._change
        if change is None or change.operation is None:
            return
        state = self.supply.provider.operation(change.operation)
        if state.progress is Progress.FAILED:
            self._change = None
            raise RealizeError(state.reason)
        if state.progress is Progress.DONE:
            change.operation = None

    def _request(self, fleet: TaskManagerFleet, count: int, victims: Sequence[str], why: str) -> bool:
        if self.clock() < self._retry_at:
            return False
        operation = self.supply.provider.set_desired(count, victims)
        before = fleet.info.desired
        self._change = _Change(count, fleet.own_count, self.clock(), operation)
        instead = "" if before is None else f" instead of {before}"
        self._add_event(REQUESTED, f"Asked for {count} TaskManagers{instead}: {why}")
        return before is None or before != count

    def _watch_or_heal(self, fleet: TaskManagerFleet, count: int) -> None:
        is_short = fleet.info.running is not None and fleet.info.running < count
        if is_short and self.clock() >= self._retry_at:
            operation = self.supply.provider.set_desired(count)
            self._change = _Change(count, fleet.own_count, self.clock(), operation)
            self._add_event(
                REQUESTED, f"Only {fleet.info.running} of {count} TaskManagers were left; started the others again"
            )
            self._back_off()  # one that ends at once every time is not started in every pass
        elif self._change is None and fleet.own_count < count and self.clock() >= self._retry_at:
            self._change = _Change(count, fleet.own_count, self.clock(), None)
        self._watch(fleet)

    def _watch(self, fleet: TaskManagerFleet) -> None:
        """See whether the TaskManagers are there, and stay."""
        change = self._change
        if change is None:
            return
        now, rules = self.clock(), self.supply.rules
        if fleet.own_count < change.count:
            change.ready_since = None
            if now - change.began > rules.ready_timeout and change.operation is None:
                self._give_up(fleet, change)
            return
        if change.ready_since is None:
            change.ready_since = now
        if change.operation is None and now - change.ready_since >= rules.settle:
            if change.count > change.registered:
                seconds = change.ready_since - change.began
                self._add_event(
                    READY, f"{change.count} TaskManagers are there after {seconds:.0f} s, with {fleet.slots} slots"
                )
            self._change, self._failures = None, 0

    def _give_up(self, fleet: TaskManagerFleet, change: _Change) -> None:
        """Go on with the TaskManagers that have come; take back the wish for the others."""
        self._change = None
        kept = max(fleet.own_count, fleet.info.minimum)
        came = {each.taskmanager_id for each in fleet.own}
        late = sorted((fleet.info.taskmanager_ids or frozenset()) - came)
        self._back_off()
        if kept < change.count:
            self.supply.provider.set_desired(kept, late)
        text = (
            f"Only {fleet.own_count} of {change.count} TaskManagers came within {self.supply.rules.ready_timeout:g} s"
        )
        self._add_event(MISSING, f"{text}; going on with them, the next try is in {self._wait():.0f} s", warns=True)

    def _on_failure(self, problem: str, interval: Duration) -> OperationStep:
        if self.clock() >= self._retry_at:
            self._back_off()
        text = f"TaskManagers could not be changed, the next try is in {self._wait():.0f} s: {problem}"
        event = Event(EventType.WARNING, FAILED, text, FAILED, interval)
        return OperationStep(events=(*self._events, event), problem=problem)

    def _back_off(self) -> None:
        wait = min(_MAX_WAIT, _FIRST_WAIT * 2.0**self._failures)
        self._failures += 1
        self._retry_at = self.clock() + wait

    def _wait(self) -> float:
        return max(0.0, self._retry_at - self.clock())

    def _add_event(self, reason: str, text: str, *, warns: bool = False) -> None:
        self._events.append(Event(EventType.WARNING if warns else EventType.NORMAL, reason, text))
