"""What a backtest is asked, and what comes back of it; these values go from process to process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flink_autoscaler.core.model.job import JobKey


@dataclass(frozen=True, slots=True)
class BacktestTask:
    """What is simulated.

    Attributes:
        path: Folder of the history, local.
        now: Epoch seconds; the days before it are looked at.
        present: Configuration of the job as it is, flat, as text.
        changed: The other one.
        log: Format and level of the log.
        seldom: What to say where too little is recorded.
    """

    job_key: JobKey
    cluster: str
    path: str
    now: float
    days: float
    present: Mapping[str, str] = field(repr=False)
    changed: Mapping[str, str] = field(repr=False)
    log: tuple[str, str]
    seldom: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a backtest is.

    Attributes:
        stage: For people.
        share: Of the whole, 0..1.
    """

    stage: str
    share: float


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What came of one configuration; None is not known.

    Attributes:
        late: Minutes with more lag than ``slo.lag`` of the job allows.
        lag_p99: Seconds.
        lag_max: Seconds.
        errors: Passes that an error ended.
    """

    slot_hours: float
    ups: int
    downs: int
    late: float
    lag_p99: float | None
    lag_max: float | None
    score: float
    passes: int
    errors: int


@dataclass(frozen=True, slots=True)
class BacktestFound:
    """What came of a backtest.

    Attributes:
        days: That were simulated: as many of those asked for as are recorded without a long gap.
        since_ms: Epoch milliseconds at which they begin.
        notes: What had to be assumed, and what was left out, in full sentences.
    """

    present: RunFigures
    changed: RunFigures
    days: float
    since_ms: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BacktestFailed:
    """Why there is no result, in full sentences."""

    problem: str
