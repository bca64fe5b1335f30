"""The policies that come with the autoscaler, by the names they are chosen by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.policy_values import ScalingPolicy
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.backlog_time import BacklogTimePolicy
from flink_autoscaler.core.policies.capacity.policy import CapacityPolicy
from flink_autoscaler.core.policies.ds2.policy import Ds2Policy
from flink_autoscaler.core.policies.hpa.policy import HpaPolicy
from flink_autoscaler.core.policies.proactive import ProactivePolicy
from flink_autoscaler.core.policies.schedule.policy import SchedulePolicy
from flink_autoscaler.core.policies.threshold import ThresholdPolicy
from flink_autoscaler.core.policies.varga.policy import VargaPolicy

_ALL: Final[tuple[ScalingPolicy, ...]] = (
    CapacityPolicy(),
    Ds2Policy(),
    ProactivePolicy(),
    HpaPolicy(),
    VargaPolicy(),
    BacklogTimePolicy(),
    ThresholdPolicy(),
    SchedulePolicy(),
)

POLICIES: Final[Mapping[str, ScalingPolicy]] = MappingProxyType({policy.name: policy for policy in _ALL})
"""The built-in policies."""


def known_policies(plugins: Mapping[str, ScalingPolicy]) -> dict[str, ScalingPolicy]:
    """Return all policies by name; a plug-in with the name of a built-in one replaces it."""
    return {**POLICIES, **plugins}


def chosen_policies(names: Sequence[str], plugins: Mapping[str, ScalingPolicy]) -> dict[str, ScalingPolicy]:
    """Return the policies with some names, in their order.

    Args:
        names: As configured.
        plugins: Policies that did not come with the autoscaler, by name.

    Raises:
        ConfigError: There is no policy with one of the names; the message names all that there are.
    """
    known = known_policies(plugins)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"The option {AutoscalerOptions.policies.key} names {', '.join(map(repr, unknown))}, but the policies are "
            f"{', '.join(sorted(known))}"
        )
    return {name: known[name] for name in names}
