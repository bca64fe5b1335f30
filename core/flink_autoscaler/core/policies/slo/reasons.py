"""What the policy saw, expects and weighs, as reasons: enough to tell after one reading why it did what it did."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode, Word
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
_NO_WORDS: Final[Mapping[str, Word]] = {}


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
        yield _reason(ReasonCode.SLO_LIMITED, demand=situation.load, capacity=evaluation.most)
    yield size_reason(situation)
    yield _expectation(evaluation)
    for slots in sorted({situation.size.slots, evaluation.best}):
        yield _cost(slots, evaluation)
    yield _budget(evaluation)


def quiet_reason(situation: Situation, evaluated: float | None) -> Reason:
    """Say that nothing has changed since sizes were compared last."""
    left = CONSTANTS.quiet - (situation.at - (evaluated or situation.at))
    return _reason(ReasonCode.SLO_QUIET, next=left)


def size_reason(situation: Situation) -> Reason:
    """Say what arrives, what the job can do, and how late it is."""
    size, lag = situation.size, situation.lag
    figures = {"demand": situation.load, "capacity": size.capacity, "slots": size.slots}
    return _reason(ReasonCode.SLO_SIZE, _NO_WORDS, **(figures if lag is None else {**figures, "lag": lag}))


def _outcome(evaluation: PlanEvaluation) -> Reason:
    slots, best, intent = evaluation.situation.size.slots, evaluation.best, evaluation.intent
    stays, goes = evaluation.costs[slots], evaluation.costs[best]
    saved = (stays.total - goes.total) / _HOUR
    if best == slots:
        return _reason(ReasonCode.SLO_STAYS, slots=slots)
    if best > slots:
        when = "now" if evaluation.is_wanted else "after one more evaluation that says so"
        return _reason(ReasonCode.SLO_UP, {"when": when}, target=best, saved=saved, ups=intent.ups)
    target = round(intent.target)
    if evaluation.is_wanted:
        return _reason(ReasonCode.SLO_DOWN, target=target, forgone=intent.forgone, price=evaluation.price)
    words: dict[str, Word] = {"fewer": slots - target}
    if intent.forgone < evaluation.price or intent.downs < CONSTANTS.downs:
        minutes = max(evaluation.price - intent.forgone, 0.0) / max(slots - best, 1) / 60.0
        words["minutes"] = max(minutes, 1.0)
    return _reason(ReasonCode.SLO_DOWN_WAITS, words, target=target, forgone=intent.forgone, price=evaluation.price)


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
    figures = {"low": low, "high": high, "beyond": beyond}
    for name in shown:
        figures |= {f"{name} weight": found.weights[name], f"{name} error": scores.error(name)}
    return _reason(ReasonCode.SLO_FORECAST, {"often": 100 * _QUANTILE, "shares": shares}, **figures)


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
    words: dict[str, Word] = {"best": "the cheapest"} if slots == evaluation.best else {}
    words["terms"] = ", ".join(f"{name} {each:.3g}" for name, each in hours.items())
    return _reason(ReasonCode.SLO_COST, words, slots=slots, **hours)


def _budget(evaluation: PlanEvaluation) -> Reason:
    used, quantile, costs = evaluation.used, evaluation.quantile, evaluation.switching
    late = costs.late_after(math.inf)
    words: dict[str, Word] = {"used_percent": 100 * used, "quantile_percent": 100 * quantile}
    if late > 0.0:
        words["outage_shown"] = costs.outage
    return _reason(
        ReasonCode.SLO_BUDGET,
        words,
        used=used,
        late_share=evaluation.late_share,
        quantile=quantile,
        outage=costs.outage,
        replay=costs.replay,
        late=late,
    )


def _reason(code: ReasonCode, words: Mapping[str, Word] = _NO_WORDS, **figures: float) -> Reason:
    shown = tuple((name, float(f"{value:.6g}")) for name, value in figures.items())
    return Reason.of(code, None, shown, **words)
