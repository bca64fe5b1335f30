"""The options of the ``hpa`` policy, of its behaviour and of the filter made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.options.declare import number_from, one_of, option, unset
from flink_autoscaler.core.options.option import OptionSet


class HpaUnit(StrEnum):
    """What one number stands for."""

    JOB = "job"
    VERTEX = "vertex"


class HpaBehavior(StrEnum):
    """Whose defaults: for jobs that stop for every rescale, or those of Kubernetes."""

    FLINK = "flink"
    KUBERNETES = "kubernetes"


class RateUnit(StrEnum):
    """What a rate limit counts: subtasks, or a share of those at the start of its period."""

    PERCENT = "Percent"
    PODS = "Pods"


class Select(StrEnum):
    """Which of several rate limits counts: that of the largest change, of the smallest, or none may change."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so much change within a period of seconds."""

    unit: RateUnit
    amount: int
    period: float


@quick
@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in one direction.

    Attributes:
        window: Seconds of recommendations that have to agree.
        limits: At least one.
    """

    window: float
    limits: tuple[RateLimit, ...]
    select: Select = Select.MAX


@quick
@dataclass(frozen=True, slots=True)
class Behavior:
    """What holds in both directions.

    Attributes:
        forget_after: Seconds without a look after which nothing of what was remembered counts any more.
    """

    up: Rules
    down: Rules
    forget_after: float


_LIMIT: Final = re.compile(r"(\w++)\s++(\d++)\s*+/\s*+(\S.*+)", re.ASCII)
_LIMITS_ALLOWED: Final = "Percent or Pods, a whole number above 0, a slash and a period; several separated by commas"


def parse_rate_limits(text: str) -> tuple[RateLimit, ...]:
    """Read ``Percent 100 / 15 s, Pods 4 / 15 s``.

    Raises:
        ValueError: It cannot be read, is empty, or has an amount or a period of 0.
    """
    limits = tuple(_rate_limit(part.strip()) for part in text.split(","))
    if any(limit.amount < 1 or limit.period <= 0 for limit in limits):
        raise ValueError("amounts and periods above 0")
    return limits


def _rate_limit(text: str) -> RateLimit:
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(f"{_LIMITS_ALLOWED}; {syntax.shortened(text)!r} is not")
    unit, amount, period = match.groups()
    return RateLimit(
        syntax.parse_enum(unit, RateUnit), syntax.parse_int(amount), syntax.parse_time(period).exact_seconds
    )


_ANY_SHARE: Final = number_from(0.0)
_UP_LIMITS: Final = {
    HpaBehavior.FLINK: parse_rate_limits("Percent 1500 / 60 s"),
    HpaBehavior.KUBERNETES: parse_rate_limits("Percent 100 / 15 s, Pods 4 / 15 s"),
}
_DOWN_WINDOW: Final = {
    HpaBehavior.FLINK: syntax.parse_time("1 h"),
    HpaBehavior.KUBERNETES: syntax.parse_time("5 min"),
}


class HpaOptions(OptionSet):
    """The HorizontalPodAutoscaler's algorithm, with subtasks for pods."""

    hpa_unit = option(
        "hpa.unit",
        one_of(HpaUnit),
        "job",
        "Whether hpa looks for one parallelism for the whole job or one for each vertex.",
    )
    hpa_behavior = option(
        "hpa.behavior",
        one_of(HpaBehavior),
        "flink",
        "Defaults of windows and rate limits of hpa. flink: up in one step, down when an hour agrees, since every "
        "rescale stops the job. kubernetes: those of the HorizontalPodAutoscaler.",
    )
    hpa_sync_period = option(
        "hpa.sync-period",
        syntax.parse_time,
        "15 s",
        "Least time between two evaluations of hpa and varga; passes in between repeat the last one.",
    )
    hpa_tolerance = option(
        "hpa.tolerance",
        _ANY_SHARE,
        "0.1",
        "Relative distance of a metric from its target up to which hpa and varga leave everything as it is.",
    )
    hpa_tolerance_up = unset("hpa.tolerance.up", _ANY_SHARE, "The same for scale-ups alone.")
    hpa_tolerance_down = unset("hpa.tolerance.down", _ANY_SHARE, "The same for scale-downs alone.")
    hpa_lag_per_subtask = unset(
        "hpa.lag-per-subtask",
        number_from(1.0),
        "Records of lag that hpa takes as the target of a subtask, a second metric beside utilization. Unset: lag is "
        "not looked at.",
    )
    hpa_scale_up_window = option(
        "hpa.scale-up.window",
        syntax.parse_time,
        "0 s",
        "Time whose least recommendation a scale-up does not exceed.",
    )
    hpa_scale_up_policies = unset(
        "hpa.scale-up.policies",
        parse_rate_limits,
        "Rate limits of scale-ups, such as 'Percent 100 / 15 s, Pods 4 / 15 s'; a pod is a subtask. Unset: 'Percent "
        "1500 / 60 s', with hpa.behavior kubernetes the example.",
        allowed=_LIMITS_ALLOWED,
    )
    hpa_scale_up_select = option(
        "hpa.scale-up.select",
        one_of(Select),
        "Max",
        "Which rate limit counts: that of the largest change, of the smallest, or no scale-up at all.",
    )
    hpa_scale_down_window = unset(
        "hpa.scale-down.window",
        syntax.parse_time,
        "Time whose greatest recommendation a scale-down does not fall short of. Unset: 1 h, with hpa.behavior "
        "kubernetes 5 min.",
    )
    hpa_scale_down_policies = option(
        "hpa.scale-down.policies",
        parse_rate_limits,
        "Percent 100 / 15 s",
        "Rate limits of scale-downs, written like those of scale-ups.",
        allowed=_LIMITS_ALLOWED,
    )
    hpa_scale_down_select = option(
        "hpa.scale-down.select",
        one_of(Select),
        "Max",
        "Which rate limit counts: that of the largest change, of the smallest, or no scale-down at all.",
    )
    hpa_filter_enabled = option(
        "hpa.filter.enabled",
        syntax.parse_bool,
        "false",
        "Whether windows and rate limits of hpa hold for what all policies together come to, vertex by vertex.",
    )


def behavior_of(options: HpaOptions, forget_after: float) -> Behavior:
    """Return windows and rate limits, those that are not set as ``hpa.behavior`` says.

    Args:
        options: Of the job.
        forget_after: Seconds without a look after which nothing remembered counts any more; the windows at least.

    Raises:
        ValueParseError: A setting cannot be read.
    """
    kind = options.hpa_behavior
    up_limits, down_window = options.hpa_scale_up_policies, options.hpa_scale_down_window
    up_window = options.hpa_scale_up_window.exact_seconds
    down_seconds = (_DOWN_WINDOW[kind] if down_window is None else down_window).exact_seconds
    return Behavior(
        up=Rules(up_window, _UP_LIMITS[kind] if up_limits is None else up_limits, options.hpa_scale_up_select),
        down=Rules(down_seconds, options.hpa_scale_down_policies, options.hpa_scale_down_select),
        forget_after=max(up_window, down_seconds, forget_after),
    )
