"""The options of the policy ``proactive``."""

from __future__ import annotations

from enum import StrEnum

from flink_autoscaler.core.options.bounded import number_from, one_of
from flink_autoscaler.core.options.declare import option
from flink_autoscaler.core.options.option import OptionSet


class ProactiveBase(StrEnum):
    """How the policy sizes what it expects."""

    CAPACITY = "capacity"
    DS2 = "ds2"


class ProactiveOptions(OptionSet):
    """Sizing for what a forecast says."""

    proactive_base = option(
        "proactive.base",
        one_of(ProactiveBase),
        "capacity",
        "The policy that sizes the job for the forecast.",
    )
    forecast_cap_factor = option(
        "forecast.cap-factor",
        number_from(1.0),
        "3.0",
        "Times of what arrives now that a forecast counts for at most, unless the usual level is higher.",
    )
