"""The options of the ``slo`` policy, besides ``slo.lag``, the acceptable lag, which all policies share."""

from __future__ import annotations

from flink_autoscaler.core.options.declare import number, time
from flink_autoscaler.core.options.option import OptionSet


class SloOptions(OptionSet):
    """What lateness and rescales cost beside the slots that are held."""

    slo_late_weight = number(
        "slo.late-weight",
        "32",
        "Price that slo puts on a second above slo.lag, in seconds of the mean size of the job; one that noise is only "
        "expected to bring counts a quarter. Higher holds more slots, rescales less often and is late less often.",
        least=0.01,
        most=1000.0,
    )
    slo_error_budget = number(
        "slo.error-budget",
        "0.005",
        "Share of the time, over about seven days, that the lag may be above slo.lag; from five eighths of it on "
        "slo puts more on lateness, up to four times slo.late-weight.",
        least=0.0001,
        most=0.5,
    )
    slo_rescale_price = time(
        "slo.rescale-price",
        "900 s",
        "Price that slo puts on a scale-down besides its outage, in seconds of the size that the job then has.",
    )
    slo_rescales_per_day = number(
        "slo.rescales-per-day",
        "8",
        "Rescales within 24 hours at which slo doubles slo.rescale-price; the price grows with the square of them and "
        "forbids none.",
        least=0.1,
    )
    slo_rescale_price_up = time(
        "slo.rescale-price-up",
        "300 s",
        "Price that slo puts on a scale-up instead of slo.rescale-price: when the load outgrows the job, a higher one "
        "merely delays what cannot be avoided.",
    )
    slo_small_rescales = number(
        "slo.small-rescales",
        "1",
        "How much dearer slo makes rescales that change the size by half or less; 0 for no dearer than others. At 1 "
        "such a scale-up costs about eleven times slo.rescale-price-up, such a scale-down an hour of the whole job "
        "besides its price from the third rescale within 24 hours on, and less before. A job that uses up its error "
        "budget pays less for such scale-ups.",
        least=0.0,
        most=100.0,
    )
    slo_patience = number(
        "slo.patience",
        "0.35",
        "Share of the price of a scale-down that slo must have forgone by waiting before it scales down; half of it "
        "where at least three scale-downs of the last 24 hours were followed by a scale-up, at most one of them within "
        "an hour.",
        least=0.0,
        most=100.0,
    )
