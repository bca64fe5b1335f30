"""``slo``: the cheapest parallelism that keeps the lag acceptable.

Once a pass it reckons what arrives from the counters of the latest sample, forecasts it in several ways that are
trusted by how well they did lately, prices every size of the job in slot-seconds (slots, lateness, rescales) and goes
where that is least: up when that is confirmed, down when waiting has cost enough. There is no utilization target, no
metric window and no timer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, Outage, PolicyInput, Proposal
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import (
    METRIC_MISSING,
    abstention,
    direction_of,
    missing,
    not_usable,
)
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.slo.acting import Acting, Moment, price_down
from flink_autoscaler.core.policies.slo.budget import NEARLY_USED, NOTHING_USED, Budget, Restart
from flink_autoscaler.core.policies.slo.explained import (
    cost_reasons,
    floor_reason,
    forecast_reason,
    limited_reason,
    noise_reason,
    outcome_reason,
    price_reason,
    quiet_reason,
    size_reason,
)
from flink_autoscaler.core.policies.slo.lateness import LagTerms, Spread
from flink_autoscaler.core.policies.slo.learning import Learned, expected, learn
from flink_autoscaler.core.policies.slo.levels import deviation_of, levels, most_usable, present
from flink_autoscaler.core.policies.slo.model import Level, Noise, Seen, seen
from flink_autoscaler.core.policies.slo.price import Prices, downs_of_a_day, mean_slots, rescales_of_the_day
from flink_autoscaler.core.policies.slo.programme.choices import COMMIT, reach
from flink_autoscaler.core.policies.slo.programme.value import Outlook, Valuation, valued
from flink_autoscaler.core.policies.slo.replayed import DELAY, NOTHING_REPLAYED, WILD, Replayed, share_at
from flink_autoscaler.core.policies.slo.restarts import NO_RESTARTS, Restarts
from flink_autoscaler.core.policies.slo.state import Graph, SloState
from flink_autoscaler.core.policies.slo.turns import patience, reversals

LEAST_MINUTES: Final = 2
"""Of history, before anything is said."""
_SPARE: Final = 1.1
"""Times the greatest demand of an hour: there the capacity has to be known."""
MOST_REVERSALS: Final = 3
"""Within a day; a job that had more of them and is late is not made smaller than the last days allow."""
MOST_HELD: Final = 5.0
"""Times the demand of the last day: more than that is held for bursts, and does not make the next ones dearer."""
_GREATEST_OUTAGE: Final = 3600.0
_LEARNING: Final = Reason("SLO_LEARNING", "a few minutes of samples are needed before anything can be said")


@quick
@dataclass(frozen=True, slots=True)
class Memory:
    """What is handed back in the next pass.

    Attributes:
        learned: Of the load and of the capacity.
        acting: What evaluations have called for.
        mean: Slots that the job has held lately; None at first.
        budget: How late it has been lately.
        replayed: How late it would have been with other head-rooms.
        restarts: What they went back to.
    """

    learned: SloState
    acting: Acting
    mean: float | None = None
    budget: Budget = NOTHING_USED
    replayed: Replayed = NOTHING_REPLAYED
    restarts: Restarts = NO_RESTARTS

    @classmethod
    def read(cls, stored: Mapping[str, Any], now: Seen) -> Memory:
        """Read what :meth:`as_json` wrote; what cannot be read is forgotten."""
        mean = stored.get("mean")
        is_known = isinstance(mean, float) and 0.0 < mean < math.inf
        learned = SloState.read(stored.get("learned"), Graph.of(now))
        budget = Budget.read(stored.get("budget"))
        replayed = Replayed.read(stored.get("replayed"))
        acting, restarts = Acting.read(stored.get("acting")), Restarts.read(stored.get("restarts"))
        return cls(learned, acting, mean if is_known else None, budget, replayed, restarts)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "learned": self.learned.as_json(),
            "acting": self.acting.as_json(),
            "mean": self.mean,
            "budget": self.budget.as_json(),
            "replayed": self.replayed.as_json(),
            "restarts": self.restarts.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All sizes compared.

    Attributes:
        moment: The job.
        outlook: What was weighed.
        noise: Of demand.
        deviation: How far the capacity is known that will soon be needed.
        valuation: What it came to.
        acting: What this evaluation and those before call for.
        price: What has to be forgone before a scale-down.
        wanted: Slots to go to now; None to stay.
        least: Slots below which the job is not made smaller although that is cheaper; 0 where nothing is kept.
    """

    moment: Moment
    outlook: Outlook
    noise: Noise
    deviation: float
    valuation: Valuation
    acting: Acting
    price: float
    wanted: int | None
    least: int = 0

    @property
    def target(self) -> Level:
        """The size to go to now, which may be the present one."""
        sizes = self.outlook.levels
        return self.outlook.present if self.wanted is None else sizes.level(sizes.index(self.wanted))

    def reasons(self) -> Iterator[Reason]:
        """Yield why, what came of it first."""
        outlook = self.outlook
        if self.valuation.best != self.moment.slots or not self.least:
            yield outcome_reason(self.acting, self.moment, self.valuation, self.price, outlook.terms.limit)
        if self.least:
            yield floor_reason(self.least, self.moment.slots)
        if outlook.levels.is_limited and self.moment.demand > outlook.levels.capacities[-1]:
            yield limited_reason(self.moment, outlook.levels.capacities[-1])
        yield size_reason(self.moment)
        yield forecast_reason(outlook.forecasts)
        yield from cost_reasons(self.valuation, self.moment.slots)
        yield noise_reason(self.noise, self.deviation)
        yield price_reason(outlook.prices, outlook.terms)


