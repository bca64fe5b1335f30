"""Orders of people: what each command makes of those for a job, and how a pass carries out what is done once.

Who gives an order is told at once what the pass would refuse: both ask the same functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from flink_autoscaler.core.decide.slot_sharing import PinnedJob, pin_problems
from flink_autoscaler.core.model.job import JobKey, cluster_of, name_key
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseOrder, PauseScope, Pin, still_to_do
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Origin, Stage, Supervision
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.order_store import CommandResult, OrderStore
from flink_autoscaler.core.rescale.pause import end_pause
from flink_autoscaler.core.rescale.rollback import roll_back_by_order
from flink_autoscaler.core.rescale.transition import SupervisionInput, Transition, run_steps, transition_event

KEPT_MS: Final = 7 * 86_400_000
"""How long an order that is carried out once waits for that: what nobody did in a week is not meant any more."""

_DIRECTIONS: Final = {
    PauseScope.UP: "Scaling up",
    PauseScope.DOWN: "Scaling down",
    PauseScope.BOTH: "Scaling",
}


NEEDS_REASON: Final = frozenset({"pause", "pin", "rollback", "reset"})
"""Orders that are kept with a reason, for those who come later."""

COMMAND_EVENTS: Final = frozenset(
    {"Paused", "Resumed", "Pinned", "Unpinned", "RollbackOrdered", "ResetOrdered", "DryRunOn", "DryRunOff"}
)
"""Reasons of the events that tell of a command."""


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """What a person orders about a job, on the command line or over the API.

    Attributes:
        order: ``pause``, ``resume``, ``pin``, ``unpin``, ``dry-run``, ``live``, ``rollback`` or ``reset``.
        direction: Of a pause.
        lasts_ms: Of a pause, in milliseconds; None lasts until somebody resumes the job.
        vertices: Of a pin: parallelism by pattern; of an unpin: any number, and all pins where it is empty.
        is_forced: Whether to pin although the job cannot have it.
    """

    order: str
    direction: PauseScope = PauseScope.BOTH
    lasts_ms: int | None = None
    vertices: Mapping[str, int] = field(default_factory=dict)
    is_forced: bool = False

    def apply(
        self, orders: Orders, signed: AuditStamp, supervision: Supervision, seen: PinnedJob | None
    ) -> CommandResult:
        """Return what it makes of the orders of a job.

        Args:
            orders: Those of the job.
            signed: Who gives it.
            supervision: What the daemon remembers about the job's rescales.
            seen: The job as its latest recorded pass saw it; None where that does not tell.
        """
        match self.order:
            case "pause":
                return pause_order(orders, signed, direction=self.direction, lasts_ms=self.lasts_ms)
            case "resume":
                return resume_order(orders, signed, supervision)
            case "pin":
                return pin_order(orders, signed, self.vertices, seen, is_forced=self.is_forced)
            case "unpin":
                return unpin_order(orders, signed, list(self.vertices))
            case "rollback":
                return rollback_order(orders, signed, supervision)
            case "reset":
                return reset_order(orders, signed, supervision)
        return dry_run_order(orders, signed, supervision, is_on=self.order == "dry-run")


def apply_command(
    book: OrderStore,
    job_key: JobKey,
    wanted: OperatorCommand,
    signature: tuple[str, str],
    supervision: Supervision,
    seen: PinnedJob | None,
) -> CommandResult:
    """Give an order for a job, signed with the instant of the book.

    Args:
        book: Where it is kept.
        job_key: The job.
        wanted: The order.
        signature: Who gives it, and why.
        supervision: What the daemon remembers about the job's rescales.
        seen: The job as its latest recorded pass saw it; None where that does not tell.

    Raises:
        StoreError: The book does not answer.
    """
    name = name_key(job_key)
    by_name = NO_ORDERS if name == job_key else book.orders(cluster_of(job_key)).get(name, NO_ORDERS)

    def command(orders: Orders, now_ms: int) -> CommandResult:
        done = wanted.apply(orders, AuditStamp(*signature, now_ms), supervision, seen)
        return _with_name_orders(done, name, by_name, now_ms)

    return book.change(job_key, command)


def _with_name_orders(ordered: CommandResult, name: JobKey, orders: Orders, now_ms: int) -> CommandResult:
    """Say what holds for a job by its name, where another order was given for it alone."""
    pause = pause_in_force(orders, now_ms)
    standing = [*([] if pause is None else [pause_text(pause)]), *(f"pin {pin_text(each)}" for each in orders.pins)]
    standing += [] if orders.dry_run is None else [f"dry run, {_by(orders.dry_run)}"]
    if not standing:
        return ordered
    text = f"{ordered.text} (every job named so has an order for {name}: {'; '.join(standing)})"
    return replace(ordered, text=text, is_refused=ordered.is_refused or ordered.reason is None)


def pause_order(orders: Orders, signed: AuditStamp, *, direction: PauseScope, lasts_ms: int | None) -> CommandResult:
    """Leave a job as it is, for a while or until somebody resumes it. Replaces an earlier pause."""
    until_ms = None if lasts_ms is None else signed.at_ms + lasts_ms
    text = f"{_DIRECTIONS[direction]} is paused {_until(until_ms)}, {_by(signed)}"
    before = pause_in_force(orders, signed.at_ms)
    if before is not None:
        text += f" (instead of: {pause_text(before)})"
    return CommandResult(replace(orders, pause=PauseOrder(signed, direction, until_ms)), text, "Paused")


def resume_order(orders: Orders, signed: AuditStamp, supervision: Supervision = NO_SUPERVISION) -> CommandResult:
    """Go on with a job: ends a pause that was ordered, one after a rollback, and the respect for somebody's change.

    Args:
        orders: The orders of the job.
        signed: Who wants it.
        supervision: What the daemon remembers about the job's rescales.
    """
    ended = list(_pauses(orders, signed.at_ms, supervision))
    if not ended:
        return CommandResult(orders, "It is not paused; there is nothing to resume")
    # By the clock of the daemon, which may be ahead: the order has to be the later one.
    begun = [each.since_ms for each in (supervision.pause,) if each is not None]
    begun += [each.at_ms for each in (supervision.edit,) if each is not None]
    text = f"Scaling goes on, {_by(signed)} (ends: {'; '.join(ended)})"
    return CommandResult(replace(orders, pause=None, resumed_ms=max(signed.at_ms, *begun, 0)), text, "Resumed")


def pin_order(
    orders: Orders,
    signed: AuditStamp,
    wanted: Mapping[str, int],
    job: PinnedJob | None = None,
    *,
    is_forced: bool = False,
) -> CommandResult:
    """Keep vertices at a parallelism.

    Args:
        orders: The orders of the job.
        signed: Who wants it.
        wanted: Parallelism by pattern for names or ids of vertices; one that is there already is replaced.
        job: What the job can have; None where that is not known.
        is_forced: Whether a person wants it whatever the job can have.
    """
    kept = tuple(each for each in orders.pins if each.pattern not in wanted)
    new = tuple(Pin(pattern, parallelism, signed) for pattern, parallelism in wanted.items())
    after = replace(orders, pins=(*kept, *new))
    problems = [] if job is None or is_forced else pin_problems(orders, after, job)
    if job is not None and problems:
        text = f"Not pinned: {'; '.join(problems)} (as of {time_text(job.seen_ms)}; --force pins it all the same)"
        return CommandResult(orders, text, is_refused=True)
    unchecked = "" if job is not None or is_forced else " (not checked yet: no pass over the job is recorded)"
    return CommandResult(after, f"Pinned {', '.join(map(pin_text, new))}, {_by(signed)}{unchecked}", "Pinned")


def unpin_order(orders: Orders, signed: AuditStamp, patterns: Collection[str] = ()) -> CommandResult:
    """Give vertices free again; all of them without patterns, which are those that were pinned, to the letter."""
    if not orders.pins:
        return CommandResult(orders, "Nothing is pinned; there is nothing to unpin")
    pinned = [each.pattern for each in orders.pins]
    unknown = [pattern for pattern in patterns if pattern not in pinned]
    if unknown:
        text = f"{_enumerate(unknown)} is not pinned; pinned: {', '.join(map(pin_text, orders.pins))}"
        return CommandResult(orders, text, is_refused=True)
    freed = [each for each in orders.pins if not patterns or each.pattern in patterns]
    kept = tuple(each for each in orders.pins if each not in freed)
    return CommandResult(
        replace(orders, pins=kept), f"Unpinned {', '.join(map(pin_text, freed))}, {_by(signed)}", "Unpinned"
    )


def rollback_order(orders: Orders, signed: AuditStamp, supervision: Supervision) -> CommandResult:
    """Go back to the parallelism before the last rescale, once.

    Args:
        orders: The orders of the job.
        signed: Who wants it.
        supervision: What the daemon remembers about the job's rescales.
    """
    problem = no_rollback(supervision)
    if orders.dry_run is not None:
        problem = f"a dry run is on, {_by(orders.dry_run)}; nothing would be changed"
    if still_to_do(orders.reset, supervision):
        problem = f"a reset is ordered, {_by(orders.reset)}; it forgets the rescale"
    if problem is not None:
        return CommandResult(orders, f"No rollback: {problem}", is_refused=True)
    decided = time_text(supervision.rescales[-1].decided_ms)
    text = (
        f"To be rolled back: the rescale of {decided}, {_by(signed)}; scaling is paused then until somebody resumes it"
    )
    return CommandResult(replace(orders, rollback=_later(orders, signed, supervision)), text, "RollbackOrdered")


def reset_order(orders: Orders, signed: AuditStamp, supervision: Supervision = NO_SUPERVISION) -> CommandResult:
    """Forget what was learned and decided about a job, once. Other orders stay, but for a rollback not done yet."""
    text = f"To be forgotten: everything learned and decided, {_by(signed)}"
    return CommandResult(
        replace(orders, reset=_later(orders, signed, supervision), rollback=None), text, "ResetOrdered"
    )


def dry_run_order(
    orders: Orders, signed: AuditStamp, supervision: Supervision = NO_SUPERVISION, *, is_on: bool
) -> CommandResult:
    """Decide and report, but change nothing, or change things again. A dry run makes a rollback that waits void."""
    before = orders.dry_run
    if not is_on and before is None:
        return CommandResult(orders, "No dry run was ordered; there is nothing to end")
    if is_on and before is not None:
        return CommandResult(orders, f"A dry run is on already, {_by(before)}, since {time_text(before.at_ms)}")
    if is_on:
        text = f"Dry run: the job is watched and nothing is changed, {_by(signed)}"
        if still_to_do(orders.rollback, supervision):
            text += f" (void: the rollback that waits, {_by(orders.rollback)})"
        return CommandResult(replace(orders, dry_run=signed, rollback=None), text, "DryRunOn")
    return CommandResult(replace(orders, dry_run=None), f"The dry run is over, {_by(signed)}", "DryRunOff")


def without_expired(orders: Orders, now_ms: int) -> Orders:
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


def orders_for(job_key: JobKey, other_keys: Iterable[JobKey], book: Mapping[JobKey, Orders], now_ms: int) -> Orders:
    """Orders that hold for a job: an order for a name holds for every job of that name, one with an id follows its job.

    Args:
        job_key: Of the job at present.
        other_keys: That it has had or may get (``JobAutoScalerContext.other_keys``).
        book: Orders by key.
        now_ms: Epoch milliseconds.
    """
    orders = book.get(job_key, NO_ORDERS)
    for key in other_keys:
        if key in book:
            # What is done once is meant for the job that has the name to itself, or had it first.
            other = book[key] if key != name_key(job_key) else replace(book[key], rollback=None, reset=None)
            orders = _join(other, orders, now_ms) if key == name_key(job_key) else _join(orders, other, now_ms)
    return orders


def _join(first: Orders, second: Orders, now_ms: int) -> Orders:
    """Return what two orders for one job come to; of pins that fit the same vertex the second's count."""
    return Orders(
        pause=_join_pauses(pause_in_force(first, now_ms), pause_in_force(second, now_ms)),
        pins=(*first.pins, *second.pins),
        resumed_ms=max((each for each in (first.resumed_ms, second.resumed_ms) if each is not None), default=None),
        rollback=_latest(first.rollback, second.rollback),
        reset=_latest(first.reset, second.reset),
        dry_run=second.dry_run or first.dry_run,
    )


