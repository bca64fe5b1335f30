"""What came of one job with one configuration, small enough to travel."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Final

from flink_autoscaler.clients.pass_plugins import installed_plugins
from flink_autoscaler.core.options import AutoscalerOptions
from flink_autoscaler.core.validation import validate, validate_policies
from flink_autoscaler.pipeline.backtest.plan import Piece
from flink_autoscaler.pipeline.backtest.subject import Subject
from flink_autoscaler.pipeline.simulator.bounds import OracleTerms, area, instant, oracle, static_peak
from flink_autoscaler.pipeline.simulator.measures import Measures, Trace
from flink_autoscaler.pipeline.simulator.model import JobModel
from flink_autoscaler.pipeline.simulator.run import ENABLED, Backtest, BacktestResult, run
from flink_autoscaler.pipeline.simulator.workloads import HOUR, Workload

POINTS: Final = 240
"""Of a curve in a report."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run; lags are seconds.

    Attributes:
        duration: Seconds that were simulated.
        over_slo: Seconds with more lag than ``slo.lag`` of the job.
        efficiency: Least slot time that the work can be done in, over the slot time held.
        score: For ranking, in slot-hours, the lower the better.
    """

    duration: float
    slot_hours: float
    ups: int
    downs: int
    reversals: int
    lag_p50: float
    lag_p95: float
    lag_p99: float
    lag_max: float
    over_slo: float
    replayed: float
    efficiency: float
    score: float

    @property
    def rescales(self) -> int:
        """Rescales of both directions."""
        return self.ups + self.downs

    @classmethod
    def of(cls, measures: Measures) -> Figures:
        """Take them from the measures of the simulator."""
        p50, p95, p99 = (measures.lag_percentiles[percent] for percent in (50, 95, 99))
        return cls(
            duration=measures.duration,
            slot_hours=measures.slot_hours,
            ups=measures.ups,
            downs=measures.downs,
            reversals=measures.reversals,
            lag_p50=p50,
            lag_p95=p95,
            lag_p99=p99,
            lag_max=measures.lag_max,
            over_slo=measures.late,
            replayed=measures.replayed,
            efficiency=measures.efficiency,
            score=measures.score,
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is possible, in slot-hours; None where it cannot be worked out.

    Attributes:
        area: The work itself.
        instant: With free rescales at any time.
        oracle: With the future known and rescales paid for.
        static: With one size that is always large enough.
    """

    area: float
    instant: float | None
    oracle: float | None
    static: float | None


@dataclass(frozen=True, slots=True)
class Curves:
    """How a run went: means over equal parts of the time, of lags the greatest."""

    slots: tuple[float, ...] = ()
    lags: tuple[float, ...] = ()
    arrivals: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of one piece.

    Attributes:
        configuration: Name; None where these are the bounds.
        figures: None for bounds, and where there is a problem.
        holds: How many passes held for every reason, by code.
        errors: Passes that an error ended, by text.
        passes: How many there were.
        problem: Why there is no result.
    """

    job_key: str
    configuration: str | None
    figures: Figures | None = None
    bounds: Bounds | None = None
    curves: Curves = Curves()
    holds: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    passes: int = 0
    problem: str | None = None

    def dumped(self) -> str:
        """Return the same as text that travels."""
        return json.dumps(asdict(self))

    @classmethod
    def loaded(cls, text: str) -> Outcome:
        """Read what :meth:`dumped` made."""
        given = json.loads(text)
        curves = Curves(**{name: tuple(values) for name, values in given.pop("curves").items()})
        figures, bounds = given.pop("figures"), given.pop("bounds")
        return cls(
            **given,
            curves=curves,
            figures=None if figures is None else Figures(**figures),
            bounds=None if bounds is None else Bounds(**bounds),
        )


def computed(piece: Piece) -> Outcome:
    """Run a piece with the plug-ins of this process; what goes wrong is in the outcome."""
    subject = piece.subject
    if piece.configuration is None:
        return Outcome(subject.job_key, None, bounds=_bounds(subject), curves=_arrivals(subject))
    try:
        if problem := problem_of(piece.options):
            return Outcome(subject.job_key, piece.configuration, problem=problem)
        result = run(_backtest(piece))
    except Exception as error:  # policies of plug-ins run in it, and one broken job must not end all others
        return Outcome(subject.job_key, piece.configuration, problem=f"{type(error).__name__}: {error}")
    return Outcome(
        subject.job_key,
        piece.configuration,
        figures=Figures.of(result.measures),
        curves=_curves(result),
        holds=dict(result.holds),
        errors=dict(result.errors),
        passes=math.ceil(subject.workload.duration / piece.settings.interval),
    )


def problem_of(configuration: Mapping[str, str]) -> str | None:
    """Return why passes would do nothing with a configuration of a job; None where nothing is wrong with it.

    Raises:
        ValueParseError: An option cannot be read.
    """
    options = AutoscalerOptions({ENABLED: "true", **configuration})
    if not options.enabled:
        return None
    return validate(options) or validate_policies(options, installed_plugins().policies)


def _backtest(piece: Piece) -> Backtest:
    subject = piece.subject
    return Backtest(
        subject.model,
        subject.workload,
        piece.options,
        plugins=installed_plugins(),
        terms=subject.terms,
        initial=subject.initial,
        interval=piece.settings.interval,
        dt=piece.settings.dt,
        start_ms=subject.start_ms,
    )


def _bounds(subject: Subject) -> Bounds:
    terms = OracleTerms(outage=subject.outage, replay=subject.terms.replay)
    return Bounds(
        area(subject.model, subject.workload) / HOUR,
        _slot_hours(instant, subject),
        _slot_hours(lambda job, workload: oracle(job, workload, terms).cost, subject),
        _slot_hours(static_peak, subject),
    )


def _slot_hours(bound: Callable[[JobModel, Workload], float], subject: Subject) -> float | None:
    """Return a bound; None where some demand is too much for the job, or the bound does not know such jobs."""
    try:
        return bound(subject.model, subject.workload) / HOUR
    except ValueError:
        return None


def _curves(result: BacktestResult) -> Curves:
    trace = result.trace
    parts = _parts(trace)
    return Curves(
        slots=tuple(fmean(trace.slots[a:b], trace.seconds[a:b]) for a, b in parts),
        lags=tuple(max(trace.lags[a:b]) for a, b in parts),
    )


def _arrivals(subject: Subject) -> Curves:
    sums = [sum(row) for row in subject.workload.rows]
    count = min(POINTS, len(sums))
    cuts = [len(sums) * number // count for number in range(count + 1)]
    return Curves(arrivals=tuple(fmean(sums[a:b]) for a, b in pairwise(cuts)))


def _parts(trace: Trace) -> list[tuple[int, int]]:
    """Divide the steps into parts of about equal time, none empty."""
    ends = list(accumulate(trace.seconds))
    count = min(POINTS, len(ends))
    cuts = sorted({0, len(ends), *(bisect_left(ends, ends[-1] * number / count) for number in range(1, count))})
    return list(pairwise(cuts))
