"""The options of the capacity policy that no other part has."""

from __future__ import annotations

from enum import StrEnum

from flink_autoscaler.core.options.bounded import one_of
from flink_autoscaler.core.options.declare import option
from flink_autoscaler.core.options.option import OptionSet


class CapacityMode(StrEnum):
    """How steady load and catching up share the capacity."""

    ADDITIVE = "additive"
    INTEGRAL = "integral"


class CapacityOptions(OptionSet):
    """Sizing by capacity."""

    capacity_mode = option(
        "capacity.mode",
        one_of(CapacityMode),
        "additive",
        "additive: a rescaled job has room for catching up beside that for the steady load; integral: it catches up "
        "with the room that utilization.target leaves, and gets more only where that is too little.",
    )