def _join_pauses(first: PauseOrder | None, second: PauseOrder | None) -> PauseOrder | None:
    if first is None or second is None:
        return first or second
    if PauseScope.BOTH in (first.direction, second.direction):
        return first if first.direction is PauseScope.BOTH else second
    ends = [each.until_ms for each in (first, second) if each.until_ms is not None]
    direction = first.direction if first.direction is second.direction else PauseScope.BOTH
    # Whatever lasts longer is found again by the pass after the first end.
    return replace(second, direction=direction, until_ms=min(ends, default=None))


def _latest(first: AuditStamp | None, second: AuditStamp | None) -> AuditStamp | None:
    return max((each for each in (first, second) if each is not None), key=lambda each: each.at_ms, default=None)


def last_known_orders(last: Orders, now_ms: int) -> Orders:
    """Return what counts in a pass that could not read the orders: what was known, and nothing is changed.

    What is to be done once is left out: it may have been taken back.
    """
    unread = AuditStamp("flink-autoscaler", "the orders for this job could not be read", now_ms)
    return replace(last, dry_run=last.dry_run or unread, rollback=None, reset=None, resumed_ms=None)


def pause_in_force(orders: Orders, now_ms: int) -> PauseOrder | None:
    """Return the pause, in whatever direction, unless it is over."""
    return orders.pause_for(PauseScope.UP, now_ms) or orders.pause_for(PauseScope.DOWN, now_ms)


