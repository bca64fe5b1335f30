"""``slo``: the fewest slots with which a job is late for no more than its error budget.

Once a pass it reckons what arrives from the counters of the latest sample, forecasts it, and plans the size: slots,
expected shortage and rescales against each other, as carefully as what was used of the error budget calls for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.policy_study.candidate.codec import decode, encode
from benchmarks.policy_study.candidate.demand import Demand, DemandState, observe
from benchmarks.policy_study.candidate.error_budget import ErrorBudget
from benchmarks.policy_study.candidate.forecasters import Forecast, ForecastScores, LoadHistory, forecast, learn
from benchmarks.policy_study.candidate.planner import ActionSet, Plan, Planner, SwitchingCosts
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import METRIC_MISSING, abstention, direction_of, missing, not_usable
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.slo.budget import Restart
from flink_autoscaler.core.policies.slo.lateness import Change, LagTerms, fluid
from flink_autoscaler.core.policies.slo.learning import cleaned
from flink_autoscaler.core.policies.slo.levels import levels, present
from flink_autoscaler.core.policies.slo.model import Level, Seen, seen
from flink_autoscaler.core.policies.slo.policy import one_way
from flink_autoscaler.core.policies.slo.restarts import NO_RESTARTS, Restarts
from flink_autoscaler.core.policies.slo.state import Graph

_DAY: Final = 86400.0
_MAX_OUTAGE: Final = 3600.0
_LEARNING: Final = Reason("SLO_LEARNING", "a few minutes of samples are needed before anything can be said")


@quick
@dataclass(frozen=True, slots=True)
class ActConstants:
    """What was chosen.

    Attributes:
        ups: Evaluations in a row that have to call for more.
        downs: Evaluations in a row that have to call for less.
        patience: Share of the price of a scale-down that has to be forgone before it.
        price_up: Of a scale-up besides its outage, seconds of the size that the job then has.
        price_down: The same of a scale-down.
        late_price: Of a second above the acceptable lag, seconds of the usual size.
        quiet: Seconds after which a quiet job is evaluated again.
        quiet_error: Share by which the load of a quiet job may be off what is expected.
        quiet_load: Share of the capacity below which the load of a quiet job lies.
        quiet_lag: Share of the acceptable lag that may wait.
        calm_lag: The same for a scale-down.
        noise: Of the load within minutes, relative to it, by which the age of checkpoints is told from it.
        kept: Share of what was forgone, and of a larger size that was called for, that a minute leaves.
    """

    ups: int = 2
    downs: int = 3
    patience: float = 0.35
    price_up: float = 300.0
    price_down: float = 300.0
    late_price: float = 15.0
    quiet: float = 300.0
    quiet_error: float = 0.06
    quiet_load: float = 0.97
    quiet_lag: float = 0.2
    calm_lag: float = 0.5
    noise: float = 0.03
    kept: float = 0.9


CONSTANTS: Final = ActConstants()


@quick
@dataclass(frozen=True, slots=True)
class Intent:
    """What evaluations have called for since the last rescale.

    Attributes:
        at: Of the last evaluation, epoch seconds; None before the first.
        slots: What the job held then.
        ups: Evaluations in a row that called for more.
        downs: Evaluations in a row that called for less.
        forgone: Slot-seconds that could have been saved.
        target: Greatest of the smaller sizes that were called for lately, 0 for none; it fades to the last one.
    """

    at: float | None = None
    slots: int = 0
    ups: int = 0
    downs: int = 0
    forgone: float = 0.0
    target: float = 0.0

    def after(self, at: float, slots: int, best: int) -> Intent:
        """Return it after an evaluation; after a rescale only of this one."""
        ups, downs = int(best > slots), int(best < slots)
        if self.at is None or self.slots != slots:
            return Intent(at, slots, ups, downs, 0.0, float(best) if downs else 0.0)
        elapsed = min(max(at - self.at, 0.0), 2 * CONSTANTS.quiet)
        kept = CONSTANTS.kept ** (elapsed / 60.0)
        if downs:
            target = best + kept * max(self.target - best, 0.0)
            return Intent(at, slots, 0, self.downs + 1, self.forgone + elapsed * (slots - best), target)
        forgone = max(self.forgone * kept - elapsed, 0.0)
        return Intent(at, slots, self.ups + 1 if ups else 0, 0, forgone, self.target if forgone else 0.0)


@quick
@dataclass(frozen=True, slots=True)
class SloMemory:
    """What is handed back in the next pass.

    Attributes:
        graph: Marks of the vertices and of the sources that it is about.
        demand: Of capacities and counters.
        history: Of the load.
        scores: Of the forecasters.
        blend: What was expected of the hour after the last forecast, by bucket.
        said_at: When that was, epoch seconds.
        budget: How late the job has been.
        restarts: What they went back to.
        intent: What evaluations have called for.
        mean: Slots that the job has held lately; 0 at first.
    """

    graph: tuple[int, ...] = ()
    demand: DemandState = field(default_factory=DemandState)
    history: LoadHistory = field(default_factory=LoadHistory)
    scores: ForecastScores = field(default_factory=ForecastScores)
    blend: tuple[float, ...] = ()
    said_at: float = 0.0
    budget: ErrorBudget = field(default_factory=ErrorBudget)
    restarts: Restarts = NO_RESTARTS
    intent: Intent = field(default_factory=Intent)
    mean: float = 0.0

    def expected(self, at: float) -> float | None:
        """Return the load that was expected of an instant; None where nothing was."""
        place = (at - self.said_at) / 300.0
        return self.blend[int(place)] if 0.0 <= place < len(self.blend) else None


def read_memory(stored: object, now: Seen) -> SloMemory:
    """Return what was remembered; nothing where it cannot be read, and of another graph only what is still true."""
    graph = Graph.of(now)
    marks = (graph.mark, graph.mark_of_sources)
    try:
        memory = decode(SloMemory, stored)
    except ValueError:
        return SloMemory(marks)
    if memory.graph == marks:
        return memory
    if memory.graph[-1:] != marks[-1:]:
        return SloMemory(marks)
    return SloMemory(marks, history=replace(memory.history, minutes=(), filling=0), budget=memory.budget)


@dataclass(frozen=True, slots=True)
class Situation:
    """The job in a pass.

    Attributes:
        at: Epoch seconds.
        load: What arrives, slot equivalents.
        lag: Seconds; None where it is not known.
        size: What it has.
    """

    at: float
    load: float
    lag: float | None
    size: Level


class NextSloPolicy:
    """Goes where slots, expected shortage and rescales together cost least."""

    name = "slo2"
    needs_no_window = True

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        options, now = AutoscalerOptions.of(given.config), seen(given)
        if now is None or _why_not(given.obs, now):
            return abstention(self.name, _why_not(given.obs, now), given.state)
        now = cleaned(now)
        limit = options.slo_lag.exact_seconds
        memory = read_memory(given.state.get("memory"), now)
        demand = observe(memory.demand, now)
        memory, new = replace(memory, demand=demand.state), None
        if demand.load is not None:
            history, scores, new = learn(memory.history, memory.scores, demand.load, demand.minutes, limit)
            memory = replace(memory, history=history, scores=scores)
        size = present(now.vertices, demand.strengths(now))
        if len(memory.history.minutes) < 2 or not 0.0 < size.capacity < math.inf:
            return abstention(self.name, (_LEARNING,), {"memory": encode(memory)})
        load = memory.history.minutes[-1]
        situation = Situation(given.obs.now, load, None if demand.is_blind else demand.backlog / load, size)
        restart = _restart(memory, demand, now, situation, given.downtime.replay)
        budget = memory.budget.after(situation.at, situation.lag, limit, restart)
        memory = replace(memory, budget=budget, restarts=_restarts(memory, demand))
        if _is_quiet(memory, situation, limit):
            memory = _saying(memory, new, situation.at)
            return self._proposal(given.obs, size, memory, (_size_reason(situation),))
        found = new or forecast(memory.history, memory.scores)
        if found is None:
            return abstention(self.name, (_LEARNING,), {"memory": encode(memory)})
        memory = _saying(memory, found, situation.at)
        return self._planned(given, now, demand, situation, memory, found, options)

    def _planned(
        self,
        given: PolicyInput,
        now: Seen,
        demand: Demand,
        situation: Situation,
        memory: SloMemory,
        found: Forecast,
        options: AutoscalerOptions,
    ) -> Proposal:
        size, at, limit = situation.size, situation.at, options.slo_lag.exact_seconds
        lowest, highest = min(map(min, found.courses.values())), max(map(max, found.courses.values()))
        sizes = levels(now.vertices, demand.strengths(now), (0.6 * lowest, 2.5 * highest + 2.0))
        if sizes is None:
            return abstention(self.name, (_LEARNING,), {"memory": encode(memory)})
        elapsed = 0.0 if memory.intent.at is None else at - memory.intent.at
        mean = memory.mean or float(size.slots)
        mean += (size.slots - mean) * min(max(elapsed, 0.0) / (5 * _DAY), 1.0)
        quantile = memory.budget.quantile(options.slo_error_budget)
        day_mean = memory.history.day_mean
        usual = max(min(mean, 5.0 * day_mean), day_mean, 1.0)
        used = sum(1 for past in given.history if at - _DAY < past.at <= at) / options.slo_rescales_per_day
        scarcity = 1.0 + used * used
        outage = min(max(given.downtime.mean, 0.0), _MAX_OUTAGE)
        replay = min(max(memory.restarts.age(given.downtime.replay), 0.0), _MAX_OUTAGE)
        costs = SwitchingCosts(
            up=CONSTANTS.price_up + outage,
            down=CONSTANTS.price_down * scarcity + outage,
            late=CONSTANTS.late_price * usual,
            outage=outage,
            behind=outage + replay,
            limit=limit,
        )
        actions = ActionSet.of(list(zip(sizes.slots, sizes.capacities, strict=True)), (size.slots, size.capacity))
        planner = Planner(actions, quantile, memory.scores.errors, costs)
        lag = situation.lag or 0.0
        late = _first_lateness(actions, found.blend, demand.backlog, LagTerms(limit, outage, replay))
        is_late = lag > limit or late[actions.present] > 0.0
        plan = planner.plan(found, late, is_late=is_late)
        intent = memory.intent.after(at, size.slots, plan.best)
        wanted = _wanted(intent, situation, actions, plan, costs)
        memory = replace(memory, intent=intent, mean=mean)
        target = size if wanted is None else sizes.level(sizes.index(wanted))
        target = one_way(target, size, now)
        return self._proposal(given.obs, target, memory, tuple(_reasons(situation, found, plan, memory, options)))

    def _proposal(self, obs: JobObservation, size: Level, memory: SloMemory, reasons: tuple[Reason, ...]) -> Proposal:
        targets = {v: subtasks(each, obs.vertices[v]) for v, each in size.parallelism.items() if v in obs.vertices}
        capacity = {v: size.capacity * rate for v, rate in memory.demand.mix.items() if v in targets}
        state = {"memory": encode(memory)}
        return Proposal(self.name, targets, direction_of(obs, targets), capacity, 1.0, reasons, state=state)


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


def _restart(memory: SloMemory, demand: Demand, now: Seen, situation: Situation, replay: float) -> Restart | None:
    """Return the restart since the last pass, with the lag right after it; None for none.

    What was processed since then and what waits now is what waited then and what has come since then.
    """
    last, until, lag = memory.budget.at, now.execution, situation.lag
    if last is None or not last < until < situation.at or lag is None:
        return None
    processed = demand.processed(now)
    if processed is None:
        return None
    again, interval = memory.restarts.age(replay), demand.restarted or situation.at - last
    load = situation.load * interval / (interval + again)  # what is read again seems to arrive again
    peak = max(lag + processed / load - (situation.at - until), 0.0)
    return Restart(until, peak, again, situation.size.capacity / load - 1.0)


def _restarts(memory: SloMemory, demand: Demand) -> Restarts:
    """Return what restarts have shown, after a pass."""
    restarts, minutes = memory.restarts, memory.history.minutes
    if demand.load is None:
        return restarts
    if demand.restarted:
        length = round(demand.restarted / 60.0)
        is_known = 0 < length < len(minutes) and not demand.is_blind
        return restarts.begun(demand.restarted, demand.load, minutes[-1 - length] if is_known else None)
    return restarts if restarts.last is None else restarts.after(demand.load, CONSTANTS.noise)


def _saying(memory: SloMemory, found: Forecast | None, at: float) -> SloMemory:
    return memory if found is None else replace(memory, blend=tuple(found.blend[:4]), said_at=at)


def _is_quiet(memory: SloMemory, situation: Situation, limit: float) -> bool:
    """Tell whether nothing can have changed since the last evaluation."""
    intent, size = memory.intent, situation.size
    expected = memory.expected(situation.at)
    if intent.at is None or intent.ups or intent.downs >= CONSTANTS.downs or intent.slots != size.slots:
        return False
    if expected is None or not 0.0 <= situation.at - intent.at < CONSTANTS.quiet:
        return False
    since = memory.history.since
    if since is not None and since <= 20:
        return False
    is_expected = abs(situation.load - expected) <= CONSTANTS.quiet_error * expected
    is_ahead = situation.load < CONSTANTS.quiet_load * size.capacity
    return is_expected and is_ahead and (situation.lag or 0.0) <= CONSTANTS.quiet_lag * limit


def _first_lateness(actions: ActionSet, blend: Sequence[float], backlog: float, terms: LagTerms) -> list[float]:
    """Return for how long the job is late in the next half hour, by the size that it goes to now."""
    path = blend[:6]
    return [
        fluid(path, backlog, actions.capacities[actions.present], terms)[0]
        if place == actions.present
        else fluid(path, backlog, actions.capacities[actions.present], terms, Change(capacity))[0]
        for place, capacity in enumerate(actions.capacities)
    ]


def _wanted(intent: Intent, situation: Situation, actions: ActionSet, plan: Plan, costs: SwitchingCosts) -> int | None:
    """Return the slots to go to now; None to stay."""
    if intent.ups >= CONSTANTS.ups:
        return plan.best
    lag = situation.lag
    if intent.downs < CONSTANTS.downs or lag is None or lag >= CONSTANTS.calm_lag * costs.limit:
        return None
    target = round(intent.target)
    place = min(range(len(actions.slots)), key=lambda each: abs(actions.slots[each] - target))
    headroom = max(actions.capacities[place] / situation.load - 1.0, 0.02)
    late = min(max(costs.behind - costs.limit, 0.0) * (1.0 + 1.0 / headroom), 1800.0)
    price = costs.down * target + costs.late * late
    return target if intent.forgone >= CONSTANTS.patience * price else None


def _size_reason(situation: Situation) -> Reason:
    size = situation.size
    lag = "lag unknown" if situation.lag is None else f"lag {situation.lag:.0f} s"
    text = f"{size.slots} slots can do {size.capacity:.3g} slots of work, {situation.load:.3g} arrive, {lag}"
    return Reason("SLO_SIZE", text)


def _reasons(
    situation: Situation, found: Forecast, plan: Plan, memory: SloMemory, options: AutoscalerOptions
) -> Iterator[Reason]:
    allowed = options.slo_error_budget
    yield Reason("SLO_PLAN", f"{plan.best} slots are the cheapest")
    yield _size_reason(situation)
    hour = found.blend[:12]
    weights = sorted(found.weights.items(), key=lambda each: -each[1])
    shares = ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in weights)
    yield Reason("SLO_FORECAST", f"the next hour is expected at {min(hour):.3g} to {max(hour):.3g} ({shares})")
    used, quantile = memory.budget.used(allowed), memory.budget.quantile(allowed)
    yield Reason("SLO_BUDGET", f"{100 * used:.0f} % of the error budget used: planned for {100 * quantile:.1f} %")
