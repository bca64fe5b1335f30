"""``slo``: the fewest slots with which a job is late for no more than its error budget.

Once a pass it reckons what arrives from the counters of the latest sample, forecasts it, and plans the size: slots,
expected shortage and rescales against each other, as carefully as what was used of the error budget calls for.
There is no utilization target, no metric window and no timer.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Final

from flink_autoscaler.core.model.codec import Codec
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import (
    METRIC_MISSING,
    abstention,
    direction_of,
    missing_metric_reason,
    not_usable,
)
from flink_autoscaler.core.policies.base.quantities import clamp_parallelism
from flink_autoscaler.core.policies.slo.arrivals import SloSample, latest_sample
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.demand import Demand, DemandState, mix_ahead, update_demand, usual_loads
from flink_autoscaler.core.policies.slo.error_budget import ErrorBudget, ReplayAge, Restart
from flink_autoscaler.core.policies.slo.forecasters import Forecast, ForecastScores, forecast, learn
from flink_autoscaler.core.policies.slo.levels import (
    Level,
    levels,
    present_level,
    vertex_capacities,
    without_opposite_changes,
)
from flink_autoscaler.core.policies.slo.load_history import BUCKET, LoadHistory
from flink_autoscaler.core.policies.slo.planner import ActionSet, Planner, SwitchingCosts
from flink_autoscaler.core.policies.slo.reasons import PlanEvaluation, Situation, quiet_reason, reasons, size_reason

_DAY: Final = 86400.0
_MAX_OUTAGE: Final = 3600.0
_MIN_MINUTES: Final = 2
_SAID: Final = 4
"""Buckets of the last blend that are kept, to tell surprises."""
_LEARNING: Final = Reason.of(ReasonCode.SLO_LEARNING)
_NOT_READ: Final = Reason.of(ReasonCode.SLO_LEARNING, state="what an earlier version remembered is not read")


@value
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


@value
class SloMemory:
    """What is handed back in the next pass.

    Attributes:
        graph: Marks of the vertices and of the sources that it is about.
        demand: Of capacities and counters.
        history: Of the load.
        scores: Of the forecasters.
        blend: What was expected of the minutes after the last forecast, by bucket.
        said_at: When that was, epoch seconds.
        budget: How late the job has been.
        replay: To which age restarts go back.
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
    replay: ReplayAge = field(default_factory=ReplayAge)
    intent: Intent = field(default_factory=Intent)
    mean: float = 0.0

    @classmethod
    def read(cls, stored: object, now: SloSample) -> SloMemory:
        """Return what was remembered; nothing where it cannot be read, and of another graph only what is still true."""
        sources = tuple(sorted(key for key, each in now.vertices.items() if each.is_source))
        marks = (_mark((tuple(sorted(now.vertices)), sources, tuple(sorted(set(now.edges))))), _mark(sources))
        try:
            memory = MEMORY.read(stored)
        except ValueError:
            return cls(marks)
        if not all(each.is_sound for each in memory.demand.capacities.values()):
            return cls(marks)
        if memory.graph == marks:
            return memory
        if memory.graph[-1:] != marks[-1:]:
            return cls(marks)
        return cls(marks, history=replace(memory.history, minutes=(), filling=0), budget=memory.budget)

    def expected(self, at: float) -> float | None:
        """Return the load that was expected of an instant; None where nothing was."""
        place = (at - self.said_at) / BUCKET
        return self.blend[int(place)] if 0.0 <= place < len(self.blend) else None

    def is_quiet(self, situation: Situation, limit: float) -> bool:
        """Tell whether nothing can have changed since the last evaluation.

        Args:
            situation: Of the job.
            limit: Acceptable lag, seconds.
        """
        intent, size, load = self.intent, situation.size, situation.load
        if intent.at is None or intent.ups or intent.downs >= CONSTANTS.downs or intent.slots != size.slots:
            return False
        expected, since = self.expected(situation.at), self.history.since
        if expected is None or not 0.0 <= situation.at - intent.at < CONSTANTS.quiet:
            return False
        is_settled = since is None or since > CONSTANTS.fresh + BUCKET / 60.0
        is_expected = abs(load - expected) <= CONSTANTS.quiet_error * expected
        is_ahead = load < CONSTANTS.quiet_load * size.capacity
        return is_settled and is_expected and is_ahead and (situation.lag or 0.0) <= CONSTANTS.quiet_lag * limit


MEMORY: Final = Codec(SloMemory, is_compact=True)
"""How it is stored."""


