"""What came of one job with one configuration, small enough to travel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from flink_autoscaler.pipeline.simulator.measures import Measures


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
        parts: Figures of the days that options are chosen on, and of those after; None where they are not divided.
        notes: What had to be assumed for this configuration, in full sentences.
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
    parts: tuple[Figures, Figures] | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None

    def dumped(self) -> str:
        """Return the same as text that travels."""
        return json.dumps(asdict(self))

    @classmethod
    def loaded(cls, text: str) -> Outcome:
        """Read what :meth:`dumped` made."""
        given = json.loads(text)
        curves = Curves(**{name: tuple(values) for name, values in given.pop("curves").items()})
        figures, bounds, notes = given.pop("figures"), given.pop("bounds"), given.pop("notes")
        parts = given.pop("parts")
        return cls(
            **given,
            curves=curves,
            notes=tuple(notes),
            parts=None if parts is None else (Figures(**parts[0]), Figures(**parts[1])),
            figures=None if figures is None else Figures(**figures),
            bounds=None if bounds is None else Bounds(**bounds),
        )
