"""What a pass of ``varga`` needs to know of the options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from flink_autoscaler.core.options.hpa import HpaOptions, behavior_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.varga import UtilizationAgg, VargaOptions
from flink_autoscaler.core.policies.hpa.behavior import Behavior
from flink_autoscaler.core.policies.hpa.metrics import Tolerance

_MAX_RATIO: Final = 3.0


@dataclass(frozen=True, slots=True)
class VargaSettings:
    """The settings by their options' names, those that are unset filled in; durations in seconds."""

    mask_rescale: bool
    catch_up_hold: bool
    drain_term: bool
    is_mean: bool
    max_ratio: float
    utilization_target: float
    lag_rate_target: float
    lag_threshold: float
    deriv_window: float
    budget: float
    sync_period: float
    tolerance: Tolerance
    behavior: Behavior

    @classmethod
    def read(cls, configuration: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ValueParseError: A setting cannot be read.
        """
        own, hpa, shared = VargaOptions(configuration), HpaOptions(configuration), AutoscalerOptions(configuration)
        is_hard = own.varga_hardened
        agg = own.varga_utilization_agg or (UtilizationAgg.MAX if is_hard else UtilizationAgg.MEAN)
        return cls(
            mask_rescale=_either(own.varga_mask_rescale, is_hard),
            catch_up_hold=_either(own.varga_catch_up_hold, is_hard),
            drain_term=_either(own.varga_drain_term, is_hard),
            is_mean=agg is UtilizationAgg.MEAN,
            max_ratio=own.varga_max_ratio or (_MAX_RATIO if is_hard else math.inf),
            utilization_target=own.varga_utilization_target,
            lag_rate_target=own.varga_lag_rate_target,
            lag_threshold=own.varga_lag_threshold,
            deriv_window=own.varga_deriv_window.exact_seconds,
            budget=shared.catch_up_duration.exact_seconds,
            sync_period=hpa.hpa_sync_period.exact_seconds,
            tolerance=Tolerance.of(hpa),
            behavior=behavior_of(hpa, shared.metrics_window.exact_seconds),
        )


def _either(own: bool | None, default: bool) -> bool:
    return default if own is None else own
