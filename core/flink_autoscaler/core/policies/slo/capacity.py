"""What a subtask of a vertex can do: a Kalman filter over the rate at full load and how it falls with parallelism.

``ln r(p) = ln r0 - b * ln(p / p0)``: ``r0`` is the rate of a subtask at the first parallelism that was seen, ``b``
what is lost with more.
A vertex that is held back by others reports less busy time, so that its rate at full load needs no special case.
Where subtasks share key groups, the busiest has the most of them, and its busy time is measured: what counts as
parallelism is how many subtasks would do the same if they had equal shares.
"""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.policies.slo.constants import CONSTANTS

_MIN_NOISE: Final = 1e-6
_MAX_NOISE: Final = 0.09
_MIN_SLOPE: Final = -0.05
_SMALL: Final = 1e-12
_GREAT: Final = 1e12
_MIN_LOG, _MAX_LOG = math.log(_SMALL) - 1.0, math.log(_GREAT) + 1.0
_MAX_DRIFT: Final = 1440.0
"""Minutes of drift at most, however long nothing was seen."""
_MAX_VARIANCE: Final = 1.0


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
    if busy is None or busy <= CONSTANTS.first_busy or seconds <= 0.0 or records <= 0.0:
        return None
    rate = records / seconds / (min(busy, 1.0) * subtasks)
    return rate if _SMALL < rate < _GREAT else None


def assumed(rate: float, busy: float | None, subtasks: float) -> Capacity | None:
    """Return what an idle vertex is taken to do of which nothing else was ever seen; None for one that is not idle.

    It can do what it did, as busy as that would be measured from on: the job is not kept large for want of work.

    Args:
        rate: Records/s that it read in all.
        busy: Share of time that the busiest subtask was busy.
        subtasks: See :func:`effective`.
    """
    if busy is None or busy > CONSTANTS.first_busy:
        return None
    least = rate / (CONSTANTS.first_busy * subtasks)
    return replace(Capacity.first(max(least, CONSTANTS.idle_rate), subtasks, is_rough=True), is_assumed=True)


@value
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
        is_assumed: Whether it was idle whenever it was seen.
    """

    log_rate: float
    slope: float
    parallelism: float
    rate_variance: float = CONSTANTS.first_deviation**2
    covariance: float = 0.0
    slope_variance: float = CONSTANTS.slope_deviation**2
    noise: float = CONSTANTS.first_deviation**2
    is_rough: bool = False
    is_assumed: bool = False

    @classmethod
    def first(cls, rate: float, subtasks: float, *, is_rough: bool = False) -> Capacity:
        """Begin with one measurement."""
        deviation = CONSTANTS.rough_deviation if is_rough else CONSTANTS.first_deviation
        return cls(math.log(rate), 0.0, subtasks, rate_variance=deviation**2, is_rough=is_rough)

    def rate(self, subtasks: float) -> float:
        """Return what a subtask can do, records/s."""
        return math.exp(self.log_rate - self.slope * math.log(subtasks / self.parallelism))

    @property
    def is_sound(self) -> bool:
        """Whether all numbers are within their ranges; what is read from a store may be anything."""
        return (
            _MIN_LOG <= self.log_rate <= _MAX_LOG
            and _MIN_SLOPE <= self.slope <= CONSTANTS.max_slope
            and _SMALL < self.parallelism < _GREAT
            and 0.0 <= self.rate_variance <= _MAX_VARIANCE
            and 0.0 <= self.slope_variance <= _MAX_VARIANCE
            and abs(self.covariance) <= _MAX_VARIANCE
            and _MIN_NOISE <= self.noise <= _MAX_VARIANCE
        )

    def drifted(self, minutes: float) -> Capacity:
        """Return what is still known after a time."""
        rate_variance, slope_variance = self._variances(minutes)
        return replace(self, rate_variance=rate_variance, slope_variance=slope_variance)

    def _variances(self, minutes: float) -> tuple[float, float]:
        minutes = min(max(minutes, 0.0), _MAX_DRIFT)
        return (
            min(self.rate_variance + CONSTANTS.rate_drift**2 * minutes, _MAX_VARIANCE),
            min(self.slope_variance + CONSTANTS.slope_drift**2 * minutes, _MAX_VARIANCE),
        )

    def corrected(self, rate: float, subtasks: float, minutes: float = 0.0) -> Capacity:
        """Return what is known after a measurement some minutes later."""
        rate_variance, slope_variance = self._variances(minutes)
        away = -math.log(subtasks / self.parallelism)
        to_rate = rate_variance + away * self.covariance
        to_slope = self.covariance + away * slope_variance
        spread = max(to_rate + away * to_slope, 0.0) + self.noise
        error = math.log(rate) - (self.log_rate + away * self.slope)
        cut = math.copysign(min(abs(error), CONSTANTS.outlier * math.sqrt(spread)), error)
        noise = self.noise + CONSTANTS.noise_share * (min(error * error, 9.0 * self.noise) - self.noise)
        return Capacity(
            self.log_rate + to_rate / spread * cut,
            min(max(self.slope + to_slope / spread * cut, _MIN_SLOPE), CONSTANTS.max_slope),
            self.parallelism,
            max(rate_variance - to_rate * to_rate / spread, 0.0),
            self.covariance - to_rate * to_slope / spread,
            max(slope_variance - to_slope * to_slope / spread, 0.0),
            min(max(noise, _MIN_NOISE), _MAX_NOISE),
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
    is_rough = busy is None or busy <= CONSTANTS.measured_busy
    if before is None or before.is_assumed or (before.is_rough and not is_rough):
        return before if rate is None else Capacity.first(rate, subtasks, is_rough=is_rough)
    return before.drifted(minutes) if rate is None or is_rough else before.corrected(rate, subtasks, minutes)
