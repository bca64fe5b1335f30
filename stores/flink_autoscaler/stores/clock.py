"""A clock for waiting that nobody sets."""

from __future__ import annotations

import time


def monotonic_seconds() -> float:
    """Return the seconds of a clock that never goes back and also runs while the machine is suspended."""
    boot_time: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)
