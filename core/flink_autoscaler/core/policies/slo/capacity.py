"""What a subtask of a vertex can do: a Kalman filter over the rate at full load and how it falls with parallelism.

``ln r(p) = ln r0 - b * ln(p / p0)``: ``r0`` is the rate of a subtask at the first parallelism that was seen, ``b``
what is lost with more.
A vertex that is held back by others reports less busy time, so that its rate at full load needs no special case.
Where subtasks share key groups, the busiest has the most of them, and its busy time is measured: what counts as
parallelism is how many subtasks would do the same if they had equal shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from flink_autoscaler.core.model.quick import quick, replace

FIRST_DEVIATION: Final = 0.05
"""Of the logarithm of the rate, before and of the first measurement."""
SLOPE_DEVIATION: Final = 0.07
"""Of the loss with parallelism, before anything is known of it."""
RATE_DRIFT: Final = 0.002**2
SLOPE_DRIFT: Final = 0.0005**2
"""Variance that a minute adds."""
NOISE_SHARE: Final = 0.05
LEAST_NOISE: Final = 1e-6
GREATEST_NOISE: Final = 0.09
OUTLIER: Final = 4.0
"""Standard deviations at which an innovation is cut."""
LEAST_SLOPE: Final = -0.05
GREATEST_SLOPE: Final = 0.8
LEAST_BUSY: Final = 0.1
"""Share of busy time from which on the rate at full load is measured."""
LEAST_FIRST_BUSY: Final = 0.005
"""The same for the first estimate, which may be rough."""
ROUGH_DEVIATION: Final = 0.4
"""Of a first estimate from little busy time."""
SMALL: Final = 1e-12
GREAT: Final = 1e12
_DIGITS: Final = (6, 6, 6, 9, 9, 9, 9)
"""To which the numbers of a capacity are remembered."""
_LEAST_LOG: Final = math.log(SMALL) - 1.0
_GREATEST_LOG: Final = math.log(GREAT) + 1.0
GREATEST_DRIFT: Final = 1440.0
"""Minutes of drift at most, however long nothing was seen."""
GREATEST_VARIANCE: Final = 1.0


def effective(parallelism: int, groups: int | None) -> float:
    """Return how many subtasks with equal shares would do as much.

    Args:
        parallelism: Subtasks, at least 1.
        groups: Key groups or partitions that they share; None for even shares.
    """
    if groups is None or groups < 1:
        return float(parallelism)
    return groups / math.ceil(groups / parallelism)


def measured(records: float, seconds: float, busy: float | None, subtasks: float) -> float | None:
    """Return the rate at full load of a subtask, records/s; None where too little was seen to tell.

    Args:
        records: Read in that time.
        seconds: The time.
        busy: Share of it that the busiest subtask was busy.
        subtasks: See :func:`effective`.
    """
    if busy is None or busy <= LEAST_FIRST_BUSY or seconds <= 0.0 or records <= 0.0:
        return None
    rate = records / seconds / (min(busy, 1.0) * subtasks)
    return rate if SMALL < rate < GREAT else None


@quick
@dataclass(frozen=True, slots=True)
class Capacity:
    """What is known of the subtasks of one vertex.

    Attributes:
        log_rate: Natural logarithm of the rate of a subtask at ``parallelism``, records/s.
        slope: What is lost with more of them.
        parallelism: At which the first measurement was made; not whole where shares are uneven.
        rate_variance: Of ``log_rate``.
        covariance: Of both.
        slope_variance: Of ``slope``.
        noise: Variance of a measurement.
        is_rough: Whether nothing but little busy time has been seen.
    """

    log_rate: float
    slope: float
    parallelism: float
    rate_variance: float = FIRST_DEVIATION**2
    covariance: float = 0.0
    slope_variance: float = SLOPE_DEVIATION**2
    noise: float = FIRST_DEVIATION**2
    is_rough: bool = False

    @classmethod
    def first(cls, rate: float, subtasks: float, *, is_rough: bool = False) -> Capacity:
        """Begin with one measurement."""
        deviation = ROUGH_DEVIATION if is_rough else FIRST_DEVIATION
        return cls(math.log(rate), 0.0, subtasks, rate_variance=deviation**2, is_rough=is_rough)

    def rate(self, subtasks: float) -> float:
        """Return what a subtask can do, records/s."""
        return math.exp(self.log_rate - self.slope * math.log(subtasks / self.parallelism))

    def deviation(self, subtasks: float) -> float:
        """Return the standard deviation of the logarithm of :meth:`rate`."""
        away = -math.log(subtasks / self.parallelism)
        variance = self.rate_variance + 2.0 * away * self.covariance + away * away * self.slope_variance
        return math.sqrt(max(variance, 0.0))

    def drifted(self, minutes: float) -> Capacity:
        """Return what is still known after a time."""
        rate_variance, slope_variance = self._variances(minutes)
        return replace(self, rate_variance=rate_variance, slope_variance=slope_variance)

    def _variances(self, minutes: float) -> tuple[float, float]:
        minutes = min(max(minutes, 0.0), GREATEST_DRIFT)
        return (
            min(self.rate_variance + RATE_DRIFT * minutes, GREATEST_VARIANCE),
            min(self.slope_variance + SLOPE_DRIFT * minutes, GREATEST_VARIANCE),
        )

    def corrected(self, rate: float, subtasks: float, minutes: float = 0.0) -> Capacity:
        """Return what is known after a measurement some minutes later."""
        rate_variance, slope_variance = self._variances(minutes)
        away = -math.log(subtasks / self.parallelism)
        to_rate = rate_variance + away * self.covariance
        to_slope = self.covariance + away * slope_variance
        spread = max(to_rate + away * to_slope, 0.0) + self.noise
        error = math.log(rate) - (self.log_rate + away * self.slope)
        cut = math.copysign(min(abs(error), OUTLIER * math.sqrt(spread)), error)
        noise = self.noise + NOISE_SHARE * (min(error * error, 9.0 * self.noise) - self.noise)
        return Capacity(
            self.log_rate + to_rate / spread * cut,
            min(max(self.slope + to_slope / spread * cut, LEAST_SLOPE), GREATEST_SLOPE),
            self.parallelism,
            max(rate_variance - to_rate * to_rate / spread, 0.0),
            self.covariance - to_rate * to_slope / spread,
            max(slope_variance - to_slope * to_slope / spread, 0.0),
            min(max(noise, LEAST_NOISE), GREATEST_NOISE),
        )

    def as_json(self) -> list[float]:
        """Return the numbers, for :meth:`read`."""
        means = (self.log_rate, self.slope, self.parallelism)
        variances = (self.rate_variance, self.covariance, self.slope_variance, self.noise)
        return [*map(round, (*means, *variances), _DIGITS), int(self.is_rough)]

    @classmethod
    def read(cls, stored: Any) -> Capacity | None:
        """Read what :meth:`as_json` wrote; None for anything else."""
        try:
            log_rate, slope, parallelism, variance, covariance, slope_variance, noise, rough = map(float, stored)
        except (TypeError, ValueError, OverflowError):
            return None
        found = cls(log_rate, slope, parallelism, variance, covariance, slope_variance, noise, is_rough=rough != 0.0)
        return found if _is_sound(found) else None


def _is_sound(capacity: Capacity) -> bool:
    """Return whether all numbers are within their ranges, which NaN never is."""
    return (
        _LEAST_LOG <= capacity.log_rate <= _GREATEST_LOG
        and LEAST_SLOPE <= capacity.slope <= GREATEST_SLOPE
        and SMALL < capacity.parallelism < GREAT
        and 0.0 <= capacity.rate_variance <= GREATEST_VARIANCE
        and 0.0 <= capacity.slope_variance <= GREATEST_VARIANCE
        and -GREATEST_VARIANCE <= capacity.covariance <= GREATEST_VARIANCE
        and LEAST_NOISE <= capacity.noise <= GREATEST_VARIANCE
    )


def learned(
    before: Capacity | None, rate: float | None, subtasks: float, *, busy: float | None, minutes: float
) -> Capacity | None:
    """Return what is known of a vertex after a pass.

    Args:
        before: What was known.
        rate: See :func:`measured`; None measures nothing.
        subtasks: See :func:`effective`.
        busy: Share of time that the busiest subtask was busy.
        minutes: Since the pass before.
    """
    is_rough = busy is None or busy <= LEAST_BUSY
    if before is None or (before.is_rough and not is_rough):
        return before if rate is None else Capacity.first(rate, subtasks, is_rough=is_rough)
    return before.drifted(minutes) if rate is None or is_rough else before.corrected(rate, subtasks, minutes)
