"""Simulates the last days of a job with its options as they are and as they would be, as ``backtest`` does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from flink_autoscaler.pipeline.backtest.compare import run_problem
from flink_autoscaler.pipeline.backtest.computing import computed
from flink_autoscaler.pipeline.backtest.inline import Choice, InlineRunner, past_needed
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate, Outcome, RunSettings
from flink_autoscaler.pipeline.backtest.subject import FittedHistory, Subject
from flink_autoscaler.pipeline.history.layout import Selection
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.workloads import DAY
from flink_autoscaler.standalone.web.backtests.values import (
    BacktestFailed,
    BacktestFound,
    BacktestTask,
    Progress,
    RunFigures,
)

PRESENT: Final = "as it is"
CHANGED: Final = "changed"

_READING: Final = 0.2
"""Share of the bar that reading takes."""

Tell = Callable[[Progress], object]


def backtested(task: BacktestTask, tell: Tell) -> BacktestFound | BacktestFailed:
    """Do what is asked.

    Args:
        task: What is simulated.
        tell: Told often how far it is; has to return at once.

    Raises:
        HistoryError: There is no such history, or it cannot be listed.
    """
    candidates = [Candidate(PRESENT, task.present), Candidate(CHANGED, task.changed)]
    since_ms = round((task.now - task.days * DAY) * 1000)
    selection = Selection(since_ms, None, frozenset({task.cluster}))
    choice = Choice(selection, task.job_key, past_needed(candidates))
    found = InlineRunner().fleet(task.path, choice, task.now, _reading(tell))
    subject = next((each for each in found.subjects if each.job_key == task.job_key), None)
    if subject is None:
        return BacktestFailed(_too_little(task, found))
    return _compared(subject, candidates, found.damaged, tell)


def _reading(tell: Tell) -> Callable[[int, int], None]:
    def heard(done: int, of: int) -> None:
        tell(Progress("reading the history", _READING * done / max(1, of)))

    return heard


def _too_little(task: BacktestTask, found: FittedHistory) -> str:
    why = next((each.reason for each in found.left_out if each.job_key == task.job_key), None)
    said = f"nothing is recorded of it in the last {task.days:g} days" if why is None else why
    damaged = f" {len(found.damaged)} damaged files were left out." if found.damaged else ""
    return f"{task.job_key} cannot be simulated: {said}.{damaged} {task.seldom}"


def _compared(
    subject: Subject, candidates: list[Candidate], damaged: tuple[str, ...], tell: Tell
) -> BacktestFound | BacktestFailed:
    plan = BacktestPlan([subject], candidates, settings=RunSettings(with_bounds=False))
    passes = plan.size * math.ceil(subject.workload.duration / plan.settings.interval)
    done = 0

    def watch(*_: object) -> None:
        nonlocal done
        done += 1
        tell(Progress("simulating", _READING + (1 - _READING) * min(1.0, done / passes)))

    present, changed = (computed(piece, watch) for piece in plan.pieces())
    if present.figures is None or changed.figures is None:
        problems = [f"{run.configuration}: {run.problem}" for run in (present, changed) if run.figures is None]
        return BacktestFailed("; ".join(problems))
    notes = dict.fromkeys((*subject.notes, *present.notes, *changed.notes, *_doubts(present, changed)))
    return BacktestFound(
        _figures(present, present.figures),
        _figures(changed, changed.figures),
        days=subject.workload.duration / DAY,
        since_ms=subject.start_ms,
        notes=(*notes, *(f"A damaged file was left out: {each}" for each in damaged[:3])),
    )


def _doubts(*runs: Outcome) -> list[str]:
    return [f"{run.configuration}: {text}." for run in runs if (text := run_problem(run))]


def _figures(run: Outcome, figures: Measures) -> RunFigures:
    return RunFigures(
        slot_hours=figures.slot_hours,
        ups=figures.ups,
        downs=figures.downs,
        late=figures.over_slo / 60,
        lag_p99=_finite(figures.lag_p99),
        lag_max=_finite(figures.lag_max),
        score=figures.score,
        passes=run.passes,
        errors=sum(run.errors.values()),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
