"""Searches a small grid of options for what would have suited each job best."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.pipeline.backtest.compare import Comparison, JobComparison
from flink_autoscaler.pipeline.backtest.plan import Candidate
from flink_autoscaler.pipeline.backtest.simulate_case import MIN_DAYS, configuration_problem
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.workloads import DAY

Grid = Mapping[str, Sequence[str]]
"""Values to try, by full key."""

DEFAULT_GRID: Final[Grid] = {
    "job.autoscaler.utilization.target": ("0.6", "0.7", "0.8"),
    "job.autoscaler.metrics.window": ("5 min", "15 min"),
    "job.autoscaler.scale-down.interval": ("30 min", "1 h", "3 h"),
}
"""What decides most about slots, lag and rescales of the default policy."""

MAX_CANDIDATES: Final = 200
MIN_GAIN: Final = 0.02
"""Share by which the score has to be better: less is chance."""

MIN_HEADROOM: Final = 0.1
"""Head-room at a scale-up below which it is told that it is little."""

PRESENT: Final = "present"


@dataclass(frozen=True)
class Recommendation:
    """Options to change for one job.

    Attributes:
        changes: Options that differ from now, by full key; empty where the job is to stay as it is.
        present: Measures as it is configured now; None where that has no result.
        expected: Measures with the changes; the present ones without any.
        chosen_on: Seconds of arrivals that the choice was made on.
        judged_on: Seconds that the figures are of.
        is_unseen: Whether these come after those that the choice was made on; else they are the same.
        rejected: Options that were better on what they were chosen on, and not on what they were judged on.
        head_room: Share of a vertex's capacity that is left when it is scaled up, as it is configured now.
    """

    job_key: str
    changes: Mapping[str, str]
    present: Measures | None
    expected: Measures | None
    chosen_on: float
    judged_on: float
    is_unseen: bool
    rejected: Mapping[str, str] = field(default_factory=dict)
    head_room: float | None = None


@dataclass(frozen=True)
class TuningCandidate:
    """A configuration that is tried, and the options that it changes, by full key."""

    candidate: Candidate
    changes: Mapping[str, str]


Trials = Mapping[str, TuningCandidate]
"""By name; the present configuration is ``PRESENT``."""


def tuning_candidates(present: Candidate, grid: Grid) -> Trials:
    """Return the present configuration and one for every combination of the grid that is allowed.

    Raises:
        ConfigError: The grid is empty or too large, or nothing in it is allowed.
    """
    count = math.prod(len(values) for values in grid.values())
    if not 1 < count <= MAX_CANDIDATES:
        raise ConfigError(f"the grid has {count} combinations; 2 to {MAX_CANDIDATES} can be tried")
    trials = {PRESENT: TuningCandidate(present.with_options(PRESENT, {}), {})}
    problems = []
    for values in product(*grid.values()):
        changes = dict(zip(grid, values, strict=True))
        trial = TuningCandidate(present.with_options(candidate_name(changes), changes), changes)
        if problem := configuration_problem(trial.candidate.of(None)):
            problems.append(problem)
        else:
            trials[trial.candidate.name] = trial
    if len(problems) == count:
        raise ConfigError(f"no combination of the grid is allowed: {problems[0]}")
    return trials


def candidate_name(changes: Mapping[str, str]) -> str:
    """Return a name that tells what is changed."""
    return ", ".join(f"{key.removeprefix(PREFIX)}={value}" for key, value in changes.items())


def recommend(comparison: Comparison, trials: Trials) -> list[Recommendation]:
    """Return for every job that has any result what suited it best on the first days, judged on the days after.

    Where days were not kept for that, both are the same.
    """
    found = ((job, _scores_of(job)) for job in comparison.jobs)
    return [_recommendation(job, tried, trials) for job, tried in found if tried]


class _CandidateScores(NamedTuple):
    """The figures of one configuration that count for the choice, and those it is judged by."""

    chosen: Measures
    judged: Measures


def _scores_of(job: JobComparison) -> dict[str, _CandidateScores]:
    known = ((name, run.figures, run.parts) for name, run in job.runs.items())
    return {
        name: _CandidateScores(*(parts or (figures, figures))) for name, figures, parts in known if figures is not None
    }


def _recommendation(job: JobComparison, tried: Mapping[str, _CandidateScores], trials: Trials) -> Recommendation:
    present = tried.get(PRESENT)
    best = min(tried, key=lambda name: tried[name].chosen.score)
    if present is not None and tried[best].chosen.score > present.chosen.score * (1 - MIN_GAIN):
        best = PRESENT
    changes = _changes(trials[best], trials[PRESENT].candidate.of(job.subject.cluster))
    is_worse = present is not None and best != PRESENT and tried[best].judged.score >= present.judged.score
    expected = tried[PRESENT if is_worse else best]
    return Recommendation(
        job.subject.job_key,
        {} if is_worse else changes,
        None if present is None else present.judged,
        expected.judged,
        chosen_on=expected.chosen.duration,
        judged_on=expected.judged.duration,
        is_unseen=expected.judged is not expected.chosen,
        rejected=changes if is_worse else {},
        head_room=_head_room(trials[PRESENT].candidate.of(job.subject.cluster)),
    )


def _head_room(configuration: Mapping[str, str]) -> float:
    settings = EvaluationSettings.of(AutoscalerOptions(configuration), 0)
    return 1.0 - min(1.0, settings.utilization_max)


def _changes(trial: TuningCandidate, now: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in trial.changes.items() if _differs(now, key, value)}


def basis_of(recommendations: Sequence[Recommendation]) -> list[str]:
    """Return what recommendations rest on, in full sentences: once for all jobs of which it is the same."""
    kinds = Counter((each.is_unseen, each.chosen_on / DAY, each.judged_on / DAY) for each in recommendations)
    bases = (_basis(count, *kind) for kind, count in kinds.items())
    return [*bases, *_rejections(recommendations), *_tight(recommendations)]


def _tight(recommendations: Sequence[Recommendation]) -> Iterator[str]:
    """Say where a vertex that keeps up is scaled up late: a source may be 95 % busy for good, with 5 % left."""
    tight = Counter(
        f"{each.head_room:.0%}"
        for each in recommendations
        if each.head_room is not None and each.head_room < MIN_HEADROOM
    )
    for room, jobs in tight.items():
        yield (
            f"{jobs} job{'' if jobs == 1 else 's'}: a vertex whose lag does not grow is scaled up with {room} "
            "headroom left; --grid utilization.max=0.8,0.9,1 shows what an earlier scale-up costs."
        )


def _basis(jobs: int, is_unseen: bool, chosen: float, judged: float) -> str:
    whose = f"{jobs} job{'' if jobs == 1 else 's'}"
    if is_unseen:
        return f"{whose}: chosen on the first {chosen:.1f} days, judged on the {judged:.1f} days after those."
    same = f"{whose}: chosen and judged on the same {judged:.1f} days, which flatters the choice"
    return f"{same}; from {MIN_DAYS} days on some are kept to judge it."


def _rejections(recommendations: Sequence[Recommendation]) -> Iterator[str]:
    for each in recommendations:
        if each.rejected:
            yield (
                f"{each.job_key}: {candidate_name(each.rejected)} was better on the first days, but not on those after."
            )


def _differs(now: Mapping[str, str], key: str, value: str) -> bool:
    """Tell whether setting an option to a value changes anything; an option that is not declared always does."""
    option = next((option for option in AutoscalerOptions.all_options() if option.key == key), None)
    return option is None or option.read(now) != option.read({key: value})
