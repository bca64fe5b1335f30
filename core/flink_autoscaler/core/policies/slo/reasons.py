"""What the policy saw, expects and weighs, as reasons: enough to tell after one reading why it did what it did."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.forecasters import ERROR_LEADS, Forecast, ForecastScores, like_errors
from flink_autoscaler.core.policies.slo.levels import Level
from flink_autoscaler.core.policies.slo.load_history import HOUR
from flink_autoscaler.core.policies.slo.planner import Cost, SwitchingCosts

if TYPE_CHECKING:
    from flink_autoscaler.core.policies.slo.policy import Intent

_HOUR: Final = 3600.0
_MIN_SHOWN: Final = 0.01
_QUANTILE: Final = 0.95


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


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """All sizes compared.

    Attributes:
        situation: The job.
        found: What is expected.
        scores: Of the forecasters, with the errors of their blend.
        costs: Of the first step, by slots.
        best: Slots of the cheapest.
        intent: What this evaluation and those before call for.
        price: Slot-seconds that have to be forgone before a scale-down.
        target: The size to go to now, which may be the present one.
        is_wanted: Whether it is another one.
        switching: What rescales cost.
        used: Share of the error budget that is used.
        late_share: Share of the time that the job was late, as far as its lag is known.
        quantile: Of the need that is planned for.
        most: Load that the greatest size can do which the bounds allow; infinite where they do not matter.
        mean: Slots that the job has held lately.
    """

    situation: Situation
    found: Forecast
    scores: ForecastScores
    costs: Mapping[int, Cost]
    best: int
    intent: Intent
    price: float
    target: Level
    is_wanted: bool
    switching: SwitchingCosts
    used: float
    late_share: float
    quantile: float
    most: float
    mean: float


def reasons(evaluation: PlanEvaluation) -> Iterator[Reason]:
    """Yield why, what came of it first."""
    situation = evaluation.situation
    yield _outcome(evaluation)
    if situation.load > evaluation.most:
        most = f"{evaluation.most:.3g} of {situation.load:.3g} slots of work"
        text = f"the greatest size that the bounds allow can do {most}"
        yield _reason("SLO_LIMITED", text, demand=situation.load, capacity=evaluation.most)
    yield size_reason(situation)
    yield _expectation(evaluation)
    for slots in sorted({situation.size.slots, evaluation.best}):
        yield _cost(slots, evaluation)
    yield _budget(evaluation)


def quiet_reason(situation: Situation, evaluated: float | None) -> Reason:
    """Say that nothing has changed since sizes were compared last."""
    left = CONSTANTS.quiet - (situation.at - (evaluated or situation.at))
    text = f"the load is as expected and the job keeps pace: sizes are compared again in {left:.0f} s at the latest"
    return _reason("SLO_QUIET", text, next=left)


def size_reason(situation: Situation) -> Reason:
    """Say what arrives, what the job can do, and how late it is."""
    size, lag = situation.size, situation.lag
    told = "lag unknown" if lag is None else f"lag {lag:.4g} s"
    text = f"{size.slots} slots can do {size.capacity:.3g} slots of work, {situation.load:.3g} arrive, {told}"
    figures = {} if lag is None else {"lag": lag}
    return _reason("SLO_SIZE", text, demand=situation.load, capacity=size.capacity, slots=size.slots, **figures)


def _outcome(evaluation: PlanEvaluation) -> Reason:
    slots, best, intent = evaluation.situation.size.slots, evaluation.best, evaluation.intent
    stays, goes = evaluation.costs[slots], evaluation.costs[best]
    saved = (stays.total - goes.total) / _HOUR
    if best == slots:
        return _reason("SLO_STAYS", f"{slots} slots stay: no other size is cheaper over the next hours", slots=slots)
    if best > slots:
        when = "now" if evaluation.is_wanted else "after one more evaluation that says so"
        text = f"to {best} slots {when}: over the next hours that costs {saved:.3g} slot-hours less than to stay"
        return _reason("SLO_UP", text, target=best, saved=saved, ups=intent.ups)
    target = round(intent.target)
    if evaluation.is_wanted:
        text = f"to {target} slots now: what they would have saved has paid for the rescale"
        return _reason("SLO_DOWN", text, target=target, forgone=intent.forgone, price=evaluation.price)
    minutes = max(evaluation.price - intent.forgone, 0.0) / max(slots - best, 1) / 60.0
    text = f"{target} slots would save {slots - target} and pay for the rescale in {max(minutes, 1.0):.0f} min"
    if intent.forgone >= evaluation.price and intent.downs >= CONSTANTS.downs:
        text = f"{target} slots would save {slots - target}: the job goes down once it is known to be in time"
    return _reason("SLO_DOWN_WAITS", text, target=target, forgone=intent.forgone, price=evaluation.price)


def _expectation(evaluation: PlanEvaluation) -> Reason:
    found, scores = evaluation.found, evaluation.scores
    hour = found.blend[:HOUR]
    low, high = min(hour), max(hour)
    errors = sorted(like_errors(scores.errors, math.log(high), len(ERROR_LEADS) - 1))
    beyond = high * math.exp(errors[int(_QUANTILE * len(errors))]) if errors else high
    shown = sorted(
        (name for name in found.weights if found.weights[name] >= _MIN_SHOWN), key=lambda n: -found.weights[n]
    )
    shares = ", ".join(f"{name} {100 * found.weights[name]:.0f} %" for name in shown)
    often = f"{100 * _QUANTILE:.0f} % of the time below {beyond:.3g}"
    text = f"the next hour is expected at {low:.3g} to {high:.3g}, {often}: {shares}"
    figures = {"low": low, "high": high, "beyond": beyond}
    for name in shown:
        figures |= {f"{name} weight": found.weights[name], f"{name} error": scores.error(name)}
    return _reason("SLO_FORECAST", text, **figures)


def _cost(slots: int, evaluation: PlanEvaluation) -> Reason:
    cost = evaluation.costs[slots]
    terms = {
        "total": cost.total,
        "slots of the next minutes": cost.held,
        "shortage": cost.short,
        "lateness": cost.late,
        "rescale": cost.rescale,
        "what comes later": cost.future,
    }
    hours = {name: value / _HOUR for name, value in terms.items()}
    best = ", the cheapest," if slots == evaluation.best else ""
    text = f"{slots} slots{best} in slot-hours: {', '.join(f'{name} {each:.3g}' for name, each in hours.items())}"
    return _reason("SLO_COST", text, slots=slots, **hours)


def _budget(evaluation: PlanEvaluation) -> Reason:
    used, quantile, costs = evaluation.used, evaluation.quantile, evaluation.switching
    late = costs.late_after(math.inf)
    text = f"{100 * used:.0f} % of the week's error budget used: planned for {100 * quantile:.1f} % of what may come"
    if late > 0.0:
        away = f"its outage of {costs.outage:.0f} s and {costs.replay:.0f} s that are read again"
        text += f"; {away} make every rescale late, by {late:.0f} s at best"
    return _reason(
        "SLO_BUDGET",
        text,
        used=used,
        late_share=evaluation.late_share,
        quantile=quantile,
        outage=costs.outage,
        replay=costs.replay,
        late=late,
    )


def _reason(code: str, text: str, **figures: float) -> Reason:
    return Reason(code, text, figures=tuple((name, float(f"{value:.6g}")) for name, value in figures.items()))