class SloPolicy:
    """Goes where slots, lateness and rescales together cost least."""

    name = "slo"
    needs_no_window = True

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        options, now = AutoscalerOptions.of(given.config), seen(given)
        if now is None or _why_not(given.obs, now):
            return abstention(self.name, _why_not(given.obs, now), given.state)
        memory = Memory.read(given.state, now)
        known = learn(memory.learned, now)
        memory = replace(memory, learned=known.state)
        size = present(known.seen.vertices, known.strengths)
        moment = _moment(known, size, given.obs.now)
        if moment is None:
            return abstention(self.name, (_LEARNING,), memory.as_json())
        limit, replayed = options.slo_lag.exact_seconds, memory.replayed
        restart = _restart(memory, known, moment, given.downtime.replay)
        budget = memory.budget.after(moment.at, moment.lag, limit, restart)
        if known.is_new:
            foreseen, mean = known.state.foreseen_in(DELAY) or moment.demand, known.state.history.day_mean
            short = moment.capacity if budget.is_short else 0.0
            replayed = replayed.after(moment.at, moment.demand, foreseen, mean, limit, short)
        memory = replace(memory, budget=budget, replayed=replayed, restarts=_restarts(memory.restarts, known))
        if memory.acting.is_quiet(moment, known.noise.s, limit):
            reasons = (quiet_reason(memory.acting, moment), size_reason(moment))
            return self._proposal(given.obs, size, reasons, memory)
        known = expected(known)
        memory = replace(memory, learned=known.state)
        size = present(known.seen.vertices, known.strengths)
        return self._evaluated(given, known, size, moment, memory, options)

    def _evaluated(
        self,
        given: PolicyInput,
        known: Learned,
        size: Level,
        moment: Moment,
        memory: Memory,
        options: AutoscalerOptions,
    ) -> Proposal:
        """Compare all sizes, and go to the cheapest one when it is time."""
        elapsed = moment.at - (moment.at if memory.acting.at is None else memory.acting.at)
        memory = replace(memory, mean=mean_slots(memory.mean, size.slots, elapsed))
        evaluation = _evaluation(given, known, size, moment, memory, options)
        if evaluation is None:
            return abstention(self.name, (_LEARNING,), memory.as_json())
        memory = replace(memory, acting=evaluation.acting)
        target = one_way(evaluation.target, size, known.seen)
        return self._proposal(given.obs, target, evaluation.reasons(), memory)

    def _proposal(self, obs: JobObservation, size: Level, reasons: Iterable[Reason], memory: Memory) -> Proposal:
        targets = {v: subtasks(each, obs.vertices[v]) for v, each in size.parallelism.items() if v in obs.vertices}
        capacity = {v: size.capacity * rate for v, rate in memory.learned.mix.items() if v in targets}
        direction = direction_of(obs, targets)
        return Proposal(self.name, targets, direction, capacity, 1.0, tuple(reasons), state=memory.as_json())


