"""The book of orders: what each command of a person makes of them, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders, PauseOrder, PauseScope, Pin, Signed
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Origin, RescaleRecord, Stage, Supervision

KEPT_MS: Final = 7 * 86_400_000
"""How long an order that is carried out once waits for that: what nobody did in a week is not meant any more."""

_DIRECTIONS: Final = {
    PauseScope.UP: "Scaling up",
    PauseScope.DOWN: "Scaling down",
    PauseScope.BOTH: "Scaling",
}


@dataclass(frozen=True, slots=True)
class Ordered:
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


Command = Callable[[Orders, int], Ordered]
"""Takes the orders of a job and the instant, epoch milliseconds; may be called several times, so it changes nothing."""


class OrderBook(Protocol):
    """Keeps the orders of all jobs.

    Calls for different clusters may come from different threads. Implementations raise :class:`StoreError` and nothing
    else.
    """

    def orders(self, cluster: str) -> Mapping[JobKey, Orders]:
        """Return the orders for jobs of a cluster, only for jobs that have any. Called once per pass; only reads.

        Jobs whose keys do not name a cluster are in the answer for every cluster.
        """
        ...

    def change(self, job_key: JobKey, command: Command) -> Ordered:
        """Apply a command to the orders of one job; of commands that come at the same time none gets lost."""
        ...

    def tidy(self, cluster: str, now_ms: int) -> None:
        """Remove what is over from the orders that were read last. Called in every pass of a daemon that acts."""
        ...

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the orders for jobs whose state is deleted. Unknown ones do nothing."""
        ...


def pause(orders: Orders, signed: Signed, *, direction: PauseScope, lasts_ms: int | None) -> Ordered:
    """Leave a job as it is, for a while or until somebody resumes it. Replaces an earlier pause."""
    until_ms = None if lasts_ms is None else signed.at_ms + lasts_ms
    text = f"{_DIRECTIONS[direction]} is paused {_until(until_ms)}, {_by(signed)}"
    before = pause_in_force(orders, signed.at_ms)
    if before is not None:
        text += f" (instead of: {pause_text(before)})"
    return Ordered(replace(orders, pause=PauseOrder(signed, direction, until_ms)), text, "Paused")


def resume(orders: Orders, signed: Signed, supervision: Supervision = NO_SUPERVISION) -> Ordered:
    """Go on with a job: ends a pause that was ordered, one after a rollback, and the respect for somebody's change.

    Args:
        orders: The orders of the job.
        signed: Who wants it.
        supervision: What the daemon remembers about the job's rescales.
    """
    ended = list(_pauses(orders, signed.at_ms, supervision))
    if not ended:
        return Ordered(orders, "It is not paused; there is nothing to resume")
    # By the clock of the daemon, which may be ahead: the order has to be the later one.
    begun = [each.since_ms for each in (supervision.pause,) if each is not None]
    begun += [each.at_ms for each in (supervision.edit,) if each is not None]
    text = f"Scaling goes on, {_by(signed)} (ends: {'; '.join(ended)})"
    return Ordered(replace(orders, pause=None, resumed_ms=max(signed.at_ms, *begun, 0)), text, "Resumed")


def pin(orders: Orders, signed: Signed, wanted: Mapping[str, int]) -> Ordered:
    """Keep vertices at a parallelism.

    Args:
        orders: The orders of the job.
        signed: Who wants it.
        wanted: Parallelism by pattern for names or ids of vertices; one that is there already is replaced.
    """
    kept = tuple(each for each in orders.pins if each.pattern not in wanted)
    new = tuple(Pin(pattern, parallelism, signed) for pattern, parallelism in wanted.items())
    text = f"Pinned {', '.join(map(pin_text, new))}, {_by(signed)}"
    return Ordered(replace(orders, pins=(*kept, *new)), text, "Pinned")


def unpin(orders: Orders, signed: Signed, patterns: Collection[str] = ()) -> Ordered:
    """Give vertices free again; all of them without patterns, which are those that were pinned, to the letter."""
    if not orders.pins:
        return Ordered(orders, "Nothing is pinned; there is nothing to unpin")
    pinned = [each.pattern for each in orders.pins]
    unknown = [pattern for pattern in patterns if pattern not in pinned]
    if unknown:
        text = f"{_listed(unknown)} is not pinned; pinned: {', '.join(map(pin_text, orders.pins))}"
        return Ordered(orders, text, is_refused=True)
    freed = [each for each in orders.pins if not patterns or each.pattern in patterns]
    kept = tuple(each for each in orders.pins if each not in freed)
    return Ordered(replace(orders, pins=kept), f"Unpinned {', '.join(map(pin_text, freed))}, {_by(signed)}", "Unpinned")


def rollback(orders: Orders, signed: Signed, supervision: Supervision) -> Ordered:
    """Go back to the parallelism before the last rescale, once.

    Args:
        orders: The orders of the job.
        signed: Who wants it.
        supervision: What the daemon remembers about the job's rescales.
    """
    problem = no_rollback(supervision)
    if orders.dry_run is not None:
        problem = f"a dry run is on, {_by(orders.dry_run)}; nothing would be changed"
    if problem is not None:
        return Ordered(orders, f"No rollback: {problem}", is_refused=True)
    decided = time_text(_records(supervision)[-1].decided_ms)
    text = (
        f"To be rolled back: the rescale of {decided}, {_by(signed)}; scaling is paused then until somebody resumes it"
    )
    return Ordered(replace(orders, rollback=_later(orders, signed, supervision)), text, "RollbackOrdered")


