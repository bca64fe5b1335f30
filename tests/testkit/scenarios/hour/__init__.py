"""The first hour of a new user in a quarter of an hour: what is typed, what comes back, and what Flink says of it."""

from testkit.scenarios.hour.diary import Diary, Ran
from testkit.scenarios.hour.site import (
    AUDIT,
    ORDERS,
    PAYMENTS,
    PAYMENTS_RATE,
    QUIET_SECONDS,
    Site,
    daemon,
    opened,
    widths,
)

__all__ = [
    "AUDIT",
    "ORDERS",
    "PAYMENTS",
    "PAYMENTS_RATE",
    "QUIET_SECONDS",
    "Diary",
    "Ran",
    "Site",
    "daemon",
    "opened",
    "widths",
]
