"""The demand that forecasts add to what is measured: one step per job and pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.forecast.guard import SourceState, distrust, issue, observe
from flink_autoscaler.core.forecast.online import Horizons, source_forecast
from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import DemandForecast, SourceForecast
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.options.forecast_settings import ForecastSettings

DISABLED = "FORECAST_DISABLED"
"""Code of the reason why a source is planned without a forecast."""


@dataclass(frozen=True, slots=True)
class DemandStep:
    """What a pass makes of the forecasts of a job.

    Attributes:
        demand: Forecasts of the sources that have one to be trusted; None without any.
        states: What to remember, by source.
        reasons: One for every source without a forecast.
    """

    demand: DemandForecast | None
    states: Mapping[VertexId, SourceState]
    reasons: tuple[Reason, ...]


def forecast_demand(
    rates: Mapping[VertexId, float | None],
    profiles: Mapping[VertexId, ProfileResult],
    states: Mapping[VertexId, SourceState],
    *,
    now: float,
    horizons: Horizons,
    settings: ForecastSettings,
) -> DemandStep:
    """Take in what arrives, compare it with earlier forecasts, and forecast.

    Args:
        rates: Records/s that arrive now at every source of the job; None while that is not known or the job does not
            run. What the source consumes is something else whenever there is a backlog.
        profiles: Results of the nightly job.
        states: What is remembered. Sources that the job no longer has are forgotten.
        now: Instant of the pass.
        horizons: How far to look ahead.
        settings: Of the forecast.
    """
    forecasts: dict[VertexId, SourceForecast] = {}
    kept: dict[VertexId, SourceState] = {}
    reasons = []
    for source, rate in rates.items():
        observed = observe(states.get(source, SourceState()), now, rate)
        kept[source], outcome = _step(observed, profiles.get(source), now, horizons, settings)
        if isinstance(outcome, SourceForecast):
            forecasts[source] = outcome
        else:
            reasons.append(Reason(DISABLED, f"planned without a forecast: {outcome}", source))
    return DemandStep(forecasts or None, kept, tuple(reasons))


def _step(
    state: SourceState, result: ProfileResult | None, now: float, horizons: Horizons, settings: ForecastSettings
) -> tuple[SourceState, SourceForecast | str]:
    """Return the next state of a source, and its forecast or why there is none."""
    if result is None or result.profile is None:
        problem = "there is no profile yet" if result is None else result.problem
        return replace(state, is_trusted=False), problem or "there is no profile"
    try:
        return _forecast(state, result.profile, now, horizons, settings)
    except ConfigError as error:
        return replace(state, is_trusted=False), str(error)
    except OverflowError:
        return replace(state, is_trusted=False), "the growth of the profile leads beyond all numbers"


def _forecast(
    state: SourceState, profile: LoadProfile, now: float, horizons: Horizons, settings: ForecastSettings
) -> tuple[SourceState, SourceForecast | str]:
    problems = distrust(state, profile, now, settings)
    state = replace(issue(state, profile, now, settings), is_trusted=not problems)
    if problems:
        return state, "; ".join(problems)
    found = source_forecast(profile, state.recent, now, horizons, settings)
    return state, found or "the profile knows nothing about the hours to come"
