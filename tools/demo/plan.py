"""Plan of the demo: the arrival curve, and waits of the daemon that fit into it."""

from __future__ import annotations

from dataclasses import dataclass

from testkit.clusters.flink.curve import Curve
from testkit.clusters.flink.job import ScalingJob

MIN_SECONDS = 120
MAX_SECONDS = 7200
DEFAULT_SECONDS = 300
SLO_SECONDS = 720
"""Length with the policy ``slo``, which reckons in minutes."""

CAPACITY, SLO = "capacity", "slo"

BASE_RATE = 150.0
MIDDLE_RATE = 700.0
PEAK_RATE = 1300.0
# A subtask of the work vertex does 500 records/s: 1 is enough at the base rate, the peak needs 4 or 5 at a
# utilization of 0.7. Sleeping longer than a millisecond keeps that number true on a machine that is busy.
COST_MICROS = 2000
SLOTS = 8
# Has many divisors, so that alignment to key groups rounds little.
MAX_PARALLELISM = 120
JOB_NAME = "orders"

LEAD_IN = 5
"""Seconds at the base rate before the first second of the plan, in which the daemon gets going."""

_SHORTEST_WITH_STEPS = 240
# Share of the time, records/s. Plateaus are several metric windows long.
_STEPS = (
    (0.0, BASE_RATE),
    (0.03, BASE_RATE),  # somebody waits for the first rescale; a metric window must fill before it anyway
    (0.05, MIDDLE_RATE),
    (0.25, MIDDLE_RATE),
    (0.27, PEAK_RATE),
    (0.54, PEAK_RATE),
    (0.57, BASE_RATE),
)
_ONE_STEP = ((0.0, BASE_RATE), (0.17, BASE_RATE), (0.20, PEAK_RATE), (0.55, PEAK_RATE), (0.58, BASE_RATE))


class PlanError(ValueError):
    """The demo cannot be planned like this; the message is for the person who asked."""


@dataclass(frozen=True)
class DemoPlan:
    """The script of one demo.

    Attributes:
        seconds: Length, without the lead-in.
        curve: Arrivals in records/s from the lead-in on, which begin and end at the base rate.
        options: What the daemon is told, with waits that fit the length.
    """

    seconds: int
    curve: Curve
    options: dict[str, str]

    @property
    def drained_lag(self) -> float:
        """The lag up to which a job counts as having caught up: two seconds of input."""
        return 2 * self.curve.rate(self.seconds)

    def job(self, start_ms: int) -> ScalingJob:
        """Return the job, with an instant for the second 0 of its curve."""
        return ScalingJob(
            name=JOB_NAME,
            curve=str(self.curve),
            start_ms=start_ms,
            splits=SLOTS,
            partition_metrics=True,
            cost_micros=COST_MICROS,
            max_parallelism=MAX_PARALLELISM,
        )


def parse_policy(text: str) -> str:
    """Read the policy that decides; empty means the default.

    Raises:
        PlanError: The demo does not know it.
    """
    policy = text.strip() or CAPACITY
    if policy not in (CAPACITY, SLO):
        raise PlanError(f"POLICY is {text!r}; it must be {CAPACITY} or {SLO}")
    return policy


def parse_seconds(text: str, default: int = DEFAULT_SECONDS) -> int:
    """Read the length of the demo; empty means the default.

    Raises:
        PlanError: Not a whole number, or out of range.
    """
    if not text.strip():
        return default
    try:
        seconds = int(text)
    except ValueError:
        raise PlanError(f"DEMO_SECONDS is {text!r}; it must be a whole number of seconds") from None
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise PlanError(f"DEMO_SECONDS is {seconds}; it must be between {MIN_SECONDS} and {MAX_SECONDS}")
    return seconds


def plan_for(seconds: int, policy: str = CAPACITY) -> DemoPlan:
    """Plan a demo in which the load rises and falls once."""
    shape = _STEPS if seconds >= _SHORTEST_WITH_STEPS else _ONE_STEP
    curve = Curve(((-float(LEAD_IN), BASE_RATE), *((round(share * seconds, 1), rate) for share, rate in shape)))
    return DemoPlan(seconds, curve, _slo_options() if policy == SLO else _options(seconds))


def _options(seconds: float) -> dict[str, str]:
    """Return what is set for the job, with waits that are to the time as the defaults are to a day."""
    return {
        "job.autoscaler.enabled": "true",
        "job.autoscaler.metrics.window": _seconds(seconds * 0.07, 12, 30),
        "job.autoscaler.stabilization.interval": _seconds(seconds * 0.025, 4, 10),
        "job.autoscaler.scale-down.interval": _seconds(seconds * 0.065, 10, 30),
        "job.autoscaler.catch-up.duration": _seconds(seconds * 0.2, 30, 60),
        "job.autoscaler.restart.time": "3 s",
        "job.autoscaler.utilization.target": "0.7",
        "job.autoscaler.vertex.max-parallelism": str(SLOTS),
        # Rates that Flink reports are means over a minute, too low for the first minute after every rescale.
        # So busy time and records are taken from the counters, and no rate is measured while a source catches up.
        "job.autoscaler.metrics.busy-time.aggregator": "AVG",
        "job.autoscaler.observed-true-processing-rate.lag-threshold": "1 h",
    }


def _slo_options() -> dict[str, str]:
    """Return what is set for a job with the policy ``slo``: a rescale costs less where a day has minutes."""
    return {
        "job.autoscaler.enabled": "true",
        "job.autoscaler.policy": SLO,
        "job.autoscaler.slo.lag": "60 s",
        "job.autoscaler.slo.rescales-per-day": "500",
        "job.autoscaler.stabilization.interval": "5 s",
        "job.autoscaler.restart.time": "3 s",
        "job.autoscaler.vertex.max-parallelism": str(SLOTS),
    }


def _seconds(value: float, least: int, greatest: int) -> str:
    return f"{round(min(max(value, least), greatest))} s"
