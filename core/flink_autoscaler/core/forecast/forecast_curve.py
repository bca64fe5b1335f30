"""How the load of a job is expected to go on, from what a pass had before it: for people who look at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.forecast.guard import SourceState
from flink_autoscaler.core.forecast.online import correction, expected_rate
from flink_autoscaler.core.forecast.pass_forecast import restore_states, usable_profiles
from flink_autoscaler.core.model.load_profile import AHEAD, BUCKET, LoadProfile, bucket_start
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.forecast import ForecastParams, forecast_settings
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest


@dataclass(frozen=True, slots=True)
class ExpectedLoad:
    """What is expected at an instant (epoch seconds): sums over the sources, records/s.

    Attributes:
        median: Of the medians.
        upper: Of the upper quantiles; a little more than the quantile of the sum, as for a pass.
    """

    at: float
    median: float
    upper: float


@dataclass(frozen=True, slots=True)
class ForecastCurve:
    """What is expected from a pass on.

    Attributes:
        asof: End of the history of the oldest profile, epoch seconds.
        is_trusted: Whether the forecasts of all sources have been right enough lately to be planned with.
    """

    points: tuple[ExpectedLoad, ...]
    asof: float
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class _Source:
    profile: LoadProfile
    k: float
    tau: float

    def at(self, at: float, now: float) -> tuple[float, float] | None:
        """Return the median and the upper quantile; None where the profile does not know."""
        profile = self.profile
        found = [
            expected_rate(profile, shares, at, now=now, k=self.k, tau=self.tau) for shares in (profile.q50, profile.q90)
        ]
        median, upper = found
        return None if median is None or upper is None else (median, max(median, upper))


def forecast_curve(request: PassRequest, outcome: PassOutcome, horizon: float) -> ForecastCurve | None:
    """Return how the load goes on, with the profiles that a pass had and the corrections that it made.

    Args:
        request: What the pass was asked.
        outcome: What it came to; its state remembers how the last hours went.
        horizon: Seconds to look ahead, a day at most.

    Returns:
        Now, and the beginnings of the quarter hours ahead. None where the forecasts of the job are off, where a source
        has no profile that could be used, or where the profiles know nothing about the time ahead.
    """
    try:
        options = request.context.options
        if not options.forecast_enabled or outcome.observation.topology is None:
            return None
        settings = forecast_settings(options)
        sources = [
            v
            for v, vertex in outcome.observation.topology.vertices.items()
            if vertex.is_source and not vertex.is_finished
        ]
        return _curve(request, restore_states(outcome.state.forecast), sources, settings, min(horizon, AHEAD))
    except (AutoscalerError, OverflowError):  # an option that cannot be read, or a growth beyond all numbers
        return None


def _curve(
    request: PassRequest,
    states: Mapping[VertexId, SourceState],
    sources: Sequence[VertexId],
    settings: ForecastParams,
    horizon: float,
) -> ForecastCurve | None:
    now = request.now_ms / 1000
    profiles = usable_profiles(request.profiles, now)
    if not sources or any(source not in profiles for source in sources):
        return None
    known = {source: states.get(source, SourceState()) for source in sources}
    parts = [
        _Source(profiles[source], correction(profiles[source], state.recent, now, settings), settings.decay_time)
        for source, state in known.items()
    ]
    points = tuple(_points(parts, now, horizon))
    if len(points) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    asof = min(profiles[source].asof for source in sources)
    return ForecastCurve(points, asof, all(state.is_trusted for state in known.values()))


def _points(parts: Sequence[_Source], now: float, horizon: float) -> Iterator[ExpectedLoad]:
    first = bucket_start(now) + BUCKET
    for at in (now, *range(first, int(now + horizon) + 1, BUCKET)):
        found = [part.at(at, now) for part in parts]
        known = [each for each in found if each is not None]
        if len(known) == len(parts):
            yield ExpectedLoad(at, sum(median for median, _ in known), sum(upper for _, upper in known))
