"""Forecasts within a pass: from profiles and samples to the demand that policies are shown, and what is remembered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.evaluate.downtime import expected_outage
from flink_autoscaler.core.forecast.arrivals import arrival_rates
from flink_autoscaler.core.forecast.codec import forecast_document, forecast_states
from flink_autoscaler.core.forecast.demand import forecast_demand
from flink_autoscaler.core.forecast.guard import SourceState
from flink_autoscaler.core.forecast.online import Horizons
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import DemandForecast
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.model.state import ForecastMemory
from flink_autoscaler.core.options.forecast import forecast_settings
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.policies import OPTIONS_OF
from flink_autoscaler.core.ports.passes import EvaluatedJob

UNUSED: Final = "FORECAST_UNUSED"
"""Code of the reason why forecasts have no effect."""

_LISTENER: Final = "proactive"
"""The built-in policy that looks at forecasts."""

_SOURCES: Final = "sources"
_IS_TOLD: Final = "is_told"
_TO_USE: Final = (
    f"{AutoscalerOptions.forecast_enabled.key} has no effect: no policy of the job looks at forecasts. Choose "
    f"'{_LISTENER}' in {AutoscalerOptions.policies.key}"
)

Profiles = Mapping[VertexId, ProfileResult]


@dataclass(frozen=True, slots=True)
class PassForecast:
    """What a pass makes of the forecasts of a job.

    Attributes:
        demand: Of the sources whose forecast is trusted; None without any.
        memory: What to remember.
        reasons: Why sources are planned without a forecast.
        events: To be told.
    """

    demand: DemandForecast | None
    memory: ForecastMemory
    reasons: tuple[Reason, ...] = ()
    events: tuple[Event, ...] = ()


def profiles_around(results: Profiles, now: float) -> dict[VertexId, ProfileResult]:
    """Return what a pass needs of the profiles of a job; one of a time zone that is not known here is left whole."""
    return {source: _around(result, now) for source, result in results.items()}


def _around(result: ProfileResult, now: float) -> ProfileResult:
    try:
        return result if result.profile is None else replace(result, profile=result.profile.around(now))
    except ConfigError:
        return result  # the pass comes upon it, too, and tells


def pass_forecast(job: EvaluatedJob, profiles: Profiles, plugins: Collection[str]) -> PassForecast:
    """Take in what arrives at a job, and forecast, where the job has forecasts; else forget what there was.

    Args:
        job: With the sample of this pass.
        profiles: Of its sources.
        plugins: Names of the policies that did not come with the autoscaler.

    Raises:
        ConfigError: An option cannot be read.
    """
    memory, options = job.state.forecast, job.context.options
    if not options.forecast_enabled:
        return PassForecast(None, {})
    step = forecast_demand(
        arrival_rates(job.topology, job.state.samples),
        profiles,
        _states(memory),
        now=job.now_ms / 1000,
        horizons=Horizons.of(expected_outage(job), options.catch_up_duration.exact_seconds),
        settings=forecast_settings(options),
    )
    is_used = _is_used(options.policies, plugins)
    kept = {_SOURCES: forecast_document(step.states), _IS_TOLD: not is_used}
    reasons = step.reasons if is_used else (Reason(UNUSED, _TO_USE),)
    events = () if is_used or memory.get(_IS_TOLD) else (Event(EventType.NORMAL, "ForecastUnused", _TO_USE),)
    return PassForecast(step.demand, kept, reasons, events)


def _states(memory: ForecastMemory) -> Mapping[VertexId, SourceState]:
    """Return the states that were kept; none where that cannot be read, so that forecasts begin anew."""
    try:
        return forecast_states(memory.get(_SOURCES, {}))
    except ValueError:
        return {}


def _is_used(chosen: Collection[str], plugins: Collection[str]) -> bool:
    """Tell whether a policy of the job may look at forecasts; of plug-ins that is not known."""
    deaf = OPTIONS_OF.keys() - {_LISTENER} - set(plugins)
    return not deaf.issuperset(chosen)
