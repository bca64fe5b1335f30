"""The options of the policies ``backlog-time``, ``threshold`` and ``schedule``."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.bounded import number_from, positive_duration
from flink_autoscaler.core.options.declare import option
from flink_autoscaler.core.options.option import OptionSet
from flink_autoscaler.core.options.schedule_plans import parse_plans

_SHARE: Final = number_from(0.0, 1.0)


class BacklogTimeOptions(OptionSet):
    """How long a backlog takes."""

    backlog_time_up_backlog = option(
        "backlog-time.up.backlog",
        syntax.parse_duration,
        "120 s",
        "Time that reading the backlog takes above which backlog-time scales up.",
    )
    backlog_time_up_utilization = option(
        "backlog-time.up.utilization",
        _SHARE,
        "0.9",
        "Busy share of the busiest vertex above which backlog-time scales up.",
    )
    backlog_time_drain = option(
        "backlog-time.drain",
        positive_duration,
        "60 s",
        "Time in which what backlog-time adds would read the backlog.",
    )
    backlog_time_max_ratio = option(
        "backlog-time.max-ratio",
        number_from(1.0),
        "3.0",
        "Most by which backlog-time multiplies the parallelism at once.",
    )
    backlog_time_down_backlog = option(
        "backlog-time.down.backlog",
        syntax.parse_duration,
        "10 s",
        "Time that reading the backlog takes below which backlog-time may scale down.",
    )
    backlog_time_down_utilization = option(
        "backlog-time.down.utilization",
        number_from(0.01, 1.0),
        "0.7",
        "Busy share of the busiest vertex below which backlog-time scales down, and which it then aims for.",
    )
    backlog_time_down_max_factor = option(
        "backlog-time.down.max-factor",
        _SHARE,
        "0.5",
        "Largest relative reduction by backlog-time at once.",
    )


class ThresholdOptions(OptionSet):
    """Doubling and halving."""

    threshold_up_utilization = option(
        "threshold.up.utilization",
        _SHARE,
        "0.75",
        "Busy share of the busiest vertex from which on threshold doubles the parallelism.",
    )
    threshold_up_duration = option(
        "threshold.up.duration", syntax.parse_duration, "15 min", "Time for which it has to be that busy."
    )
    threshold_down_utilization = option(
        "threshold.down.utilization",
        _SHARE,
        "0.1",
        "Busy share of the busiest vertex below which threshold halves the parallelism.",
    )
    threshold_down_duration = option(
        "threshold.down.duration", syntax.parse_duration, "6 h", "Time for which it has to be that idle."
    )


class ScheduleOptions(OptionSet):
    """Times at which a job must not be smaller, or larger, than planned."""

    schedule_plans = option(
        "schedule.plans",
        parse_plans,
        "",
        "Plans of the policy schedule, such as 'days=mon-fri, from=07:00, to=19:00, timezone=Europe/Berlin, "
        "min-parallelism=8; days=sat sun, max-parallelism=4', or a YAML list of such plans. min-rate, records/s that a "
        "source has to sustain, and vertex, a name pattern, may be given as well. Without days every day counts, "
        "without times all of it; a plan that ends before it begins ends on the next day.",
        allowed="days, from, to, timezone, vertex and at least one of min-parallelism, max-parallelism, min-rate; "
        "several plans separated by semicolons",
    )
