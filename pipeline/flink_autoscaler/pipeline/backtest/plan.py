"""Plan of a backtest: jobs and configurations to run, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.pipeline.backtest.subject import LeftOut, Subject
from flink_autoscaler.pipeline.simulator.measures import Measures


@dataclass(frozen=True)
class Candidate:
    """A configuration that is tried.

    Attributes:
        name: For people, unique.
        options: Configuration of jobs, flat, as text.
        clusters: The same for jobs of clusters that have options of their own, by name.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def of(self, cluster: str | None) -> Mapping[str, str]:
        """Return the configuration of jobs of a cluster."""
        return self.options if cluster is None else self.clusters.get(cluster, self.options)

    @property
    def forecast_weeks(self) -> int | None:
        """Weeks that profiles look back at most; None where the forecasts of all jobs are off.

        Raises:
            ValueParseError: An option cannot be read.
        """
        options = map(AutoscalerOptions, (self.options, *self.clusters.values()))
        return max((each.forecast_weeks for each in options if each.forecast_enabled), default=None)

    def with_options(self, name: str, changes: Mapping[str, str]) -> Candidate:
        """Return another one in which some options differ for all jobs."""
        clusters = {cluster: {**options, **changes} for cluster, options in self.clusters.items()}
        return Candidate(name, {**self.options, **changes}, clusters)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of the simulation of every job.

    Attributes:
        dt: Longest step, seconds.
        interval: Seconds between passes.
        with_bounds: Whether the best that is possible is worked out for every job.
        is_divided: Whether days are kept to judge on them what is chosen on the others.
    """

    dt: float = 5.0
    interval: float = 60.0
    with_bounds: bool = True
    is_divided: bool = False


@dataclass(frozen=True)
class Piece:
    """Unit of computation: one job with one configuration, or the bounds of a job.

    Attributes:
        configuration: Name; None asks for the bounds.
        options: Configuration of the job.
    """

    subject: Subject
    configuration: str | None
    options: Mapping[str, str] = field(repr=False)
    settings: RunSettings = RunSettings()


@dataclass(frozen=True)
class BacktestPlan:
    """Jobs times configurations.

    Attributes:
        left_out: Jobs that cannot be simulated.
    """

    subjects: Sequence[Subject]
    candidates: Sequence[Candidate]
    left_out: Sequence[LeftOut] = ()
    settings: RunSettings = RunSettings()

    def pieces(self) -> Iterator[Piece]:
        """Yield everything that has to be computed, job after job."""
        for subject in self.subjects:
            for candidate in self.candidates:
                yield Piece(subject, candidate.name, candidate.of(subject.cluster), self.settings)
            if self.settings.with_bounds:
                yield Piece(subject, None, {}, self.settings)

    @property
    def size(self) -> int:
        """Number of pieces."""
        return len(self.subjects) * (len(self.candidates) + self.settings.with_bounds)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Possible bounds, in slot-hours; None where one cannot be worked out.

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


BOUNDS: Final[Mapping[str, str]] = {
    "static": "one size for the peak",
    "oracle": "who knows the future",
    "instant": "free rescales at any time",
    "area": "the work itself",
}
"""The bounds by what people call them, the loosest first."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of a run, or of its bounds: means over equal parts of the time, of lags the greatest.

    Attributes:
        slots: That were held.
        lags: Seconds.
        arrivals: Records/s of all sources.
        oracle: Slots of somebody who knows the future; empty where that cannot be worked out.
        busy: Slots that the work itself keeps busy.
    """

    slots: tuple[float, ...] = ()
    lags: tuple[float, ...] = ()
    arrivals: tuple[float, ...] = ()
    oracle: tuple[float, ...] = ()
    busy: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Outcome of one piece.

    Attributes:
        configuration: Name; None where these are the bounds.
        figures: None for bounds, and where there is a problem.
        holds: How many passes held for every reason, by code.
        errors: Passes that an error ended, by text.
        passes: How many there were.
        parts: Figures of the days that options are chosen on, and of those after; None where they are not divided.
        notes: What had to be assumed for this configuration, in full sentences.
        problem: Why there is no result.
    """

    job_key: str
    configuration: str | None
    figures: Measures | None = None
    bounds: Bounds | None = None
    curves: Curves = Curves()
    holds: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    passes: int = 0
    parts: tuple[Measures, Measures] | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
