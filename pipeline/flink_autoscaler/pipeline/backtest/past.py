"""What arrived at a source by quarter hours, from which profiles are made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from flink_autoscaler.core.model.load_profile import BUCKET, LEAST_MINUTES, MINUTE, MINUTES, slot_of, zone_named
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.fit import Series


class Rate(NamedTuple):
    """What was measured at an instant, epoch seconds: records/s over the seconds before, or over its minute."""

    at: float
    span: float | None
    rate: float


@dataclass(frozen=True, slots=True)
class Quarters:
    """The quarter hours of one source in which enough minutes were recorded.

    Attributes:
        index: Epoch seconds / 900, ascending.
        rate: Mean rates, records/s.
        late: Of ``index`` those of which a part was measured after their end, since rates cover more than a minute.
    """

    index: tuple[int, ...] = ()
    rate: tuple[float, ...] = ()
    late: tuple[int, ...] = ()

    @classmethod
    def of(cls, rates: Iterable[Rate]) -> Quarters:
        """Average rates as the nightly job does; they may be in any order."""
        minutes: dict[int, set[int]] = defaultdict(set)
        sums: dict[int, tuple[float, int]] = {}
        late: set[int] = set()
        for each in rates:
            last = int(each.at // MINUTE)
            first = last - max(1, round(min(each.span or 0.0, BUCKET) / MINUTE)) + 1
            for index in {first // MINUTES, last // MINUTES}:
                covered = range(max(first, index * MINUTES), min(last, index * MINUTES + MINUTES - 1) + 1)
                total, count = sums.get(index, (0.0, 0))
                sums[index] = (total + each.rate * len(covered), count + len(covered))
                minutes[index].update(covered)
            late.update({first // MINUTES} - {last // MINUTES})
        kept = sorted(index for index, each in minutes.items() if len(each) >= LEAST_MINUTES)
        means = (sums[index][0] / sums[index][1] for index in kept)
        return cls(tuple(kept), tuple(means), tuple(sorted(late.intersection(kept))))

    def before(self, end: int) -> Quarters:
        """Return what is known at the end of a quarter hour, given as the index of the next one."""
        known = [
            (index, rate)
            for index, rate in zip(self.index, self.rate, strict=True)
            if index < end - (end - 1 in self.late)
        ]
        return Quarters(tuple(index for index, _ in known), tuple(rate for _, rate in known))

    def series(self, settings: ProfileSettings) -> Series:
        """Return what is learned from: all but the days that the settings leave out.

        Raises:
            ConfigError: This machine does not know the time zone.
        """
        zone, left_out = zone_named(settings.timezone), frozenset(settings.excluded)
        learned = [
            (index, slot_of(index * BUCKET, zone), rate)
            for index, rate in zip(self.index, self.rate, strict=True)
            if not left_out or datetime.fromtimestamp(index * BUCKET, zone).date() not in left_out
        ]
        index, slot, rate = zip(*learned, strict=True) if learned else ((), (), ())
        return Series(index, slot, rate)