def one_way(target: Level, size: Level, now: Seen) -> Level:
    """Return a size to go to in which no vertex goes the other way where that saves no slot.

    Args:
        target: The size.
        size: The present one.
        now: The job.
    """
    if target.capacity <= size.capacity:  # what each vertex has is enough for less
        kept = {v: min(each, size.parallelism.get(v, each)) for v, each in target.parallelism.items()}
        return replace(target, parallelism=kept)
    slots: dict[str, int] = {}
    for v, each in target.parallelism.items():
        group = now.vertices[v].slot_group
        slots[group] = max(slots.get(group, 0), each)
    kept = {
        v: max(
            each, most_usable(now.vertices[v], min(size.parallelism.get(v, each), slots[now.vertices[v].slot_group]))
        )
        for v, each in target.parallelism.items()
    }
    return replace(target, parallelism=kept)


def _why_not(obs: JobObservation, now: Seen | None) -> tuple[Reason, ...]:
    """Return why nothing can be learned from a pass; empty when something can."""
    if reasons := not_usable(obs):
        return reasons
    if now is None:
        return (Reason(METRIC_MISSING, "there is no sample of all running vertices yet"),)
    return tuple(
        missing(obs.vertices[vertex_id], "counter of records read")
        for vertex_id, vertex in now.vertices.items()
        if vertex.is_source and vertex.records_in is None
    )


def _moment(known: Learned, size: Level, at: float) -> Moment | None:
    """Return the job as it is now; None where too little is known of it."""
    demand, foreseen = known.demand, known.state.foreseen_now
    is_known = len(known.state.history.minutes) >= LEAST_MINUTES and 0.0 < size.capacity < math.inf
    if demand is None or not is_known:
        return None
    return Moment(
        at=at,
        slots=size.slots,
        capacity=size.capacity,
        demand=demand,
        lag=None if known.is_blind else known.backlog / demand,
        expected=demand if foreseen is None else foreseen,
        since=known.state.history.since,
    )


def _evaluation(
    given: PolicyInput, known: Learned, size: Level, moment: Moment, memory: Memory, options: AutoscalerOptions
) -> Evaluation | None:
    """Compare all sizes; None where there are none, or nothing to expect."""
    forecasts, strong = known.forecasts, known.strengths
    if forecasts is None:
        return None
    replay = memory.restarts.age(given.downtime.replay)
    terms = _terms(replace(given.downtime, replay=replay), options.slo_lag.exact_seconds)
    kept = _kept(given, known, memory, terms.turn, options.slo_error_budget)
    lowest, highest = reach(forecasts)
    sizes = levels(known.seen.vertices, strong, (lowest, max(highest, kept)))
    if sizes is None:
        return None
    deviation = deviation_of(strong)(sizes.next_to(_SPARE * max(forecasts.mixed[:COMMIT])))
    usual = _usual(memory.mean or float(size.slots), known)
    prices = _prices(given, moment, memory.budget, usual, forecasts.mixed, options)
    spread = Spread.of(known.noise, deviation, memory.replayed.shares)
    outlook = Outlook(sizes, size, forecasts, spread, terms, prices, known.backlog)
    valuation, least = valued(outlook), sizes.next_to(kept).slots if kept else 0
    is_held = valuation.best < min(least, size.slots)
    if is_held:
        valuation = replace(valuation, best=min(least, size.slots))
    acting = memory.acting.evaluated(moment, valuation.best)
    price = price_down(acting, moment, sizes.capacities[sizes.index(acting.target)], terms, prices)
    wanted = acting.wanted(moment, price, terms.limit)
    acting = replace(acting, is_due=wanted is not None)
    held = least if is_held else 0
    return Evaluation(moment, outlook, known.noise, deviation, valuation, acting, price, wanted, held)


