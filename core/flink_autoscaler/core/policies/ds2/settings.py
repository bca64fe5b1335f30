"""The values of the options that the policy ``ds2`` goes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flink_autoscaler.core.options.ds2 import Combine, Ds2Options
from flink_autoscaler.core.options.job import AutoscalerOptions


@dataclass(frozen=True, slots=True)
class Ds2Settings:
    """What the policy goes by; times in seconds, see the options for the rest.

    Attributes:
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.
        backlog_threshold: Seconds of input above which the lag of a source is a backlog.
    """

    interval: float
    warm_up: int
    activation: int
    combine: Combine
    ratio: float
    least_up: int
    least_down: int
    factor: float
    max_fruitless: int
    is_skew_aware: bool
    catch_up: float
    backlog_threshold: float

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Ds2Settings:
        """Read the options of a job.

        Raises:
            ConfigError: A value cannot be read.
        """
        own, shared = Ds2Options(config), AutoscalerOptions(config)
        return cls(
            interval=own.ds2_policy_interval.exact_seconds,
            warm_up=own.ds2_warm_up_intervals,
            activation=own.ds2_activation_intervals,
            combine=own.ds2_activation_combine,
            ratio=own.ds2_target_rate_ratio,
            least_up=own.ds2_min_change_up,
            least_down=own.ds2_min_change_down,
            factor=own.ds2_scaling_factor,
            max_fruitless=own.ds2_max_fruitless,
            is_skew_aware=own.ds2_skew_aware,
            catch_up=shared.catch_up_duration.exact_seconds if own.ds2_add_catch_up else 0.0,
            backlog_threshold=shared.backlog_lag_threshold.exact_seconds,
        )
