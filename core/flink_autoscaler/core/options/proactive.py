"""The options of the policy ``proactive``."""

from __future__ import annotations

from enum import StrEnum

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.bounded import limits_text, number_from
from flink_autoscaler.core.options.declare import option
from flink_autoscaler.core.options.option import OptionSet


class ProactiveBase(StrEnum):
    """How the policy sizes what it expects."""

    CAPACITY = "capacity"
    DS2 = "ds2"


def _base(text: str) -> ProactiveBase:
    return syntax.parse_enum(text, ProactiveBase)


class ProactiveOptions(OptionSet):
    """Sizing for what a forecast says."""

    proactive_base = option(
        "proactive.base",
        _base,
        "capacity",
        "The policy that sizes the job for the forecast.",
        allowed="capacity, ds2",
    )
    forecast_cap_factor = option(
        "forecast.cap-factor",
        number_from(1.0),
        "3.0",
        "Times of what arrives now that a forecast counts for at most, unless the usual level is higher.",
        allowed=limits_text(1.0),
    )
