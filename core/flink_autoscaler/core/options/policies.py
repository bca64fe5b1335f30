"""Which scaling policies a job has, and the options of all of them; part of the autoscaler's options."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.capacity import CapacityMode, CapacityOptions
from flink_autoscaler.core.options.declare import option
from flink_autoscaler.core.options.ds2 import Ds2Options
from flink_autoscaler.core.options.hpa import HpaOptions
from flink_autoscaler.core.options.option import OptionSet
from flink_autoscaler.core.options.proactive import ProactiveOptions
from flink_autoscaler.core.options.simple_policies import BacklogTimeOptions, ScheduleOptions, ThresholdOptions
from flink_autoscaler.core.options.varga import VargaOptions

DEFAULT_POLICY: Final = "capacity"
COMBINATIONS: Final = ("max", "first")
"""The words for how proposals are combined."""

OPTIONS_OF: Final[dict[str, tuple[type[OptionSet], ...]]] = {
    DEFAULT_POLICY: (CapacityOptions,),
    "ds2": (Ds2Options,),
    "proactive": (ProactiveOptions, CapacityOptions, Ds2Options),
    "hpa": (HpaOptions,),
    "varga": (VargaOptions, HpaOptions),
    "backlog-time": (BacklogTimeOptions,),
    "threshold": (ThresholdOptions,),
    "schedule": (ScheduleOptions,),
}
"""The options that each built-in policy looks at beside those that all share."""


def _combination(text: str) -> str:
    word = text.strip().lower()
    if word not in COMBINATIONS:
        raise ValueError(f"one of {', '.join(COMBINATIONS)}")
    return word


class ChoiceOptions(OptionSet):
    """Which policies there are, and what they come to together."""

    policies = option(
        "policies",
        syntax.parse_list,
        DEFAULT_POLICY,
        "Names of the policies that say what the job needs: capacity, ds2, proactive, hpa, varga, backlog-time, "
        "threshold, schedule, or names of plug-ins.",
    )
    policies_combine = option(
        "policies.combine",
        _combination,
        COMBINATIONS[0],
        "What several policies come to: max, the greatest parallelism of each vertex; first, the opinion of the first "
        "in the list that has one.",
        allowed=", ".join(COMBINATIONS),
    )


class PolicyOptions(
    ScheduleOptions,
    ThresholdOptions,
    BacklogTimeOptions,
    VargaOptions,
    HpaOptions,
    ProactiveOptions,
    Ds2Options,
    CapacityOptions,
    ChoiceOptions,
):
    """The choice of policies, and what each of them goes by; declared from the last of these classes to the first."""

    @property
    def has_own_policies(self) -> bool:
        """Whether a policy of the job may look at how its vertices wait, which the default one does not.

        Raises:
            ValueParseError: The choice cannot be read.
        """
        is_other = self.policies != (DEFAULT_POLICY,) or self.capacity_mode is not CapacityMode.ADDITIVE
        return is_other or self.hpa_filter_enabled
