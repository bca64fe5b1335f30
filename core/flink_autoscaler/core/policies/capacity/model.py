"""How much capacity a vertex needs: the model of FLIP-271, and one in which catching up may use the head-room."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.options.capacity import CapacityMode, CapacityOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.parallelism import SizingSettings
from flink_autoscaler.core.policies.base.quantities import GREATEST

CATCH_UP_UTILIZATION = 0.95
"""Share of the capacity that may be used while catching up, integral form."""


@dataclass(frozen=True, slots=True)
class CapacitySettings:
    """What sizing by capacity goes by.

    Attributes:
        mode: Which form.
        target: Utilization that is aimed for.
        upper: Utilization above which a scale-up is due.
        lower: Utilization below which a scale-down is due.
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.
        least_factor: Least factor between new and current parallelism.
        greatest_factor: Greatest such factor.
        backlog_threshold: Seconds of input above which the lag of a source is a backlog.
        outage: Of the next rescale.
        may_lower: Whether a vertex may be lowered at all.
        effectiveness: Least share of the expected gain that a scale-up has to bring; None where that is not looked at.
    """

    mode: CapacityMode
    target: float
    upper: float
    lower: float
    catch_up: float
    least_factor: float
    greatest_factor: float
    backlog_threshold: float
    outage: Outage
    may_lower: bool = True
    effectiveness: float | None = None

    @classmethod
    def of(cls, config: Mapping[str, str], outage: Outage) -> CapacitySettings:
        """Read the options of a job.

        Raises:
            ConfigError: A value cannot be read.
        """
        options = AutoscalerOptions(config)
        sizing, bounds = SizingSettings.of(options, 0), EvaluationSettings.of(options, 0)
        return cls(
            mode=CapacityOptions(config).capacity_mode,
            target=sizing.utilization_target,
            upper=min(1.0, bounds.utilization_max),
            lower=max(0.0, bounds.utilization_min),
            catch_up=options.catch_up_duration.exact_seconds,
            least_factor=max(0.0, sizing.least_factor),
            greatest_factor=sizing.greatest_factor,
            backlog_threshold=options.backlog_lag_threshold.exact_seconds,
            outage=outage,
            effectiveness=options.effectiveness_threshold if options.effectiveness_detection else None,
        )

    def with_backlog(self) -> CapacitySettings:
        """Return the settings for a job with a backlog: up only where full use does not suffice, never down."""
        return replace(self, upper=1.0, lower=0.0, may_lower=False)

    def without_lowering(self) -> CapacitySettings:
        """Return the settings with which nothing is lowered."""
        return replace(self, lower=0.0, may_lower=False)


@dataclass(frozen=True, slots=True)
class VertexLoad:
    """What arrives at one vertex.

    Attributes:
        rate: Records/s.
        lag: Records of the backlog that will come along.
        present: Capacity of the vertex now, records/s.
    """

    rate: float
    lag: float
    present: float


def needed_capacity(load: VertexLoad, settings: CapacitySettings) -> float:
    """Return the records/s that a vertex should be able to process when always busy."""
    return min(_with_outage(load, settings, settings.target), GREATEST)


def most_capacity(load: VertexLoad, settings: CapacitySettings) -> float:
    """Return the records/s above which a scale-down is due; infinite where none is permitted."""
    return _with_outage(load, settings, settings.lower)


def least_capacity(load: VertexLoad, settings: CapacitySettings) -> float:
    """Return the records/s below which a scale-up is due; no outage is planned for, as there may be none."""
    steady = _steady(load, settings.upper)
    if settings.catch_up <= 0:
        return steady
    if settings.mode is CapacityMode.ADDITIVE:
        return steady + load.lag / settings.catch_up
    return max(steady, load.rate + _lag_at_outage(load, settings.outage) / settings.catch_up)


def _with_outage(load: VertexLoad, settings: CapacitySettings, utilization: float) -> float:
    steady, outage = _steady(load, utilization), settings.outage
    if settings.catch_up <= 0:
        return steady
    if settings.mode is CapacityMode.ADDITIVE:
        return steady + (load.lag + load.rate * outage.q90) / settings.catch_up
    # Everything that has piled up, is read again or arrives meanwhile is processed when the catch-up time is over.
    records = _lag_at_outage(load, outage) + load.rate * (outage.replay + outage.q90 + settings.catch_up)
    return max(steady, records / settings.catch_up / CATCH_UP_UTILIZATION)


def _steady(load: VertexLoad, utilization: float) -> float:
    return load.rate / utilization if utilization > 0 else math.inf


def _lag_at_outage(load: VertexLoad, outage: Outage) -> float:
    """Return the records that wait when the job stops: it goes on working until then."""
    return max(0.0, load.lag + (load.rate - load.present) * outage.delay)
