"""How the daemon's own making of load profiles goes, and what Prometheus is told about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BUILD_COUNTERS: Final = {
    "successes": "Runs that made the load profiles.",
    "failures": "Runs that failed.",
    "skipped": "Runs left out because the one before was still under way.",
}
BUILD_GAUGES: Final = {
    "running": "Whether load profiles are being made.",
    "next_timestamp_seconds": "When they are made next, epoch seconds.",
    "last_success_timestamp_seconds": "When the last run that made them ended, epoch seconds.",
    "last_seconds": "How long the last run took that ended, well or not.",
    "last_sources": "Sources that the last good run had a result for.",
    "last_profiles": "Sources that it had a profile for.",
}


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """The runs since the start of the daemon, as the series say it; None where there was none yet."""

    successes: int = 0
    failures: int = 0
    skipped: int = 0
    running: bool = False
    next_timestamp_seconds: float | None = None
    last_success_timestamp_seconds: float | None = None
    last_seconds: float | None = None
    last_sources: int | None = None
    last_profiles: int | None = None
