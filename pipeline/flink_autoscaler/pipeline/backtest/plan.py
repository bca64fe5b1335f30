"""Which jobs are run with which configurations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.pipeline.backtest.subject import LeftOut, Subject


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
    """How every job is simulated.

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
    """What is computed at once: one job with one configuration, or the bounds of a job.

    Attributes:
        configuration: Name; None asks for the bounds.
        options: Configuration of the job.
    """

    subject: Subject
    configuration: str | None
    options: Mapping[str, str] = field(repr=False)
    settings: RunSettings = RunSettings()

    def dumped(self) -> str:
        """Return the same as text that travels."""
        return json.dumps(
            {
                "subject": self.subject.document(),
                "configuration": self.configuration,
                "options": dict(self.options),
                "settings": asdict(self.settings),
            }
        )

    @classmethod
    def loaded(cls, text: str) -> Piece:
        """Read what :meth:`dumped` made."""
        given: dict[str, Any] = json.loads(text)
        subject, settings = Subject.of(given["subject"]), RunSettings(**given["settings"])
        return cls(subject, given["configuration"], given["options"], settings)


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
        """How many pieces there are."""
        return len(self.subjects) * (len(self.candidates) + self.settings.with_bounds)
