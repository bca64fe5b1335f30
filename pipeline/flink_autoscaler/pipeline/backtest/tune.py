"""Searches a small grid of options for what would have suited each job best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.option import PREFIX
from flink_autoscaler.core.options import AutoscalerOptions
from flink_autoscaler.pipeline.backtest.compare import Comparison, JobComparison
from flink_autoscaler.pipeline.backtest.outcome import Figures, problem_of
from flink_autoscaler.pipeline.backtest.plan import Candidate

Grid = Mapping[str, Sequence[str]]
"""Values to try, by full key."""

DEFAULT_GRID: Final[Grid] = {
    "job.autoscaler.utilization.target": ("0.6", "0.7", "0.8"),
    "job.autoscaler.metrics.window": ("5 min", "15 min"),
    "job.autoscaler.scale-down.interval": ("30 min", "1 h", "3 h"),
}
"""What decides most about slots, lag and rescales of the default policy."""

MOST_CANDIDATES: Final = 200
LEAST_GAIN: Final = 0.02
"""Share by which the score has to be better: less is chance."""

PRESENT: Final = "present"


@dataclass(frozen=True)
class Recommendation:
    """What to change for one job.

    Attributes:
        changes: Options that differ from now, by full key; empty where the job is to stay as it is.
        present: Figures as it is configured now; None where that has no result.
        expected: Figures with the changes; the present ones without any.
    """

    job_key: str
    changes: Mapping[str, str]
    present: Figures | None
    expected: Figures | None


@dataclass(frozen=True)
class Trial:
    """A configuration that is tried, and the options that it changes, by full key."""

    candidate: Candidate
    changes: Mapping[str, str]


Trials = Mapping[str, Trial]
"""By name; the present configuration is ``PRESENT``."""


def trials_of(present: Candidate, grid: Grid) -> Trials:
    """Return the present configuration and one for every combination of the grid that is allowed.

    Raises:
        ConfigError: The grid is empty or too large, or nothing in it is allowed.
    """
    count = math.prod(len(values) for values in grid.values())
    if not 1 < count <= MOST_CANDIDATES:
        raise ConfigError(f"the grid has {count} combinations; 2 to {MOST_CANDIDATES} can be tried")
    trials = {PRESENT: Trial(present.with_options(PRESENT, {}), {})}
    problems = []
    for values in product(*grid.values()):
        changes = dict(zip(grid, values, strict=True))
        trial = Trial(present.with_options(name_of(changes), changes), changes)
        if problem := problem_of(trial.candidate.of(None)):
            problems.append(problem)
        else:
            trials[trial.candidate.name] = trial
    if len(problems) == count:
        raise ConfigError(f"no combination of the grid is allowed: {problems[0]}")
    return trials


def name_of(changes: Mapping[str, str]) -> str:
    """Return a name that tells what is changed."""
    return ", ".join(f"{key.removeprefix(PREFIX)}={value}" for key, value in changes.items())


def recommended(comparison: Comparison, trials: Trials) -> list[Recommendation]:
    """Return what suited every job best that has any result."""
    return [_recommendation(job, trials) for job in comparison.jobs if job.best is not None]


def _recommendation(job: JobComparison, trials: Trials) -> Recommendation:
    figures = {name: run.figures for name, run in job.runs.items() if run.figures is not None}
    present, best = figures.get(PRESENT), job.best or PRESENT
    if present is not None and figures[best].score > present.score * (1 - LEAST_GAIN):
        return Recommendation(job.subject.job_key, {}, present, present)
    now = trials[PRESENT].candidate.of(job.subject.cluster)
    changes = {key: value for key, value in trials[best].changes.items() if _differs(now, key, value)}
    return Recommendation(job.subject.job_key, changes, present, figures[best])


def _differs(now: Mapping[str, str], key: str, value: str) -> bool:
    """Tell whether setting an option to a value changes anything; an option that is not declared always does."""
    option = next((option for option in AutoscalerOptions.declared() if option.key == key), None)
    return option is None or option.read(now) != option.read({key: value})
