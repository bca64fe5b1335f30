"""What the policy saw, expects and weighs, as reasons: enough to tell after one reading why it did what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.core.model.events import Figures, Reason
from flink_autoscaler.core.policies.slo.acting import DOWNS, FULL_EVERY, UPS, Acting, Moment
from flink_autoscaler.core.policies.slo.lateness import LagTerms
from flink_autoscaler.core.policies.slo.model import Forecasts, Noise
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.value import Cost, Valuation

_HOUR: Final = 3600.0
_SHOWN: Final = {"5 min": 0, "30 min": 5, "2 h": 23}
"""Buckets of a path that are shown."""
_LEAST_SHOWN: Final = 0.01
_MOST_SHOWN: Final = 1e9


def size_reason(moment: Moment) -> Reason:
    """Say what arrives, what the job can do, and how late it is."""
    headroom = moment.capacity / moment.demand - 1.0 if moment.demand > 0.0 else 0.0
    lag = "lag unknown" if moment.lag is None else f"lag {_number(moment.lag)} s"
    text = (
        f"{_number(moment.demand)} slots of work arrive, {moment.slots} slots can do {_number(moment.capacity)}: "
        f"head-room {100 * _bounded(headroom):.0f} %, {lag}"
    )
    figures = {"demand": moment.demand, "capacity": moment.capacity, "slots": moment.slots, "headroom": headroom}
    return _reason("SLO_SIZE", text, figures if moment.lag is None else figures | {"lag": moment.lag})


def noise_reason(noise: Noise, deviation: float) -> Reason:
    """Say how far demand and capacity stray."""
    text = (
        f"demand strays by {100 * noise.s:.1f} % within minutes (v {noise.v:.2g} s), forecasts of 15 min by "
        f"{100 * noise.s_p:.1f} %, and the capacity is known within {100 * deviation:.1f} %"
    )
    return _reason("SLO_NOISE", text, {"s": noise.s, "v": noise.v, "s_p": noise.s_p, "s_cap": deviation})


def forecast_reason(forecasts: Forecasts) -> Reason:
    """Say which forecasts are believed how much, and what they expect."""
    believed = sorted(forecasts.paths, key=lambda name: (-forecasts.weights.get(name, 0.0), name))
    figures, parts = dict[str, float](), []
    for name in ("mixed", *believed):
        path, weight = forecasts.mixed if name == "mixed" else forecasts.paths[name], forecasts.weights.get(name, 1.0)
        if weight < _LEAST_SHOWN:
            continue
        expected = {after: path[bucket] for after, bucket in _SHOWN.items()}
        figures |= {f"{name} {after}": each for after, each in expected.items()}
        figures |= {} if name == "mixed" else {f"{name} weight": weight}
        share = "" if name == "mixed" else f" ({100 * weight:.0f} %)"
        parts.append(f"{name}{share} {' / '.join(map(_number, expected.values()))}")
    return _reason("SLO_FORECAST", f"expected in {' / '.join(_SHOWN)}: {', '.join(parts)}", figures)


def cost_reasons(valuation: Valuation, slots: int) -> Iterator[Reason]:
    """Yield what the present size, the best one and those beside it would cost over the next hours."""
    for cost in valuation.costs.values():
        what = "stays" if cost.slots == slots else "goes"
        best = ", the cheapest" if cost.slots == valuation.best and valuation.rival is None else ""
        hours = {name: value / _HOUR for name, value in _terms(cost).items()}
        terms = ", ".join(f"{name} {_number(value)}" for name, value in hours.items())
        text = f"{cost.slots} slots{best} (the job {what}) in slot-hours: {terms}"
        yield _reason("SLO_COST", text, {"slots": float(cost.slots), **hours, "late_seconds": cost.late_seconds})


def _terms(cost: Cost) -> dict[str, float]:
    return {
        "total": cost.total,
        "slots of the next minutes": cost.held,
        "lateness": cost.late,
        "rescale": cost.rescale,
        "what comes later": cost.future,
    }


def outcome_reason(acting: Acting, moment: Moment, valuation: Valuation, price: float, limit: float) -> Reason:
    """Say what becomes of the best size now, and what is still lacking for a change."""
    if valuation.best > moment.slots:
        return _up(acting, moment, valuation)
    if valuation.best < moment.slots:
        return _down(acting, moment, price, limit)
    if valuation.rival is not None:
        return _waits(moment, valuation, valuation.rival)
    stay = valuation.costs[moment.slots]
    text = f"{moment.slots} slots stay: no other size is cheaper over the next hours"
    return _reason("SLO_STAYS", text, {"slots": float(moment.slots), "total": stay.total / _HOUR})


def _waits(moment: Moment, valuation: Valuation, rival: int) -> Reason:
    waits, goes = valuation.stay / _HOUR, valuation.costs[rival].total / _HOUR
    text = (
        f"{moment.slots} slots stay for now: to go in five minutes, to what is best by then, costs {_number(waits)} "
        f"slot-hours over the next hours, to go to {rival} slots now {_number(goes)}"
    )
    return _reason(
        "SLO_WAITS", text, {"slots": float(moment.slots), "target": float(rival), "now": goes, "later": waits}
    )


def _up(acting: Acting, moment: Moment, valuation: Valuation) -> Reason:
    stays, goes = valuation.costs[moment.slots], valuation.costs[valuation.best]
    when = "now" if acting.ups >= UPS else f"after {_more(UPS - acting.ups)}"
    text = (
        f"to {valuation.best} slots {when}: {_number(stays.lag)} s of lag are expected in 30 min if the job stays, "
        f"{_number(goes.lag)} s if it goes"
    )
    figures = {"target": float(valuation.best), "lag_stays": stays.lag, "lag_goes": goes.lag, "ups": float(acting.ups)}
    return _reason("SLO_UP", text, figures)


def _down(acting: Acting, moment: Moment, price: float, limit: float) -> Reason:
    saved = moment.slots - acting.target
    lacking = ", ".join(_lacking_down(acting, moment, price, limit))
    text = (
        f"{acting.target} slots would save {saved}; waiting has forgone {_number(acting.regret)} of the "
        f"{_number(price)} slot-seconds that the rescale has to be worth: {lacking or 'the job goes down now'}"
    )
    figures = {"target": float(acting.target), "regret": acting.regret, "price": price, "downs": float(acting.downs)}
    return _reason("SLO_DOWN_WAITS" if lacking else "SLO_DOWN", text, figures)


def _lacking_down(acting: Acting, moment: Moment, price: float, limit: float) -> Iterator[str]:
    if acting.regret < price:
        minutes = (price - acting.regret) / max(moment.slots - acting.best, 1) / 60.0
        yield f"about {max(minutes, 1.0):.0f} min more"
    if acting.downs < DOWNS:
        yield _more(DOWNS - acting.downs)
    if moment.lag is None:
        yield "the lag has to be known"
    elif moment.lag >= limit / 2:
        yield f"the lag has to be below {_number(limit / 2)} s"


def _more(count: int) -> str:
    return "one more evaluation that says so" if count == 1 else f"{count} more evaluations that say so"


def price_reason(prices: Prices, terms: LagTerms) -> Reason:
    """Say what lateness and a rescale cost now."""
    text = (
        f"a second above slo.lag costs {_number(prices.late)} slot-seconds, a rescale {_number(prices.rescale)} s of "
        f"the whole job besides its outage of {_number(terms.outage)} s and {_number(terms.replay)} s that are read "
        f"again, after {prices.recent} in 24 h; the job was late for about "
        f"{100 * prices.late_share:.2g} % of the last days"
    )
    if prices.urgency > 1.0:
        text += f", which makes lateness {_number(prices.urgency)} times as dear"
    if prices.small_up or prices.small_down:
        small = f"{_number(prices.small_up)} s more up and {_number(prices.small_down)} s more down"
        text += f"; a change by half or less costs {small}"
    text += f"; before a scale-down {100 * prices.patience:.0f} % of its price have to be forgone"
    figures = {"late": prices.late, "rescale": prices.rescale, "rescales": prices.recent, "patience": prices.patience}
    figures |= {"small_up": prices.small_up, "small_down": prices.small_down}
    figures |= {"outage": terms.outage, "replay": terms.replay}
    return _reason("SLO_PRICE", text, figures | {"late_share": prices.late_share, "urgency": prices.urgency})


def floor_reason(least: int, slots: int) -> Reason:
    """Say that the job would be late too often if it were made as small as it looks cheapest."""
    text = f"fewer than {least} slots, if they had stayed, would have been late too often in the last days"
    return _reason("SLO_FLOOR", text, {"least": float(least), "slots": float(slots)})


def limited_reason(moment: Moment, greatest: float) -> Reason:
    """Say that the bounds keep the job smaller than what arrives."""
    text = (
        f"the greatest size that the bounds allow can do {_number(greatest)} of {_number(moment.demand)} slots of work"
    )
    return _reason("SLO_LIMITED", text, {"demand": moment.demand, "capacity": greatest})


def quiet_reason(acting: Acting, moment: Moment) -> Reason:
    """Say that nothing has changed since the last evaluation."""
    left = FULL_EVERY - (moment.at - (acting.at or moment.at))
    text = f"the load is as expected and the job keeps pace: sizes are compared again in {left:.0f} s at the latest"
    return _reason("SLO_QUIET", text, {"next": left, "demand": moment.demand, "capacity": moment.capacity})


def _reason(code: str, text: str, figures: Mapping[str, float]) -> Reason:
    shown: Figures = tuple((name, _bounded(float(value))) for name, value in figures.items())
    return Reason(code, text, None, shown)


def _bounded(value: float) -> float:
    return max(-_MOST_SHOWN, min(value, _MOST_SHOWN))


def _number(value: float) -> str:
    return f"{_bounded(value):.4g}" if abs(value) < 1e4 else f"{_bounded(value):.0f}"  # noqa: PLR2004 - four digits
