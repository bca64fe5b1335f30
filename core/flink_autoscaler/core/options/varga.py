"""The options of the ``varga`` policy; windows, rate limits and tolerance are those of ``hpa``."""

from __future__ import annotations

from enum import StrEnum

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.declare import number_from, one_of, option, positive_duration, unset
from flink_autoscaler.core.options.option import OptionSet


class UtilizationAgg(StrEnum):
    """How the use of a job follows from that of its vertices."""

    MEAN = "mean"
    MAX = "max"


class VargaOptions(OptionSet):
    """Idleness and relative change of the lag."""

    varga_hardened = option(
        "varga.hardened",
        syntax.parse_bool,
        "true",
        "Default of varga.mask-rescale, catch-up-hold, drain-term, utilization-agg and max-ratio; false is the policy "
        "as published, which grows while a job restarts and catches up, and is meant for comparison.",
    )
    varga_mask_rescale = unset(
        "varga.mask-rescale",
        syntax.parse_bool,
        "Whether varga waits until all tasks have run for varga.deriv-window, and while nothing is read. Unset: as "
        "varga.hardened.",
    )
    varga_catch_up_hold = unset(
        "varga.catch-up-hold",
        syntax.parse_bool,
        "Whether varga keeps the parallelism while a backlog is worked off within catch-up.duration, and one metric "
        "window longer. Unset: as varga.hardened.",
    )
    varga_drain_term = unset(
        "varga.drain-term",
        syntax.parse_bool,
        "Whether varga adds what it takes to work off a backlog within catch-up.duration. Unset: as varga.hardened.",
    )
    varga_utilization_agg = unset(
        "varga.utilization-agg",
        one_of(UtilizationAgg),
        "max: busy share of the busiest vertex; mean: all tasks together, without their idle share. Unset: max, mean "
        "without varga.hardened.",
    )
    varga_max_ratio = unset(
        "varga.max-ratio",
        number_from(1.0),
        "Most by which one evaluation multiplies the parallelism. Unset: 3, no limit without varga.hardened.",
    )
    varga_utilization_target = option(
        "varga.utilization-target",
        number_from(0.01, 1.0),
        "0.7",
        "Utilization that varga aims for.",
    )
    varga_lag_rate_target = option(
        "varga.lag-rate-target",
        number_from(0.01),
        "1.0",
        "Arriving records by records read that varga aims for while the lag is above its threshold.",
    )
    varga_lag_threshold = option(
        "varga.lag-threshold",
        number_from(0.0),
        "50000",
        "Records of lag, of all sources together, up to which varga looks at the utilization alone.",
    )
    varga_deriv_window = option(
        "varga.deriv-window",
        positive_duration,
        "60 s",
        "Time over which varga measures the change of the lag, where passes are close enough; else it is the metric "
        "window.",
    )
