"""The options of the policy ``ds2``."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.bounded import limits_text, number_from
from flink_autoscaler.core.options.declare import option
from flink_autoscaler.core.options.option import OptionSet


class Combine(StrEnum):
    """How several evaluations become one."""

    MAX = "max"
    MEDIAN = "median"


def _combine(text: str) -> Combine:
    return syntax.parse_enum(text, Combine)


def _count_from(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = syntax.parse_int(text)
        if value < least:
            raise ValueError(f"at least {least}")
        return value

    return parse


class Ds2Options(OptionSet):
    """Sizing all vertices at once by their true rates (DS2)."""

    ds2_policy_interval = option("ds2.policy-interval", syntax.parse_duration, "60 s", "Time between two evaluations.")
    ds2_warm_up_intervals = option(
        "ds2.warm-up-intervals",
        _count_from(0),
        "2",
        "Evaluations that are ignored after a rescale, once all tasks run.",
        allowed="at least 0",
    )
    ds2_activation_intervals = option(
        "ds2.activation-intervals",
        _count_from(1),
        "3",
        "Evaluations in a row that are combined before anything is changed.",
        allowed="at least 1",
    )
    ds2_activation_combine = option(
        "ds2.activation-combine", _combine, "max", "How they are combined, by vertex.", allowed="max, median"
    )
    ds2_target_rate_ratio = option(
        "ds2.target-rate-ratio",
        number_from(1.0),
        "1.02",
        "Where nothing would be scaled up although more than this many times the records that a source reads arrive "
        "at it, everything is sized for so much more.",
        allowed=limits_text(1.0),
    )
    ds2_min_change_up = option(
        "ds2.min-change-up",
        _count_from(1),
        "1",
        "Subtasks by which a vertex has to grow for a rescale to be worth it.",
        allowed="at least 1",
    )
    ds2_min_change_down = option(
        "ds2.min-change-down",
        _count_from(1),
        "2",
        "Subtasks by which a vertex has to shrink for a rescale to be worth it.",
        allowed="at least 1",
    )
    ds2_scaling_factor = option(
        "ds2.scaling-factor",
        number_from(0.0),
        "0.2",
        "Head-room on top of the parallelism that is just enough; 0.2 is a fifth more.",
        allowed=limits_text(0.0),
    )
    ds2_max_fruitless = option(
        "ds2.max-fruitless",
        _count_from(1),
        "3",
        "Scale-ups in a row that may bring next to nothing, as with a hot key, before there are no more of them.",
        allowed="at least 1",
    )
    ds2_skew_aware = option(
        "ds2.skew-aware",
        syntax.parse_bool,
        "false",
        "Whether a vertex gets more subtasks, at most half as many again, where one of them does more than the others.",
    )
    ds2_add_catch_up = option(
        "ds2.add-catch-up",
        syntax.parse_bool,
        "true",
        "Whether sources are also sized for their backlog and for a restart, to be made up for in catch-up.duration.",
    )
