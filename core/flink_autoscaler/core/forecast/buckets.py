"""Rates of single passes, gathered into quarter hours."""

from __future__ import annotations

from dataclasses import dataclass

from flink_autoscaler.core.forecast.online import Bucket
from flink_autoscaler.core.model.load_profile import LEAST_MINUTES, bucket_start


@dataclass(frozen=True, slots=True)
class OpenBucket:
    """A quarter hour that is not over, or whose end nobody has noticed yet.

    Attributes:
        start: Its beginning.
        minutes: One bit for every minute that has a sample.
        count: Samples.
        total: Sum of their rates.
    """

    start: int
    minutes: int = 0
    count: int = 0
    total: float = 0.0

    def with_sample(self, at: float, rate: float) -> OpenBucket:
        """Return the quarter hour with one more sample of it."""
        minute = 1 << int(at - self.start) // 60
        return OpenBucket(self.start, self.minutes | minute, self.count + 1, self.total + rate)

    def closed(self) -> Bucket | None:
        """Return the quarter hour as complete; None when too many minutes are missing."""
        if self.minutes.bit_count() < LEAST_MINUTES:
            return None
        return Bucket(self.start, self.total / self.count)


def gather(bucket: OpenBucket | None, at: float, rate: float | None) -> tuple[OpenBucket, Bucket | None]:
    """Add a sample to the quarter hour of its instant.

    Args:
        bucket: The last one; None at first.
        at: Instant of the sample.
        rate: Records/s; None when it is not known.

    Returns:
        The quarter hour of the instant, and the one before that is complete now, if there is one.
    """
    start = bucket_start(at)
    is_same = bucket is not None and bucket.start == start
    current = bucket if bucket is not None and is_same else OpenBucket(start)
    over = bucket.closed() if bucket is not None and bucket.start < start else None
    return (current if rate is None else current.with_sample(at, rate)), over
