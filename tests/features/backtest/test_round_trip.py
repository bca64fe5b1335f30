"""A job that is known is simulated, recorded and fitted: the model of it is the job again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

import pytest

from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.backtest.case import BacktestCase
from flink_autoscaler.pipeline.backtest.fitting import FitParams, fit_case
from flink_autoscaler.pipeline.backtest.plan import SimulationTask
from flink_autoscaler.pipeline.backtest.simulate_case import simulate_task
from flink_autoscaler.pipeline.simulator import (
    BacktestResult,
    JobModel,
    ReportSettings,
    RescaleParams,
    Simulation,
    VertexModel,
    run,
)
from flink_autoscaler.pipeline.simulator.run import JOB_KEY
from flink_autoscaler.pipeline.simulator.workloads import HOUR, MINUTE, Workload, sine, week_sine
from flink_autoscaler.pipeline.tables.rows import NamedRow, rows_of
from testkit.builders.backtests import LATER, records

ORDERS, CLICKS, JOINED, TOTALS = (sign * 32 for sign in "abcd")
OUTAGE = 40.0
JOB = JobModel(
    (
        VertexModel(ORDERS, "Source: orders", 9_000.0, max_parallelism=64),
        VertexModel(CLICKS, "Source: clicks", 6_000.0, max_parallelism=64),
        VertexModel(JOINED, "join", 3_500.0, max_parallelism=256),
        VertexModel(TOTALS, "totals", 2_000.0, max_parallelism=256),
    ),
    {(ORDERS, JOINED): 1.0, (CLICKS, JOINED): 0.6, (JOINED, TOTALS): 0.3},
)
OPTIONS = {
    "job.autoscaler.metrics.window": "5 min",
    "job.autoscaler.stabilization.interval": "1 min",
    "job.autoscaler.scale-down.interval": "10 min",
    "job.autoscaler.scale-down.economics.enabled": "false",
    "job.autoscaler.catch-up.duration": "10 min",
    "job.autoscaler.restart.time-source": "option",
}
"""Rescales often; a second more or less of a fitted outage does not change the sizes."""


def arrivals() -> Workload:
    """Return half a day of two sources, of which one follows the time of day, and the other goes up and down."""
    orders = week_sine(seed=5, weeks=12 / 168).scaled_to(80e3)
    clicks = sine(peak=40e3, cycles=4, duration=12 * HOUR)
    return Workload("two", MINUTE, tuple(a + b for a, b in zip(orders.rows, clicks.rows, strict=True)))


BACKTEST = Simulation(JOB, arrivals(), OPTIONS, terms=RescaleParams(OUTAGE, replay=5.0))


@dataclass(frozen=True)
class Recorded:
    """What came of a run, and the rows that the daemon would have written meanwhile."""

    result: BacktestResult
    rows: list[NamedRow]


def recorded(backtest: Simulation) -> Recorded:
    rows: list[NamedRow] = []

    def watch(outcome: PassOutcome, context: JobAutoScalerContext, now_ms: int) -> None:
        rows.extend(rows_of(outcome, context, now_ms, span_ms=60_000))

    result = run(backtest, watch)
    return Recorded(result, rows)


def fitted(found: Recorded) -> BacktestCase:
    subject = fit_case(records(found.rows, JOB_KEY), FitParams(LATER))
    assert isinstance(subject, BacktestCase), subject
    return subject


@cache
def exact() -> Recorded:
    return recorded(BACKTEST)


@cache
def noisy() -> Recorded:
    return recorded(replace(BACKTEST, reports=ReportSettings(noise=0.05, seed=1)))


EACH = pytest.mark.parametrize("found", [pytest.param(exact, id="exact"), pytest.param(noisy, id="noise of 5 %")])


@EACH
def test_capacities_and_selectivities_come_out_again(found: Callable[[], Recorded]) -> None:
    model = fitted(found()).model

    rates = {vertex.vertex_id: vertex.rate for vertex in model.vertices}
    assert rates == pytest.approx({vertex.vertex_id: vertex.rate for vertex in JOB.vertices}, rel=0.02)
    assert dict(model.edges) == pytest.approx(dict(JOB.edges), rel=0.02)


@EACH
def test_outages_come_out_again(found: Callable[[], Recorded]) -> None:
    recorded = found()

    assert len(recorded.result.rescales) > 10
    assert fitted(recorded).outage == pytest.approx(OUTAGE, abs=1.0)


@EACH
def test_arrivals_come_out_again(found: Callable[[], Recorded]) -> None:
    subject = fitted(found())

    missed = round((subject.start_ms - BACKTEST.start_ms) / 1000 / MINUTE)
    pairs = zip(subject.workload.rows, BACKTEST.workload.rows[missed:], strict=True)
    assert missed == 1
    assert median(abs(sum(here) / sum(there) - 1) for here, there in pairs) < 1e-6
    totals = [sum(map(sum, workload.rows)) for workload in (subject.workload, BACKTEST.workload.part(MINUTE, 1e9))]
    assert totals[0] == pytest.approx(totals[1], rel=2e-3)


def test_backtest_of_the_fitted_job_comes_to_the_same() -> None:
    subject = fitted(exact())

    again = simulate_task(SimulationTask(subject, "again", OPTIONS)).figures

    first = exact().result.measures
    assert again is not None
    assert again.slot_hours / again.duration == pytest.approx(first.slot_hours / first.duration, rel=0.02)
    assert again.rescales == pytest.approx(first.rescales, abs=2)
    assert again.lag_max == pytest.approx(first.lag_max, rel=0.1)
