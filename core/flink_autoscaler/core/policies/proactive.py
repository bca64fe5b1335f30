"""The policy ``proactive``: sizes a job for the load that a forecast expects, where that is more than there is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    DemandForecast,
    JobObservation,
    PolicyInput,
    Proposal,
    SourceForecast,
)
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.options.policies import ProactiveOptions
from flink_autoscaler.core.policies.base.quantities import SourceRates, present_arrivals
from flink_autoscaler.core.policies.capacity import CapacityPolicy

NAME: Final = "proactive"
_BASE: Final = "capacity"
"""Whose sizing it is, and the key of what that remembers."""


class ProactivePolicy:
    """Scales up before the load comes, and does not go down where that would have to be undone soon.

    A forecast only ever raises what a job is sized for; without one, this is the policy ``capacity``.
    """

    @property
    def name(self) -> str:
        """The word it is chosen by."""
        return NAME

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what ``capacity`` would do for what is expected.

        Raises:
            ConfigError: A setting is invalid.
        """
        cap = ProactiveOptions.of(given.config).forecast_cap_factor
        present = present_arrivals(given.obs)
        expected = expected_arrivals(present, given.demand or {}, cap)
        own: Mapping[str, Any] = given.state.get(_BASE, {})
        proposal = CapacityPolicy().propose_for(replace(given, state=own), expected)
        reasons = (*proposal.reasons, *_forecast_reasons(given.obs, present, expected, given.demand))
        return replace(proposal, policy=NAME, reasons=reasons, state={_BASE: dict(proposal.state)})


def expected_arrivals(present: SourceRates, demand: DemandForecast, cap: float) -> SourceRates:
    """Return what the sources are sized for.

    Args:
        present: What arrives now.
        demand: Forecast by source; what it lacks arrives as it does now.
        cap: Times of what arrives now that a forecast counts for at most, unless the usual level is higher.

    Returns:
        Each at least what arrives now, and for going down at least what it is for going up.
    """
    up = {v: _expected(rate, demand.get(v), cap) for v, rate in present.up.items()}
    down = {v: max(up[v], _expected(rate, demand.get(v), cap, is_down=True)) for v, rate in present.down.items()}
    return SourceRates(up, down)


def _expected(rate: float, forecast: SourceForecast | None, cap: float, *, is_down: bool = False) -> float:
    if forecast is None:
        return rate
    peak = forecast.down if is_down else forecast.up
    return min(max(rate, peak), max(cap * rate, forecast.level))


def _forecast_reasons(
    obs: JobObservation, present: SourceRates, expected: SourceRates, demand: DemandForecast | None
) -> list[Reason]:
    if demand is None:
        return [Reason("FORECAST_ABSENT", "there is no forecast to rely on; sized for what arrives now")]
    raised = [v for v, rate in present.up.items() if expected.down[v] > rate]
    return [_raised(obs, v, present.up[v], expected) for v in raised]


def _raised(obs: JobObservation, vertex_id: VertexId, now: float, expected: SourceRates) -> Reason:
    up, down = expected.up[vertex_id], expected.down[vertex_id]
    return Reason(
        "FORECAST_HIGHER",
        f"{obs.vertices[vertex_id].name}: {up:.6g} records/s expected soon, {down:.6g} later, {now:.6g} arrive now",
        vertex_id,
        (("now", now), ("soon", up), ("later", down)),
    )