@lru_cache(maxsize=1024)
def _mark(names: tuple[Any, ...]) -> int:
    """Return a number that another graph hardly has."""
    return zlib.crc32(repr(names).encode())


class SloPolicy:
    """Goes where slots, expected shortage and rescales together cost least."""

    name = "slo"
    is_streaming = True

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        options, now = AutoscalerOptions.of(given.config), latest_sample(given)
        if now is None or _why_not(given.obs, now):
            return abstention(self.name, _why_not(given.obs, now), given.state)
        limit = options.slo_lag.exact_seconds
        memory = SloMemory.read(given.state.get("memory"), now)
        demand, completed = update_demand(memory.demand, now), 0
        history, scores = memory.history, memory.scores
        if demand.load is not None:
            history, scores, completed = learn(history, scores, demand.load, demand.minutes, limit)
        memory = replace(memory, demand=demand.state, history=history, scores=scores)
        size = present_level(now.vertices, _strengths(now, demand.state))
        if len(history.minutes) < _MIN_MINUTES or not 0.0 < size.capacity < math.inf:
            learning = _NOT_READ if "learned" in given.state else _LEARNING
            return abstention(self.name, (learning,), {"memory": MEMORY.write(memory)})
        load = history.minutes[-1]
        situation = Situation(given.obs.now, load, None if demand.is_blind else demand.backlog / load, size)
        restart = _restart(memory, demand, now, situation, given.downtime.replay)
        budget = memory.budget.after(situation.at, situation.lag, limit, restart)
        memory = replace(memory, budget=budget, replay=_replay(memory, demand))
        is_quiet = memory.is_quiet(situation, limit)
        found = None if is_quiet and not completed else forecast(history, scores, usual_loads(now, demand.state))
        if found is not None:
            said = scores.with_forecasts(found.courses, found.blend) if completed else scores
            memory = replace(memory, scores=said, blend=tuple(found.blend[:_SAID]), said_at=situation.at)
        if is_quiet:
            shown = (quiet_reason(situation, memory.intent.at), size_reason(situation))
            return self._proposal(given.obs, size, memory, shown)
        evaluation = None if found is None else _evaluation(given, now, demand, situation, memory, found, options)
        if evaluation is None:
            return abstention(self.name, (_LEARNING,), {"memory": MEMORY.write(memory)})
        memory = replace(memory, intent=evaluation.intent, mean=evaluation.mean)
        return self._proposal(given.obs, evaluation.target, memory, tuple(reasons(evaluation)))

    def _proposal(self, obs: JobObservation, size: Level, memory: SloMemory, shown: tuple[Reason, ...]) -> Proposal:
        targets = {
            v: clamp_parallelism(each, obs.vertices[v]) for v, each in size.parallelism.items() if v in obs.vertices
        }
        capacity = {v: size.capacity * rate for v, rate in memory.demand.mix.items() if v in targets}
        state = {"memory": MEMORY.write(memory)}
        return Proposal(self.name, targets, direction_of(obs, targets), capacity, 1.0, shown, state=state)


def _strengths(now: SloSample, state: DemandState) -> Mapping[str, Any]:
    return vertex_capacities(now.vertices, state.capacities, mix_ahead(now, state), state.max_mix)


def _why_not(obs: JobObservation, now: SloSample | None) -> tuple[Reason, ...]:
    """Return why nothing can be learned from a pass; empty when something can."""
    if unusable := not_usable(obs):
        return unusable
    if now is None:
        return (Reason.of(METRIC_MISSING),)
    return tuple(
        missing_metric_reason(obs.vertices[vertex_id], "counter of records read")
        for vertex_id, vertex in now.vertices.items()
        if vertex.is_source and vertex.records_in is None
    )


def _restart(memory: SloMemory, demand: Demand, now: SloSample, situation: Situation, assumed: float) -> Restart | None:
    """Return the restart since the last pass, with the lag right after it; None for none.

    What was processed since then and what waits now is what waited then and what has come since then.
    """
    last, until, lag = memory.budget.at, now.execution, situation.lag
    if last is None or not last < until < situation.at or lag is None:
        return None
    processed = demand.processed(now)
    if processed is None:
        return None
    again, interval = memory.replay.seconds(assumed), demand.restarted or situation.at - last
    load = situation.load * interval / (interval + again)  # what is read again seems to arrive again
    peak = max(lag + processed / load - (situation.at - until), 0.0)
    return Restart(until, peak, again, situation.size.capacity / load - 1.0)


