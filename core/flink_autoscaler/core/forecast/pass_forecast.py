"""Forecasts within a pass: from profiles and samples to the demand that policies are shown, and what is remembered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.evaluate.downtime import expected_outage
from flink_autoscaler.core.forecast.arrivals import arrival_rates
from flink_autoscaler.core.forecast.guard import (
    OLDEST,
    ForecastScore,
    SourceState,
    issue,
    rejection_reasons,
    score_forecasts,
)
from flink_autoscaler.core.forecast.online import Horizons, source_forecast
from flink_autoscaler.core.model.codec import Codec
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult, zone_named
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import DemandForecast, LoadProfiles, Outage, SourceForecast
from flink_autoscaler.core.model.state import ForecastMemory
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.forecast import ForecastParams, forecast_settings
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.policies import DEFAULT_POLICY, OPTIONS_OF
from flink_autoscaler.core.ports.passes import EvaluatedJob

Json = dict[str, Any]


class _Scores(list[list[float]]):
    """Scores as JSON values, which are read once: they change every quarter hour, and are asked for in every pass."""

    read: tuple[ForecastScore, ...] | None = None

    def __reduce__(self) -> tuple[type[list[list[float]]], tuple[list[list[float]]]]:
        return list, (list(self),)


def forecast_document(states: Mapping[VertexId, SourceState], before: object = None) -> Json:
    """Return the states of a job's sources as JSON values; rates with three decimals.

    Args:
        states: By source.
        before: What they were read from, whatever that is; what is still the same is not written again.
    """
    known = before if isinstance(before, Mapping) else {}
    return {source: _source_document(state, known.get(source)) for source, state in states.items()}


def forecast_states(document: object) -> dict[VertexId, SourceState]:
    """Return the states that were written.

    Raises:
        ValueError: The document is something else.
    """
    if not isinstance(document, Mapping):
        raise ValueError("not the state of forecasts")
    return {source: _source_state(each) for source, each in document.items()}


def _source_document(state: SourceState, before: object) -> Json:
    match before:
        case {"scores": _Scores() as known} if known.read is state.scores:
            return {**_STATE.write(replace(state, scores=())), "scores": known}
    document: Json = _STATE.write(state)
    return {**document, "scores": _Scores(document["scores"])}


def _source_state(document: Any) -> SourceState:
    match document:
        case {"scores": _Scores() as known}:
            if known.read is None:
                known.read = _STATE.read(document).scores
            return replace(_STATE.read({**document, "scores": []}), scores=known.read)
    return _STATE.read(document)


_STATE: Final = Codec(SourceState)


DISABLED: Final = ReasonCode.FORECAST_DISABLED
"""Code of the reason why a source is planned without a forecast."""


@value
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
    settings: ForecastParams,
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
        observed = score_forecasts(states.get(source, SourceState()), now, rate)
        kept[source], outcome = _step(observed, profiles.get(source), now, horizons, settings)
        if isinstance(outcome, SourceForecast):
            forecasts[source] = outcome
        else:
            reasons.append(Reason.of(DISABLED, source, problem=outcome))
    return DemandStep(forecasts or None, kept, tuple(reasons))


def _step(
    state: SourceState, result: ProfileResult | None, now: float, horizons: Horizons, settings: ForecastParams
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
    state: SourceState, profile: LoadProfile, now: float, horizons: Horizons, settings: ForecastParams
) -> tuple[SourceState, SourceForecast | str]:
    problems = rejection_reasons(state, profile, now, settings)
    state = replace(issue(state, profile, now, settings), is_trusted=not problems)
    if problems:
        return state, "; ".join(problems)
    found = source_forecast(profile, state.recent, now, horizons, settings)
    return state, found or "the profile knows nothing about the hours to come"


UNUSED: Final = ReasonCode.FORECAST_UNUSED
"""Code of the reason why forecasts have no effect."""

_WEIGHER: Final = "slo"
"""The built-in policy that looks at every profile and judges it by itself; the default one plans with trusted ones."""

_SOURCES: Final = "sources"
_IS_TOLD: Final = "is_told"
_TO_USE: Final = (
    f"{AutoscalerOptions.forecast_enabled.key} has no effect: no policy of the job looks at forecasts. Choose "
    f"'{DEFAULT_POLICY}' or '{_WEIGHER}' in {AutoscalerOptions.policy.key}"
)

Profiles = Mapping[VertexId, ProfileResult]


@value
class PassForecast:
    """What a pass makes of the forecasts of a job.

    Attributes:
        demand: Of the sources whose forecast is trusted; None without any.
        memory: What to remember.
        reasons: Why sources are planned without a forecast.
        events: To be told.
        profiles: Those that are neither too old nor of a time zone that is not known here, trusted or not.
        outage: What the next rescale is expected to cost.
    """

    demand: DemandForecast | None
    memory: ForecastMemory
    reasons: tuple[Reason, ...]
    events: tuple[Event, ...]
    profiles: LoadProfiles
    outage: Outage

    def with_forecast(self, job: EvaluatedJob) -> EvaluatedJob:
        """Return a job with what is forecast for it."""
        return replace(job, demand=self.demand, profiles=self.profiles, outage=self.outage)


def profiles_around(results: Profiles, now: float) -> dict[VertexId, ProfileResult]:
    """Return what a pass needs of the profiles of a job; one of a time zone that is not known here is left whole."""
    return {source: _around(result, now) for source, result in results.items()}


def _around(result: ProfileResult, now: float) -> ProfileResult:
    try:
        return result if result.profile is None else replace(result, profile=result.profile.around(now))
    except ConfigError:
        return result  # the pass comes upon it, too, and tells


def usable_profiles(results: Profiles, now: float) -> LoadProfiles:
    """Return the profiles with which something can be expected, whether they have been right lately or not."""
    found = {source: each.profile for source, each in results.items() if each.profile is not None}
    return {source: each for source, each in found.items() if now - each.asof <= OLDEST and _is_known(each.timezone)}


def _is_known(timezone: str) -> bool:
    try:
        zone_named(timezone)
    except ConfigError:
        return False
    return True


def pass_forecast(job: EvaluatedJob, profiles: Profiles, plugins: Collection[str]) -> PassForecast:
    """Take in what arrives at a job that has forecasts, and forecast.

    Args:
        job: With the sample of this pass.
        profiles: Of its sources.
        plugins: Names of the policies that did not come with the autoscaler.

    Raises:
        ConfigError: An option cannot be read.
    """
    memory, options, outage = job.state.forecast, job.context.options, expected_outage(job)
    step = forecast_demand(
        arrival_rates(job.topology, job.state.samples),
        profiles,
        restore_states(memory),
        now=job.now_ms / 1000,
        horizons=Horizons.of(outage, options.catch_up_duration.exact_seconds),
        settings=options.derive(forecast_settings),
    )
    found, chosen = (
        usable_profiles(profiles, job.now_ms / 1000),
        {options.policy, options.policy_shadow or options.policy},
    )
    is_planned, is_weighed = not _policies_without_forecast(plugins).issuperset(chosen), _WEIGHER in chosen
    is_used = is_planned or is_weighed
    kept = {_SOURCES: forecast_document(step.states, memory.get(_SOURCES)), _IS_TOLD: not is_used}
    reasons = step.reasons if is_used else (Reason.of(UNUSED, problem=_TO_USE),)
    if not is_planned:
        reasons = tuple(each for each in reasons if each.vertex_id not in found)
    events = () if is_used or memory.get(_IS_TOLD) else (Event(EventType.NORMAL, "ForecastUnused", _TO_USE),)
    return PassForecast(step.demand, kept, reasons, events, found, outage)


def restore_states(memory: ForecastMemory) -> Mapping[VertexId, SourceState]:
    """Return the states that were kept; none where that cannot be read, so that forecasts begin anew."""
    try:
        return forecast_states(memory.get(_SOURCES, {}))
    except ValueError:
        return {}


def _policies_without_forecast(plugins: Collection[str]) -> set[str]:
    """Return the policies that plan without forecasts; of plug-ins that is not known."""
    return OPTIONS_OF.keys() - {DEFAULT_POLICY} - set(plugins)