def no_rollback(supervision: Supervision) -> str | None:
    """Return why there is no rescale that a person may have undone, for people; None when there is one."""
    *earlier, last = (None, *supervision.rescales)
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
    # Such as a decision that the user's own override kept from doing anything.
    return None if last.changed & last.before.keys() else f"{what} changed nothing"


def apply_orders(state: JobState, given: SupervisionInput) -> Transition:
    """Carry out what people ordered once and for all."""
    if not given.request.orders.has_single:
        return Transition(state)
    return run_steps(state, given, (_apply_resume, _apply_reset, _apply_rollback))


def apply_unfollowed(state: JobState, given: SupervisionInput) -> Transition:
    """Carry out the same where rescales are not followed: a rollback cannot be seen to its end, and is refused."""
    return run_steps(state, given, (_apply_resume, _apply_reset, _refuse_rollback))


def _refuse_rollback(state: JobState, given: SupervisionInput) -> Transition:
    order = given.request.orders.rollback
    if not still_to_do(order, state.supervision):
        return Transition(state)
    state = replace(state, supervision=replace(state.supervision, obeyed_ms=order.at_ms))
    option = AutoscalerOptions.supervised_rescales.key
    text = f"{order.who} wanted a rollback, but rescales of this job are not followed: {option} is off"
    return Transition(state, (transition_event("RollbackImpossible", text, warns=True),))


