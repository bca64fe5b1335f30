"""Counters that went back: whether they began anew, or one answer was wrong and they never did.

A counter that falls and is back within a few samples where it was going was never reset: what lies between was wrong,
and is forgotten for good. The same goes for a value that a counter falls from to where it would be without it. A
counter that goes on from where it fell to has begun anew, and what was before says nothing about the rate any more.
Until it is known which of both, rates are taken from what came after the fall.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, NamedTuple

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId, VertexMetrics
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.window import COUNTERS, RECORD_COUNTERS, MetricWindow

BACK_WITHIN: Final = 3
"""Samples that may be wrong in a row."""

_LATELY: Final = BACK_WITHIN + 2
"""Values of a counter that are compared with each other: what is older was, when it was new."""

_ALIKE: Final = 4.0
"""Speeds of one counter that differ by no more than this factor are taken for the same load."""

_STILL: Final = 1e-9
"""Records/s: keeps the ratio of two speeds finite where a counter stands still."""

Samples = tuple[MetricSample, ...]


class ResetAnalysis(NamedTuple):
    """A metric window without what its counters say that cannot be so.

    Attributes:
        stored: What to remember: without the answers that were wrong.
        for_rates: What rates are taken from: also without what was before a fall that nobody can explain yet.
    """

    stored: Samples
    for_rates: Samples


def analyze_resets(samples: Samples, greatest: Mapping[VertexId, float]) -> ResetAnalysis:
    """Tell wrong answers from counters that began anew.

    Accumulated busy time alone tells nothing: Flink derives it from idle and backpressured time, and it may go back by
    some milliseconds while all is well.

    Args:
        samples: Of one execution of the job, oldest first; the newest was taken in this pass.
        greatest: The vertices to look at, with the records/s that they can process at most.
    """
    if not samples:
        return ResetAnalysis(samples, samples)
    # The quick look first: in nearly every pass all counters are in order, and none is followed value by value.
    lately = MetricWindow(samples[-_LATELY:])
    doubtful = {v: most for v, most in greatest.items() if not _in_order(lately, v, most)}
    verdicts = {v: _reset_verdict(samples, v, most) for v, most in doubtful.items() if _is_odd(samples, v, most)}
    if not verdicts:
        return ResetAnalysis(samples, samples)
    # What was before a fall is remembered until that is explained, as it may yet prove right; rates do without it.
    kept = tuple(_stored_sample(index, sample, verdicts) for index, sample in enumerate(samples))
    return ResetAnalysis(kept, tuple(_rate_sample(index, sample, verdicts) for index, sample in enumerate(kept)))


class _Point(NamedTuple):
    """A known value of a counter, and the number of its sample in the window."""

    number: int
    at_ms: int
    value: float


def _newest_first(samples: Samples, vertex_id: VertexId, metric: ScalingMetric) -> Iterator[_Point]:
    for index in range(len(samples) - 1, -1, -1):
        sample = samples[index]
        value = sample.vertices.get(vertex_id, {}).get(metric, NAN)
        if not math.isnan(value):
            yield _Point(index, sample.at_ms, value)


def _is_odd(samples: Samples, vertex_id: VertexId, most: float) -> bool:
    """Tell whether a counter of a vertex went back lately, or on faster than possible; what is older was dealt with."""
    for metric in RECORD_COUNTERS:
        known = list(islice(_newest_first(samples, vertex_id, metric), _LATELY))
        if not all(_goes_on(earlier, later, most) for later, earlier in pairwise(known)):
            return True
    return False


def _in_order(window: MetricWindow, vertex_id: VertexId, most: float) -> bool:
    """Tell whether all counts of a vertex are known and go on from each other, as they nearly always do."""
    for metric in RECORD_COUNTERS:
        values, instants = window.values(metric, vertex_id), window.instants
        for value, before, at_ms, before_ms in zip(values[1:], values, instants[1:], instants, strict=False):
            # Nor is it where one of both is NaN.
            if not 0 <= (value - before) * 1000.0 <= most * (at_ms - before_ms):
                return False
    return True


def _goes_on(earlier: _Point, later: _Point, most: float) -> bool:
    """Tell whether a counter may have come from one value to the other."""
    growth = later.value - earlier.value
    return growth >= 0 and growth * 1000.0 <= most * (later.at_ms - earlier.at_ms)


def _speed(earlier: _Point, later: _Point) -> float:
    return 1000.0 * (later.value - earlier.value) / max(1, later.at_ms - earlier.at_ms)


def _difference(speed: float, other: float) -> float:
    return abs(math.log((speed + _STILL) / (other + _STILL)))


@dataclass(frozen=True, slots=True)
class _ResetVerdict:
    """What is wrong with the counters of a vertex, by the numbers of samples.

    Attributes:
        wrong: Samples whose values never were.
        begin: The first sample after the counters began anew; 0 where they did not.
        is_final: Whether that can be told apart from a wrong answer by now.
    """

    wrong: frozenset[int] = frozenset()
    begin: int = 0
    is_final: bool = True


def _reset_verdict(samples: Samples, vertex_id: VertexId, most: float) -> _ResetVerdict:
    # Both counters come with one answer: where one of them is wrong, so is the other.
    runs = []
    for metric in RECORD_COUNTERS:
        points = list(_newest_first(samples, vertex_id, metric))
        if points:
            runs.append(_CounterRun.through(reversed(points), most))
    wrong = frozenset(index for run in runs for index in run.wrong)
    # The vertex begins anew where its last counter does: rates of two counters have to be of the same time.
    open_runs = [run for run in runs if run.before]
    begin = max((run.series[0].number for run in open_runs), default=0)
    return _ResetVerdict(wrong, begin, is_final=not any(run.may_come_back for run in open_runs))


@dataclass(slots=True)
class _CounterRun:
    """One counter, value by value.

    Attributes:
        most: Records/s that it can grow by.
        series: Values that go on from each other, up to the latest.
        before: Those before a fall, which the counter may still come back to.
        fallen: Values since that fall.
        wrong: Samples whose value never was.
    """

    most: float
    series: list[_Point] = field(default_factory=list)
    before: list[_Point] = field(default_factory=list)
    fallen: int = 0
    wrong: set[int] = field(default_factory=set)

    @classmethod
    def through(cls, points: Iterator[_Point], most: float) -> _CounterRun:
        """Return the run through some values, oldest first."""
        run = cls(most)
        for point in points:
            run.add(point)
        return run

    @property
    def may_come_back(self) -> bool:
        """Whether the counter fell so lately that it may yet be back where it was going."""
        return bool(self.before) and self.fallen <= BACK_WITHIN

    def add(self, point: _Point) -> None:
        """Take in the next value."""
        if not self.series:
            self.series.append(point)
        elif self._is_crossing(point):
            self._cross(point)
        elif _goes_on(self.series[-1], point, self.most):
            self.series.append(point)
        else:
            self._break(point)
        self.fallen += 1

    def _is_crossing(self, point: _Point) -> bool:
        """Tell whether the counter is back at or above what it fell from."""
        if not self.may_come_back or self.series[-1].value >= self.before[-1].value:
            return False
        return _goes_on(self.before[-1], point, self.most)

    def _cross(self, point: _Point) -> None:
        """Go on with what was before a fall, or with what came after it, whichever speed is more like the one before.

        Where there is no speed to compare with, both may be wrong, and the counter is taken to begin now.
        """
        usual = _usual(self.before)
        if usual is None:
            self.series = [point]
            return
        through, after = _speed(self.before[-1], point), _speed(self.series[-1], point)
        if _difference(through, usual) <= _difference(after, usual):
            self._come_back(point)
        else:
            self.series.append(point)

    def _come_back(self, point: _Point) -> None:
        self.wrong |= {each.number for each in self.series}
        self.series, self.before = [*self.before, point], []

    def _break(self, point: _Point) -> None:
        """Find what the value goes on from: from before the last few, or from before a jump; else it begins anew."""
        # The fewest that explain it: each value that is dropped is one that is called wrong.
        for dropped in range(1, min(BACK_WITHIN, len(self.series) - 1) + 1):
            if self._is_continued(self.series[:-dropped], point):
                self.wrong |= {each.number for each in self.series[-dropped:]}
                self.series = [*self.series[:-dropped], point]
                self.fallen -= dropped
                return
        if self.may_come_back and self._is_continued(self.before, point):
            self._come_back(point)
            return
        # Of two stretches the longer is the better witness of the usual speed.
        self.before = max(self.series, self.before, key=len)
        self.series, self.fallen = [point], 0

    def _is_continued(self, earlier: Sequence[_Point], point: _Point) -> bool:
        usual = _usual(earlier)
        if usual is None or not _goes_on(earlier[-1], point, self.most):
            return False
        return _difference(_speed(earlier[-1], point), usual) <= math.log(_ALIKE)


def _usual(points: Sequence[_Point]) -> float | None:
    """Return the speed of a counter over some values; None where one value is all there is."""
    return _speed(points[0], points[-1]) if len(points) > 1 else None


def _stored_sample(index: int, sample: MetricSample, verdicts: Mapping[VertexId, _ResetVerdict]) -> MetricSample:
    """Return a sample without what was wrong, and without counters that have begun anew since."""
    wrong = {v for v, verdict in verdicts.items() if index in verdict.wrong and v in sample.vertices}
    past = {v for v, verdict in verdicts.items() if verdict.is_final and index < verdict.begin}
    if not wrong and not past:
        return sample
    # Its waiting times came with the answer that was wrong.
    waited = {v: times for v, times in sample.waited.items() if v not in wrong}
    return replace(_without_counters(sample, past), waited=waited, vertices=_unknown(sample, wrong, past))


def _rate_sample(index: int, sample: MetricSample, verdicts: Mapping[VertexId, _ResetVerdict]) -> MetricSample:
    past = {v for v, verdict in verdicts.items() if not verdict.is_final and index < verdict.begin}
    return _without_counters(sample, past) if past else sample


def _without_counters(sample: MetricSample, past: set[VertexId]) -> MetricSample:
    return replace(sample, vertices=_unknown(sample, set(), past))


def _unknown(sample: MetricSample, wrong: set[VertexId], past: set[VertexId]) -> dict[VertexId, VertexMetrics]:
    """Return the metrics of a sample, of some vertices without any, and of some without counters."""
    return {
        v: dict.fromkeys(values, NAN)
        if v in wrong
        else {metric: NAN if metric in COUNTERS else value for metric, value in values.items()}
        if v in past
        else values
        for v, values in sample.vertices.items()
    }
