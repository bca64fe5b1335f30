"""The programme and the acting together, minute by minute over a simulated queue, with forecasts made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from flink_autoscaler.core.options.policies import SloOptions
from flink_autoscaler.core.policies.slo.acting import Acting, Moment, price_down
from flink_autoscaler.core.policies.slo.lateness import LagTerms, Spread
from flink_autoscaler.core.policies.slo.model import Forecasts, Level, Levels
from flink_autoscaler.core.policies.slo.noise import Differences, noise
from flink_autoscaler.core.policies.slo.price import Prices, mean_slots, rescales_of_the_day
from flink_autoscaler.core.policies.slo.programme.value import Outlook, valued

TERMS = LagTerms(limit=60.0, outage=60.0, replay=5.0)
PRICES = {"late-weight": "8", "rescale-price": "450 s", "rescale-price-up": "60 s"}
OPTIONS = SloOptions({f"job.autoscaler.slo.{key}": value for key, value in PRICES.items()})
LEVELS = Levels(tuple(range(1, 65)), tuple(float(slots) for slots in range(1, 65)))
"""Every slot does one slot of work."""


@dataclass
class Loop:
    """One job under a load, asked every minute; every slot does one slot of work a second.

    Attributes:
        load: Slots of work that arrive in a minute, by its number.
        slots: That the job has.
        moves: Minute and slots of every rescale.
    """

    load: Callable[[int], float]
    slots: int
    backlog: float = 0.0
    moves: list[tuple[int, int]] = field(default_factory=list)
    worst_lag: float = 0.0
    late: int = 0
    _acting: Acting = field(default_factory=Acting)
    _differences: Differences = field(default_factory=Differences)
    _mean: float | None = None
    _seen: list[float] = field(default_factory=list)
    _jumped_at: int | None = None
    _expected: float | None = None

    def run(self, first: int, last: int) -> Loop:
        """Let it go for some minutes."""
        for minute in range(first, last):
            self._work(minute)
            self._look(minute)
        return self

    def _work(self, minute: int) -> None:
        arrived = self.load(minute)
        is_away = bool(self.moves) and self.moves[-1][0] == minute - 1
        done = 0.0 if is_away else self.slots * 60.0
        self.backlog = max(self.backlog + arrived * 60.0 - done, 0.0) + (5.0 * arrived if is_away else 0.0)
        lag = self.backlog / arrived
        self.worst_lag, self.late = max(self.worst_lag, lag), self.late + (lag > TERMS.limit)
        self._seen.append(arrived)
        self._differences = self._differences.after(
            self._since(minute), known=len(self._since(minute)), least=1, day_mean=sum(self._seen) / len(self._seen)
        )

    def _since(self, minute: int) -> list[float]:
        """Return what arrived since the load jumped."""
        before = sorted(self._seen[-32:-2])
        median = before[len(before) // 2] if len(before) >= 12 else None
        if median is not None and self._jumped_at is None and abs(sum(self._seen[-2:]) / 2 - median) > 0.12 * median:
            self._jumped_at = minute
        return self._seen if self._jumped_at is None else self._seen[-(minute - self._jumped_at + 1) :]

    def _forecasts(self, minute: int) -> Forecasts:
        known = self._since(minute)
        last = sum(known[-5:]) / len(known[-5:])
        slow = sum(known[-30:]) / len(known[-30:])
        since = None if self._jumped_at is None else float(minute - self._jumped_at)
        if since is None or since > 15:
            return Forecasts({"last": [last] * 96, "slow": [slow] * 96}, {"last": 0.5, "slow": 0.5}, since)
        ramp = [self._ramp(300.0 * bucket + 150.0) for bucket in range(96)]
        paths = {"last": [last] * 96, "slow": [slow] * 96, "ramp": ramp}
        return Forecasts(paths, {"last": 0.45, "slow": 0.25, "ramp": 0.3}, since, since)

    def _ramp(self, after: float) -> float:
        steps = [b - a for a, b in zip(self._seen[-3:-1], self._seen[-2:], strict=True)]
        slope = min(steps, key=abs) if steps and min(steps) * max(steps) > 0 else 0.0
        return max(self._seen[-1] + slope * 8.0 * (1.0 - math.exp(-after / 480.0)), 1e-3)

    def _look(self, minute: int) -> None:
        if len(self._seen) < 2:
            return
        forecasts, noisy = self._forecasts(minute), noise(self._differences, 0.0)
        arrived = self._seen[-1]
        at = 60.0 * minute
        expected = forecasts.mixed[0] if self._expected is None else self._expected
        moment = Moment(at, self.slots, float(self.slots), arrived, self.backlog / arrived, expected, forecasts.since)
        self._expected = forecasts.mixed[0]
        if self._acting.is_quiet(moment, noisy.s, TERMS.limit):
            return
        self._mean = mean_slots(self._mean, self.slots, at - (self._acting.at or at))
        recent = rescales_of_the_day([60.0 * each for each, _ in self.moves], at)
        prices = Prices.of(OPTIONS, self._mean, forecasts.mixed, recent)
        spread = Spread.of(noisy, 0.0)
        present = Level(self.slots, float(self.slots), {})
        best = valued(Outlook(LEVELS, present, forecasts, spread, TERMS, prices, self.backlog)).best
        self._acting = self._acting.evaluated(moment, best)
        price = price_down(self._acting, moment, float(self._acting.target), TERMS, prices)
        wanted = self._acting.wanted(moment, price, TERMS.limit)
        if wanted is not None:
            self.moves.append((minute, wanted))
            self.slots = wanted


def test_a_surplus_goes_within_half_an_hour_and_at_once_as_far_as_it_will_ever_go() -> None:
    ((minute, slots),) = Loop(lambda _: 10.0, 18).run(0, 3000).moves

    assert slots == 11
    assert minute == pytest.approx(16, abs=2)


def test_a_job_that_has_what_it_needs_is_left_alone() -> None:
    assert Loop(lambda _: 10.0, 11).run(0, 600).moves == []


def test_a_job_that_is_just_full_grows_at_once() -> None:
    ((minute, slots),) = Loop(lambda _: 10.0, 10).run(0, 60).moves

    assert slots == 11
    assert minute <= 3


def test_a_load_that_doubles_is_followed_after_two_minutes_and_settles_with_another_rescale() -> None:
    loop = Loop(lambda minute: 12.0 if minute < 0 else 24.0, 13).run(-400, 600)

    (minute, slots), (_, settled) = loop.moves
    assert minute == 1
    assert 26 <= slots <= 32
    assert 25 <= settled <= 26
    assert loop.late <= 8


def test_a_load_that_halves_takes_one_rescale() -> None:
    loop = Loop(lambda minute: 24.0 if minute < 0 else 12.0, 25).run(-400, 600)

    ((minute, slots),) = loop.moves
    assert slots == 13
    assert 5 < minute < 130
