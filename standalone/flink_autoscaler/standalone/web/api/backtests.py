"""Describes backtests."""

from __future__ import annotations

from flink_autoscaler.standalone.observability.logs import masked
from flink_autoscaler.standalone.web.api.course_models import BacktestDoc, BacktestRunDoc
from flink_autoscaler.standalone.web.backtests.book import Backtest
from flink_autoscaler.standalone.web.backtests.values import RunFigures


def backtest_document(backtest: Backtest) -> BacktestDoc:
    """Describe a backtest."""
    found = backtest.found
    runs = [] if found is None else [_run("as it is", found.present), _run("changed", found.changed)]
    return BacktestDoc(
        id=backtest.identity,
        job_key=backtest.task.job_key,
        days=backtest.task.days,
        state=backtest.state.value,
        stage=backtest.progress.stage,
        progress=backtest.progress.share,
        started_ms=backtest.started_ms,
        problem=masked(backtest.problem) or None,
        since_ms=None if found is None else found.since_ms,
        simulated_days=None if found is None else found.days,
        runs=runs,
        notes=[] if found is None else [masked(note) for note in found.notes],
        changes=list(backtest.changes),
    )


def _run(name: str, figures: RunFigures) -> BacktestRunDoc:
    return BacktestRunDoc(
        configuration=name,
        slot_hours=figures.slot_hours,
        rescales=figures.ups + figures.downs,
        ups=figures.ups,
        downs=figures.downs,
        minutes_late=figures.late,
        lag_p99=figures.lag_p99,
        lag_max=figures.lag_max,
        score=figures.score,
        passes=figures.passes,
        failed_passes=figures.errors,
    )
