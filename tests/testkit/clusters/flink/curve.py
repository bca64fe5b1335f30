"""The arrival curve of the scaling job, for tests that must know what it does."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Self


@dataclass(frozen=True)
class Curve:
    """Records/s over time: linear between points, the last value holds, nothing before the first.

    Attributes:
        points: ``(second, rate)``, seconds ascending, at least one.
    """

    points: tuple[tuple[float, float], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the form that the job takes, such as ``"0:500,60:500,90:4000"``."""
        pairs = (point.split(":") for point in text.split(","))
        return cls(tuple((float(second), float(rate)) for second, rate in pairs))

    def __str__(self) -> str:
        return ",".join(f"{second:g}:{rate:g}" for second, rate in self.points)

    def rate(self, second: float) -> float:
        """Return the records/s that arrive at ``second``."""
        for (start, before), (end, after) in pairwise(self.points):
            if start <= second < end:
                return before + (after - before) * (second - start) / (end - start)
        last_second, last_rate = self.points[-1]
        return last_rate if second >= last_second else 0.0

    def arrived(self, second: float) -> float:
        """Return the records that have arrived until ``second``: the integral of the curve."""
        ends = [*(point[0] for point in self.points[1:]), second]
        total = 0.0
        for (start, rate), end in zip(self.points, ends, strict=True):
            until = min(second, end)
            if until > start:
                total += (until - start) * (rate + self.rate(until)) / 2
        return total
