"""Which scaling policies a job has, and the options of those that have few; part of the autoscaler's options."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.options.declare import option
from flink_autoscaler.core.options.option import OptionSet
from flink_autoscaler.core.options.schedule_plans import parse_plans
from flink_autoscaler.core.options.slo import SloOptions
from flink_autoscaler.core.options.varga import VargaOptions


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


def _chosen(text: str) -> str:
    name = text.strip()
    if not name or ";" in name:
        raise ValueError("the name of one policy")
    return name


def _name(text: str) -> str | None:
    return text.strip() or None


class ChoiceOptions(OptionSet):
    """Which policy a job has, and which one is asked beside it."""

    policy = option("policy", _chosen, DEFAULT_POLICY, allowed="the name of one policy")
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