def reset(orders: Orders, signed: Signed, supervision: Supervision = NO_SUPERVISION) -> Ordered:
    """Forget what was learned and decided about a job, once. Other orders stay, but for a rollback not done yet."""
    text = f"To be forgotten: everything learned and decided, {_by(signed)}"
    return Ordered(replace(orders, reset=_later(orders, signed, supervision), rollback=None), text, "ResetOrdered")


def dry_run(orders: Orders, signed: Signed, *, is_on: bool) -> Ordered:
    """Decide and report, but change nothing, from now on; or change things again."""
    before = orders.dry_run
    if not is_on and before is None:
        return Ordered(orders, "No dry run was ordered; there is nothing to end")
    if is_on and before is not None:
        return Ordered(orders, f"A dry run is on already, {_by(before)}, since {time_text(before.at_ms)}")
    if is_on:
        text = f"Dry run: the job is watched and nothing is changed, {_by(signed)}"
        return Ordered(replace(orders, dry_run=signed), text, "DryRunOn")
    return Ordered(replace(orders, dry_run=None), f"The dry run is over, {_by(signed)}", "DryRunOff")


def settled(orders: Orders, now_ms: int) -> Orders:
    """Return what is left of orders: without a pause that is over, and without what waited for too long."""
    oldest_ms = now_ms - KEPT_MS
    resumed_ms = orders.resumed_ms
    return replace(
        orders,
        pause=pause_in_force(orders, now_ms),
        resumed_ms=None if resumed_ms is None or resumed_ms < oldest_ms else resumed_ms,
        rollback=_since(orders.rollback, oldest_ms),
        reset=_since(orders.reset, oldest_ms),
    )


def held(last: Orders, now_ms: int) -> Orders:
    """Return what counts in a pass that could not read the orders: what was known, and nothing is changed.

    What is to be done once is left out: it may have been taken back.
    """
    unread = Signed("flink-autoscaler", "the orders for this job could not be read", now_ms)
    return replace(last, dry_run=last.dry_run or unread, rollback=None, reset=None, resumed_ms=None)


def pause_in_force(orders: Orders, now_ms: int) -> PauseOrder | None:
    """Return the pause, in whatever direction, unless it is over."""
    return orders.paused(PauseScope.UP, now_ms) or orders.paused(PauseScope.DOWN, now_ms)


def still_to_do(order: Signed | None, supervision: Supervision) -> bool:
    """Tell whether an order that is carried out once has not been yet."""
    return order is not None and order.at_ms > supervision.obeyed_ms


def no_rollback(supervision: Supervision) -> str | None:
    """Return why there is no rescale to undo, for people; None when there is one."""
    *earlier, last = (None, *_records(supervision))
    if last is None:
        return "no rescale is remembered that could be undone"
    what = f"the last rescale, of {time_text(last.decided_ms)},"
    before = earlier[-1]
    if last.origin is Origin.ROLLBACK or (before is not None and before.reverted and before.target == last.before):
        return f"{what} was a rollback already ({last.reason})"
    if last.reverted:
        return f"{what} was undone already"
    if last.stage is Stage.REFUSED:
        return f"{what} did not happen ({last.reason})"
    if supervision.initial and supervision.initial.keys() != last.target.keys():
        return f"{what} was of another job graph"
    return None


def pause_text(order: PauseOrder) -> str:
    """Describe a pause for people."""
    return f"{_DIRECTIONS[order.direction].lower()} paused {_until(order.until_ms)}, {_by(order.signed)}"


def pin_text(order: Pin) -> str:
    """Describe a pin as it is written on the command line."""
    return f"{order.pattern}={order.parallelism}"


def time_text(at_ms: int) -> str:
    """Write an instant for people; everybody who reads it may be in another time zone."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _records(supervision: Supervision) -> tuple[RescaleRecord, ...]:
    return supervision.past if supervision.current is None else (*supervision.past, supervision.current)


def _pauses(orders: Orders, now_ms: int, supervision: Supervision) -> Iterator[str]:
    """Yield everything that resuming ends."""
    ordered = pause_in_force(orders, now_ms)
    if ordered is not None:
        yield pause_text(ordered)
    if supervision.pause is not None:
        yield f"paused since {time_text(supervision.pause.since_ms)}: {supervision.pause.text}"
    if supervision.edit is not None:
        yield f"left alone because somebody else changed its requirements at {time_text(supervision.edit.at_ms)}"


def _later(orders: Orders, signed: Signed, supervision: Supervision) -> Signed:
    """Sign later than everything that was done or ordered before: the daemon does what is later than that."""
    before = [supervision.obeyed_ms, *(each.at_ms for each in (orders.rollback, orders.reset) if each is not None)]
    return replace(signed, at_ms=max(signed.at_ms, *(at_ms + 1 for at_ms in before)))


def _since(signed: Signed | None, oldest_ms: int) -> Signed | None:
    return None if signed is None or signed.at_ms < oldest_ms else signed


def _until(until_ms: int | None) -> str:
    return "until somebody resumes it" if until_ms is None else f"until {time_text(until_ms)}"


def _by(signed: Signed) -> str:
    return f"by {signed.who}: {signed.reason}" if signed.reason else f"by {signed.who}"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)


__all__ = [
    "KEPT_MS",
    "NO_ORDERS",
    "Command",
    "OrderBook",
    "Ordered",
    "dry_run",
    "held",
    "no_rollback",
    "pause",
    "pause_in_force",
    "pause_text",
    "pin",
    "pin_text",
    "reset",
    "resume",
    "rollback",
    "settled",
    "still_to_do",
    "time_text",
    "unpin",
]
