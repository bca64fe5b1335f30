"""Which scaling policies a job has, and the options of each of them; part of the autoscaler's options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.declare import choice, decimal, option, time
from flink_autoscaler.core.options.option import OptionSet
from flink_autoscaler.core.options.schedule_plans import parse_plans


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


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """The rules of one direction.

    Attributes:
        window: Seconds of recommendations that have to agree.
        limits: At least one.
    """

    window: float
    limits: tuple[RateLimit, ...]
    select: Select = Select.MAX


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
        raise ValueError(f"{_LIMITS_ALLOWED}; {syntax.abbreviate(text)!r} is not")
    unit, amount, period = match.groups()
    return RateLimit(
        syntax.parse_enum(unit, RateUnit), syntax.parse_int(amount), syntax.parse_time(period).exact_seconds
    )


class VargaOptions(OptionSet):
    """Utilization and relative change of the lag, followed as a HorizontalPodAutoscaler does."""

    varga_utilization_target = decimal("varga.utilization-target", "0.7", least=0.01, most=1.0)
    varga_lag_rate_target = decimal("varga.lag-rate-target", "1.0", least=0.01)
    varga_lag_threshold = decimal("varga.lag-threshold", "50000", least=0.0)
    varga_tolerance = decimal("varga.tolerance", "0.1", least=0.0)
    varga_sync_period = time("varga.sync-period", "15 s")
    varga_scale_up_window = time("varga.scale-up.window", "0 s")
    varga_scale_up_policies = option(
        "varga.scale-up.policies", parse_rate_limits, "Percent 1500 / 60 s", allowed=_LIMITS_ALLOWED
    )
    varga_scale_up_select = choice(Select, "varga.scale-up.select", "Max")
    varga_scale_down_window = time("varga.scale-down.window", "1 h")
    varga_scale_down_policies = option(
        "varga.scale-down.policies", parse_rate_limits, "Percent 100 / 15 s", allowed=_LIMITS_ALLOWED
    )
    varga_scale_down_select = choice(Select, "varga.scale-down.select", "Max")

    @property
    def varga_up(self) -> ScalingRules:
        """The rules of scale-ups."""
        window = self.varga_scale_up_window.exact_seconds
        return ScalingRules(window, self.varga_scale_up_policies, self.varga_scale_up_select)

    @property
    def varga_down(self) -> ScalingRules:
        """The rules of scale-downs."""
        window = self.varga_scale_down_window.exact_seconds
        return ScalingRules(window, self.varga_scale_down_policies, self.varga_scale_down_select)


class SloOptions(OptionSet):
    """What ``slo`` may spend beside ``slo.lag``: time above it, and rescales."""

    slo_error_budget = decimal("slo.error-budget", "0.005", least=0.0001, most=0.5)
    slo_rescales_per_day = decimal("slo.rescales-per-day", "8", least=0.1)


class ScheduleOptions(OptionSet):
    """Times at which a job must not be smaller, or larger, than planned, whatever its policy wants."""

    schedule_plans = option(
        "schedule.plans",
        parse_plans,
        "",
        allowed="period or days, from, to, timezone, vertex and at least one of min-parallelism, max-parallelism, "
        "min-rate; several plans separated by semicolons",
    )


DEFAULT_POLICY: Final = "capacity"
OPTIONS_OF: Final[dict[str, tuple[type[OptionSet], ...]]] = {
    DEFAULT_POLICY: (),
    "varga": (VargaOptions,),
    "slo": (SloOptions,),
}
"""The options that each built-in policy looks at beside those that all share."""


def _parse_choice(text: str) -> str:
    name = text.strip()
    if not name or ";" in name:
        raise ValueError("the name of one policy")
    return name


def _name(text: str) -> str | None:
    return text.strip() or None


class ChoiceOptions(OptionSet):
    """Which policy a job has, and which one is asked beside it."""

    policy = option("policy", _parse_choice, DEFAULT_POLICY, allowed="the name of one policy")
    policy_shadow = option("policy.shadow", _name, "", allowed="capacity, varga, slo, or a plug-in")


class PolicyOptions(
    SloOptions,
    ScheduleOptions,
    VargaOptions,
    ChoiceOptions,
):
    """The choice of policies, and what each of them goes by; declared from the last of these classes to the first."""

    @property
    def has_own_policies(self) -> bool:
        """Whether a policy of the job may look at how its vertices wait, which the default one does not.

        Raises:
            ValueParseError: The choice cannot be read.
        """
        return self.policy != DEFAULT_POLICY or bool(self.policy_shadow)