def _replay(memory: SloMemory, demand: Demand) -> ReplayAge:
    """Return what restarts have shown, after a pass."""
    age, minutes = memory.replay, memory.history.minutes
    if demand.load is None:
        return age
    if demand.restarted:
        length = round(demand.restarted / 60.0)
        is_known = 0 < length < len(minutes) and not demand.is_blind
        return age.began(demand.restarted, demand.load, minutes[-1 - length] if is_known else None)
    return age.after(demand.load)


def _evaluation(
    given: PolicyInput,
    now: SloSample,
    demand: Demand,
    situation: Situation,
    memory: SloMemory,
    found: Forecast,
    options: AutoscalerOptions,
) -> PlanEvaluation | None:
    """Compare all sizes; None where nothing is known of any."""
    size, at, before = situation.size, situation.at, memory.intent
    lowest, highest = min(map(min, found.courses.values())), max(map(max, found.courses.values()))
    sizes = levels(now.vertices, _strengths(now, demand.state), (0.6 * lowest, 2.5 * highest + 2.0))
    if sizes is None:
        return None
    elapsed = 0.0 if before.at is None else max(at - before.at, 0.0)
    mean = memory.mean or float(size.slots)
    mean += (size.slots - mean) * min(elapsed / (CONSTANTS.usual_days * _DAY), 1.0)
    quantile = memory.budget.quantile(options.slo_error_budget)
    costs = _switching_costs(given, memory, mean, options, quantile)
    actions = ActionSet.of(list(zip(sizes.slots, sizes.capacities, strict=True)), (size.slots, size.capacity))
    planner = Planner(actions, memory.scores.errors, costs)
    late = actions.lateness(found.blend[:6], demand.backlog, costs)
    compared = planner.costs(found, late)
    is_late = (situation.lag or 0.0) > costs.limit or late[actions.present] > 0.0
    best = actions.slots[planner.best(compared, is_late=is_late)]
    intent = before.after(at, size.slots, best)
    wanted, price = None, 0.0
    if best > size.slots:
        wanted = best if intent.ups >= CONSTANTS.ups else None
    elif best < size.slots:
        place = min(range(len(actions.slots)), key=lambda each: abs(actions.slots[each] - intent.target))
        late_after = costs.late_after(actions.capacities[place] / situation.load - 1.0)
        price = CONSTANTS.patience * (costs.down + costs.late * late_after)
        is_calm = situation.lag is not None and situation.lag < CONSTANTS.calm_lag * costs.limit
        if intent.downs >= CONSTANTS.downs and is_calm and intent.forgone >= price:
            wanted = actions.slots[place]
    return PlanEvaluation(
        situation=situation,
        found=found,
        scores=memory.scores,
        costs=dict(zip(actions.slots, compared, strict=True)),
        best=best,
        intent=intent,
        price=price,
        target=size if wanted is None else without_opposite_changes(sizes.level(sizes.index(wanted)), size, now),
        is_wanted=wanted is not None,
        switching=costs,
        used=memory.budget.used(options.slo_error_budget),
        late_share=memory.budget.late_share,
        quantile=quantile,
        most=sizes.capacities[-1] if sizes.is_limited else math.inf,
        mean=mean,
    )


def _switching_costs(
    given: PolicyInput, memory: SloMemory, mean: float, options: AutoscalerOptions, quantile: float
) -> SwitchingCosts:
    """Return the prices, by the slots that the job usually holds; what it holds for bursts makes the next no dearer.

    A scale-down is the dearer the more rescales the day has had, and what makes the job late, shortage or outage, the
    more of the error budget is used.
    """
    day_mean = memory.history.day_mean
    usual = max(min(mean, CONSTANTS.usual_load * day_mean), day_mean, 1.0)
    recent = sum(1 for past in given.history if given.obs.now - _DAY < past.at <= given.obs.now)
    price = CONSTANTS.rescales_price / options.slo_rescales_per_day * usual
    return SwitchingCosts(
        up=price,
        down=price * (1.0 + (recent / options.slo_rescales_per_day) ** 2),
        late=CONSTANTS.late_price / (1.0 - quantile) * usual,
        short=day_mean / (1.0 - quantile),
        outage=min(max(given.downtime.mean, 0.0), _MAX_OUTAGE),
        replay=min(max(memory.replay.seconds(given.downtime.replay), 0.0), _MAX_OUTAGE),
        limit=options.slo_lag.exact_seconds,
    )
