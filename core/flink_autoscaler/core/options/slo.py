"""The options of the ``slo`` policy, besides ``slo.lag``, the acceptable lag, which all policies share."""

from __future__ import annotations

from flink_autoscaler.core.options.declare import number, time
from flink_autoscaler.core.options.option import OptionSet


class SloOptions(OptionSet):
    """What lateness and rescales cost beside the slots that are held."""

    slo_late_weight = number("slo.late-weight", "32", least=0.01, most=1000.0)
    slo_error_budget = number("slo.error-budget", "0.005", least=0.0001, most=0.5)
    slo_rescale_price = time("slo.rescale-price", "900 s")
    slo_rescales_per_day = number("slo.rescales-per-day", "8", least=0.1)
    slo_rescale_price_up = time("slo.rescale-price-up", "300 s")
    slo_small_rescales = number("slo.small-rescales", "1", least=0.0, most=100.0)
    slo_patience = number("slo.patience", "0.35", least=0.0, most=100.0)