def _prices(
    given: PolicyInput,
    moment: Moment,
    budget: Budget,
    usual: float,
    mixed: Sequence[float],
    options: AutoscalerOptions,
) -> Prices:
    """Return the prices by what the day has had of rescales, and the last days of lateness."""
    recent = rescales_of_the_day([past.at for past in given.history], moment.at)
    prices = Prices.of(options, usual, mixed, recent, budget, downs_of_a_day(options.rescales_per_day))
    return replace(prices, patience=patience(prices.patience, given.history, moment.at))


def _usual(held: float, known: Learned) -> float:
    """Return the slots by which prices go: what the job has held lately, as far as it is not held for bursts."""
    demand = known.state.history.day_mean
    return max(min(held, MOST_HELD * demand), demand) if demand > 0.0 else held


def _kept(given: PolicyInput, known: Learned, memory: Memory, turn: float, allowed: float) -> float:
    """Return the capacity below which a job that is late whatever is foreseen is not made smaller; 0 for all others.

    A load that comes out of nothing cannot be followed: what is saved between two bursts, the next one costs. A job of
    such a load is held from the first; one that only turns often, when its budget is nearly used; and one that grows
    faster than it can be followed when what is left of the budget does not pay for a rescale and its undoing.

    Args:
        given: With the rescales before.
        known: Of the load.
        memory: Of lateness.
        turn: Seconds that such two rescales make the job late.
        allowed: Share of the time that the job may be late.
    """
    budget, replayed = memory.budget, memory.replayed
    is_turning = reversals(given.history, given.obs.now) > MOST_REVERSALS and budget.factor(allowed) >= NEARLY_USED
    is_wild = share_at(replayed.shares, WILD) > allowed
    is_spent = replayed.is_sudden and not budget.pays_for(turn, allowed)
    if not (is_turning or is_wild or is_spent):
        return 0.0
    return replayed.capacity_kept(known.state.history.day_mean, budget.left(allowed))


def _restart(memory: Memory, known: Learned, moment: Moment, replay: float) -> Restart | None:
    """Return the restart since the last pass, with the lag right after it; None for none.

    What was processed since then and what waits now is what waited then and what has come since then.
    """
    last, until = memory.budget.at, known.seen.execution
    if last is None or not last < until < moment.at or moment.lag is None or (processed := known.processed) is None:
        return None
    again, interval = memory.restarts.age(replay), known.restarted or moment.at - last
    demand = moment.demand * interval / (interval + again)  # what is read again seems to arrive again
    lag = moment.lag + processed / demand - (moment.at - until)
    return Restart(until, max(lag, 0.0), again, moment.capacity / demand - 1.0)


def _restarts(restarts: Restarts, known: Learned) -> Restarts:
    """Return what restarts have shown, after a pass."""
    if not known.is_new or known.demand is None:
        return restarts
    if known.restarted:
        minutes, length = known.state.history.minutes, round(known.restarted / 60.0)
        is_known = 0 < length < len(minutes) and not known.is_blind
        before = minutes[-1 - length] if is_known else None
        return restarts.begun(known.restarted, known.demand, before)
    return restarts if restarts.last is None else restarts.after(known.demand, known.noise.s)


def _terms(outage: Outage, limit: float) -> LagTerms:
    return LagTerms(limit, min(max(outage.mean, 0.0), _GREATEST_OUTAGE), min(max(outage.replay, 0.0), _GREATEST_OUTAGE))
