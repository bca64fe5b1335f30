"""The options of the policy ``ds2``."""

from __future__ import annotations

from enum import StrEnum

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.declare import count_from, number_from, one_of, option
from flink_autoscaler.core.options.option import OptionSet


class Combine(StrEnum):
    """How several evaluations become one."""

    MAX = "max"
    MEDIAN = "median"


class Ds2Options(OptionSet):
    """Sizing all vertices at once by their true rates (DS2)."""

    ds2_policy_interval = option("ds2.policy-interval", syntax.parse_time, "60 s", "Time between two evaluations.")
    ds2_warm_up_intervals = option(
        "ds2.warm-up-intervals",
        count_from(0),
        "2",
        "Evaluations that are ignored after a rescale, once all tasks run.",
    )
    ds2_activation_intervals = option(
        "ds2.activation-intervals",
        count_from(1),
        "3",
        "Evaluations in a row that are combined before anything is changed.",
    )
    ds2_activation_combine = option(
        "ds2.activation-combine", one_of(Combine), "max", "How they are combined, by vertex."
    )
    ds2_target_rate_ratio = option(
        "ds2.target-rate-ratio",
        number_from(1.0),
        "1.02",
        "Where nothing would be scaled up although more than this many times the records that a source reads arrive "
        "at it, everything is sized for so much more.",
    )
    ds2_min_change_up = option(
        "ds2.min-change-up",
        count_from(1),
        "1",
        "Subtasks by which a vertex has to grow for a rescale to be worth it.",
    )
    ds2_min_change_down = option(
        "ds2.min-change-down",
        count_from(1),
        "2",
        "Subtasks by which a vertex has to shrink for a rescale to be worth it.",
    )
    ds2_scaling_factor = option(
        "ds2.scaling-factor",
        number_from(0.0),
        "0.2",
        "Head-room on top of the parallelism that is just enough; 0.2 is a fifth more.",
    )
    ds2_max_fruitless = option(
        "ds2.max-fruitless",
        count_from(1),
        "3",
        "Scale-ups in a row that may bring next to nothing, as with a hot key, before there are no more of them.",
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
