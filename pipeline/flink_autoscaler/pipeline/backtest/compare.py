"""Sets the outcomes of a plan side by side: by job, and by configuration over all jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Bounds, Outcome
from flink_autoscaler.pipeline.backtest.subject import LeftOut, Subject
from flink_autoscaler.pipeline.simulator.measures import Measures

MOST_ERRORS: Final = 0.5
"""Share of the passes that may end in errors; a few do after every rescale, while metrics are missing."""


@dataclass(frozen=True)
class JobComparison:
    """One job with every configuration.

    Attributes:
        runs: By configuration, in the order in which they were given; those that are not finished are missing.
        bounds: With the arrivals in its curves; None while it is not finished.
    """

    subject: Subject
    runs: Mapping[str, Outcome]
    bounds: Outcome | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions, in full sentences; one that is the same for all configurations once."""
        return tuple(dict.fromkeys((*self.subject.notes, *(note for run in self.runs.values() for note in run.notes))))

    @property
    def best(self) -> str | None:
        """The configuration with the least score; None where none has a result."""
        scores = {name: run.figures.score for name, run in self.runs.items() if run.figures is not None}
        return min(scores, key=scores.__getitem__) if scores else None


@dataclass(frozen=True, slots=True)
class Total:
    """One configuration over all jobs that every configuration has a result for.

    Attributes:
        lag_p95: Median of the jobs' percentiles, seconds.
        lag_p99: Of the job that is worst off.
        over_slo: Seconds, of all jobs together.
        efficiency: Least slot time that the work can be done in, over the slot time held.
        holds: How many passes held for every reason, by code.
    """

    name: str
    jobs: int
    slot_hours: float
    ups: int
    downs: int
    reversals: int
    lag_p95: float
    lag_p99: float
    lag_max: float
    over_slo: float
    score: float
    efficiency: float
    holds: Mapping[str, int] = field(default_factory=dict)

    @property
    def rescales(self) -> int:
        """Rescales of both directions."""
        return self.ups + self.downs

    @classmethod
    def of(cls, name: str, runs: Sequence[tuple[Outcome, Measures]]) -> Total:
        """Add up the runs of one configuration, of which there is at least one."""
        figures = [each for _, each in runs]
        summed = ("slot_hours", "ups", "downs", "reversals", "over_slo", "score")
        sums = {name: sum(getattr(each, name) for each in figures) for name in summed}
        holds: Counter[str] = Counter()
        for outcome, _ in runs:
            holds.update(outcome.holds)
        return cls(
            name=name,
            jobs=len(runs),
            **sums,
            lag_p95=median(each.lag_p95 for each in figures),
            lag_p99=max(each.lag_p99 for each in figures),
            lag_max=max(each.lag_max for each in figures),
            efficiency=sum(each.efficiency * each.slot_hours for each in figures) / sums["slot_hours"],
            holds=dict(holds),
        )


@dataclass(frozen=True)
class Comparison:
    """All that came of a plan.

    Attributes:
        totals: One per configuration, in the order in which they were given; empty where no job has all results.
        bounds: Sums over the same jobs; None where one of them has none.
        pending: Pieces that were not finished.
    """

    jobs: Sequence[JobComparison]
    totals: Sequence[Total]
    bounds: Bounds | None
    left_out: Sequence[LeftOut]
    pending: int

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems, in full sentences: runs without a result, and such in which most passes ended in errors."""
        runs = (run for job in self.jobs for run in (*job.runs.values(), job.bounds) if run is not None)
        return tuple(
            f"{run.job_key}, {run.configuration or 'bounds'}: {text}" for run in runs if (text := run_problem(run))
        )

    def document(self) -> dict[str, Any]:
        """Return the same in types that JSON has, without the curves."""
        return {
            "configurations": [{**asdict(total), "rescales": total.rescales} for total in self.totals],
            "bounds": None if self.bounds is None else asdict(self.bounds),
            "jobs": [_job_document(job) for job in self.jobs],
            "left_out": [asdict(each) for each in self.left_out],
            "pending": self.pending,
        }


def compared(plan: BacktestPlan, outcomes: Iterable[Outcome]) -> Comparison:
    """Set outcomes side by side; some may be missing, and they may be in any order."""
    found = {(outcome.job_key, outcome.configuration): outcome for outcome in outcomes}
    names = [candidate.name for candidate in plan.candidates]
    jobs = [
        JobComparison(
            subject,
            {name: found[subject.job_key, name] for name in names if (subject.job_key, name) in found},
            found.get((subject.job_key, None)),
        )
        for subject in plan.subjects
    ]
    whole = [job for job in jobs if len(_finished(job)) == len(names)]
    totals = [Total.of(name, [_finished(job)[name] for job in whole]) for name in names] if whole else []
    return Comparison(jobs, totals, _sum(whole), plan.left_out, plan.size - len(found))


def run_problem(run: Outcome) -> str | None:
    """Return why a run says nothing, or little; None where nothing is wrong with it."""
    if run.figures is None:
        return run.problem
    ended = sum(run.errors.values())
    if ended <= run.passes * MOST_ERRORS:
        return None
    text = max(run.errors, key=run.errors.__getitem__)
    return f"errors ended {ended} of {run.passes} passes, so this says little: {text}"


def _finished(job: JobComparison) -> dict[str, tuple[Outcome, Measures]]:
    return {name: (run, run.figures) for name, run in job.runs.items() if run.figures is not None}


def _sum(jobs: Sequence[JobComparison]) -> Bounds | None:
    known = [job.bounds.bounds for job in jobs if job.bounds is not None and job.bounds.bounds is not None]
    if not jobs or len(known) < len(jobs):
        return None

    def total(bound: str) -> float | None:
        values = [getattr(each, bound) for each in known]
        return None if None in values else sum(values)

    return Bounds(sum(each.area for each in known), total("instant"), total("oracle"), total("static"))


def _job_document(job: JobComparison) -> dict[str, Any]:
    bounds = None if job.bounds is None else job.bounds.bounds
    return {
        "job_key": job.subject.job_key,
        "best": job.best,
        "notes": list(job.notes),
        "bounds": None if bounds is None else asdict(bounds),
        "runs": [_run_document(run) for run in job.runs.values()],
    }


def _run_document(run: Outcome) -> dict[str, Any]:
    figures = None if run.figures is None else {**asdict(run.figures), "rescales": run.figures.rescales}
    return {
        "configuration": run.configuration,
        "figures": figures,
        "holds": dict(run.holds),
        "errors": dict(run.errors),
        "notes": list(run.notes),
        "problem": run.problem,
    }