def _apply_resume(state: JobState, given: SupervisionInput) -> Transition:
    supervision, resumed_ms = state.supervision, given.request.orders.resumed_ms
    if resumed_ms is None:
        return Transition(state)
    if supervision.edit is not None and supervision.edit.at_ms <= resumed_ms:
        state = replace(state, supervision=replace(supervision, edit=None))
    if supervision.pause is not None and supervision.pause.since_ms <= resumed_ms:
        return end_pause(state, given, "somebody ordered it")
    return Transition(state)


def _apply_reset(state: JobState, given: SupervisionInput) -> Transition:
    order = given.request.orders.reset
    if not still_to_do(order, state.supervision):
        return Transition(state)
    supervision = Supervision(obeyed_ms=order.at_ms, heard_ms=state.supervision.heard_ms)
    text = f"{order.who} had everything forgotten about the job: {order.reason}"
    return Transition(
        JobState(given.request.state.job_id, supervision=supervision), (transition_event("StateReset", text),)
    )


def _apply_rollback(state: JobState, given: SupervisionInput) -> Transition:
    order = given.request.orders.rollback
    if not still_to_do(order, state.supervision):
        return Transition(state)
    state = replace(state, supervision=replace(state.supervision, obeyed_ms=order.at_ms))
    if no_rollback(state.supervision) is None:
        return roll_back_by_order(state, given, order.who)
    text = f"{order.who} wanted a rollback, but there is no rescale to undo"
    return Transition(state, (transition_event("RollbackImpossible", text, warns=True),))


def pause_text(order: PauseOrder) -> str:
    """Describe a pause for people."""
    return f"{_DIRECTIONS[order.direction].lower()} paused {_until(order.until_ms)}, {_by(order.signed)}"


def pin_text(order: Pin) -> str:
    """Describe a pin as it is written on the command line."""
    return f"{order.pattern}={order.parallelism}"


def time_text(at_ms: int) -> str:
    """Write an instant for people; everybody who reads it may be in another time zone."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _pauses(orders: Orders, now_ms: int, supervision: Supervision) -> Iterator[str]:
    """Yield everything that resuming ends."""
    ordered = pause_in_force(orders, now_ms)
    if ordered is not None:
        yield pause_text(ordered)
    if supervision.pause is not None:
        yield f"paused since {time_text(supervision.pause.since_ms)}: {supervision.pause.text}"
    if supervision.edit is not None:
        yield f"suspended because its requirements were changed from outside at {time_text(supervision.edit.at_ms)}"


def _later(orders: Orders, signed: AuditStamp, supervision: Supervision) -> AuditStamp:
    """Sign later than everything that was done or ordered before: the daemon does what is later than that."""
    before = [supervision.obeyed_ms, *(each.at_ms for each in (orders.rollback, orders.reset) if each is not None)]
    return replace(signed, at_ms=max(signed.at_ms, *(at_ms + 1 for at_ms in before)))


def _since(signed: AuditStamp | None, oldest_ms: int) -> AuditStamp | None:
    return None if signed is None or signed.at_ms < oldest_ms else signed


def _until(until_ms: int | None) -> str:
    return "until somebody resumes it" if until_ms is None else f"until {time_text(until_ms)}"


def _by(signed: AuditStamp) -> str:
    return f"by {signed.who}: {signed.reason}" if signed.reason else f"by {signed.who}"


def _enumerate(texts: Iterable[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)
