"""Backtests: the production pass over simulated jobs."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.supervision import Stage
from flink_autoscaler.pipeline.simulator import BacktestResult, JobModel, RescaleParams, Simulation, VertexModel, run
from flink_autoscaler.pipeline.simulator.bounds import static_peak, work_area
from flink_autoscaler.pipeline.simulator.metrics import ReportSettings
from flink_autoscaler.pipeline.simulator.workloads import DAY, HOUR, MINUTE, Workload, from_rates, week_sine

SOURCE, OTHER, WORK = "a" * 32, "b" * 32, "c" * 32
PREFIX = "job.autoscaler."
HASTY = {
    PREFIX + "metrics.window": "3 min",
    PREFIX + "stabilization.interval": "1 min",
    PREFIX + "scale-down.interval": "0",
    PREFIX + "scale-down.max-factor": "1",
    PREFIX + "utilization.target": "0.5",
    PREFIX + "utilization.max": "0.7",
    PREFIX + "utilization.min": "0.4",
    PREFIX + "catch-up.duration": "0",
    PREFIX + "scaling.parallelism-alignment.mode": "OFF",
    PREFIX + "scale-down.economics.enabled": "false",
}
"""Decides within minutes, and sizes for twice the load."""


def a_chain() -> JobModel:
    """A source of 1,000 records/s per subtask and work of 100 records/s per subtask."""
    vertices = [
        VertexModel(SOURCE, "Source: orders", 1000.0),
        VertexModel(WORK, "work", 100.0, max_parallelism=720),
    ]
    return JobModel.chain(vertices)


def a_backtest(rates: list[float], **changes: Any) -> Simulation:
    """Make a backtest whose arrivals change every quarter of an hour."""
    workload = from_rates("mine", rates, step=15 * MINUTE)
    return replace(Simulation(a_chain(), workload, HASTY), **changes)


TIGHT = {SOURCE: 1, WORK: 12}
"""Too small for twice 990 records/s, which needs 2 and 20."""


def test_job_is_scaled_to_its_load() -> None:
    result = run(a_backtest([990.0, 990.0], initial=TIGHT))

    assert [dict(rescale.after) for rescale in result.rescales] == [{SOURCE: 2, WORK: 20}]
    assert result.measures.ups == 1
    assert result.trace.slots[-1] == 20


def test_job_is_scaled_down() -> None:
    result = run(a_backtest([990.0, 990.0], initial={SOURCE: 6, WORK: 60}))

    assert [dict(rescale.after) for rescale in result.rescales] == [{SOURCE: 2, WORK: 20}]
    assert result.measures.downs == 1


def test_job_is_sized_for_its_first_arrivals_unless_told_otherwise() -> None:
    result = run(a_backtest([1000.0]))

    assert result.trace.slots[0] == 20
    assert result.rescales == ()


def test_job_that_cannot_take_its_first_arrivals_begins_as_large_as_it_can_be() -> None:
    job = JobModel.chain([VertexModel(SOURCE, "Source: orders", 100.0, max_parallelism=5)])

    result = run(Simulation(job, from_rates("much", [2000.0]), HASTY))

    assert result.trace.slots == [5] * 12


def test_rescale_follows_its_decision_by_delay_and_outage() -> None:
    terms = RescaleParams(30.0, delay=45.0, replay=10.0)

    result = run(a_backtest([990.0, 990.0], initial=TIGHT, terms=terms))

    decided, rescale = result.decisions[0].instant, result.rescales[0]
    assert (rescale.requested, rescale.stopped, rescale.running) == (decided, decided + 45.0, decided + 75.0)
    assert result.measures.replayed == pytest.approx(9900.0)


def test_late_passes_find_a_window_full_in_time_or_a_pass_later() -> None:
    def decided(jitter: float, seed: int) -> float:
        reports = ReportSettings(seed=seed)
        return run(a_backtest([990.0], initial=TIGHT, jitter=jitter, reports=reports)).decisions[0].instant

    prompt = decided(0.0, 0)
    late = [decided(1.0, seed) - prompt for seed in range(8)]

    assert all(0 <= each <= 1 or 60 <= each <= 61 for each in late)
    assert min(late) < 1 < max(late)


def test_no_metrics_count_before_the_job_runs_again() -> None:
    result = run(a_backtest([990.0, 990.0], initial=TIGHT, terms=RescaleParams(150.0)))

    # The passes 60 and 120 s after the decision find no running job.
    assert result.holds["NOT_RUNNING"] == 2


def test_supervision_sees_the_rescale_through() -> None:
    result = run(a_backtest([990.0, 990.0], initial=TIGHT, terms=RescaleParams(42.0)))

    supervision = result.final.supervision
    assert supervision.current is not None
    assert supervision.current.stage is Stage.REACHED
    assert supervision.current.outage_ms == 42_000
    assert dict(supervision.last_stable) == {SOURCE: 2, WORK: 20}
    assert result.final.tracking[-1].restart_ms == 42_000


def test_rescales_need_not_be_followed() -> None:
    options = {**HASTY, PREFIX + "supervised-rescales.enabled": "false"}

    result = run(a_backtest([990.0, 990.0], initial=TIGHT, configuration=options))

    assert result.rescales[0].after == {SOURCE: 2, WORK: 20}
    assert result.final.supervision.current is None


def test_disabled_job_keeps_its_size() -> None:
    backtest = a_backtest([1000.0, 5000.0], configuration={PREFIX + "enabled": "false"}, initial={SOURCE: 2, WORK: 20})

    result = run(backtest)

    assert result.rescales == ()
    assert result.holds == {"DISABLED": 30}
    # 2,000 of 5,000 records/s are taken: three fifths of what came in 15 minutes wait.
    assert result.measures.lag_max == pytest.approx(540.0)


def test_dry_run_decides_and_changes_nothing() -> None:
    result = run(a_backtest([1000.0, 2000.0], configuration={**HASTY, PREFIX + "dry-run": "true"}))

    assert result.rescales == ()
    assert "SCALING_DISABLED" in result.holds


def test_same_backtest_comes_to_the_same() -> None:
    terms, reports = RescaleParams(45.0, replay=5.0), ReportSettings(noise=0.05, seed=4)
    backtest = a_backtest([1000.0, 3000.0, 800.0, 2500.0], terms=terms, reports=reports)

    first, second = run(backtest), run(backtest)

    assert first.trace == second.trace
    assert first.rescales == second.rescales


def test_backtest_and_its_result_travel() -> None:
    backtest = a_backtest([990.0, 990.0], initial=TIGHT, terms=RescaleParams(20.0))

    result = run(pickle.loads(pickle.dumps(backtest)))

    returned = pickle.loads(pickle.dumps(result))
    assert returned.measures == run(backtest).measures
    assert returned.decisions[0].wanted == result.decisions[0].wanted


def test_sources_are_scaled_together_with_what_joins_them() -> None:
    vertices = (
        VertexModel(SOURCE, "Source: a", 500.0),
        VertexModel(OTHER, "Source: b", 100.0),
        VertexModel(WORK, "join", 100.0),
    )
    job = JobModel(vertices, {(SOURCE, WORK): 1.0, (OTHER, WORK): 0.5})
    workload = Workload("both", 15 * MINUTE, ((990.0, 198.0), (990.0, 198.0)))

    result = run(Simulation(job, workload, HASTY, initial={SOURCE: 2, OTHER: 2, WORK: 12}))

    # 990 and 198 records/s; of the latter half gets to the join.
    assert result.rescales[-1].after == {SOURCE: 4, OTHER: 4, WORK: 22}


def test_zeros_fed_during_outages_lead_to_rescales_that_nobody_needs() -> None:
    options = {**HASTY, PREFIX + "stabilization.interval": "0", PREFIX + "compat": "reference"}
    rates = [990.0, 990.0]

    fed = run(a_backtest(rates, initial=TIGHT, configuration=options, reports=ReportSettings(feeds_zeros=True)))
    absent = run(a_backtest(rates, initial=TIGHT, configuration=options))

    assert len(fed.rescales) > len(absent.rescales) == 1


def test_workload_needs_a_rate_for_every_source() -> None:
    job = JobModel((VertexModel(SOURCE, "a", 1.0), VertexModel(OTHER, "b", 1.0)), {})

    with pytest.raises(ValueError, match="mine has rates for 1 sources"):
        run(Simulation(job, from_rates("mine", [1.0])))


def test_option_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ConfigError):
        run(a_backtest([1000.0], configuration={PREFIX + "utilization.target": "much"}))


@cache
def day(dt: float) -> BacktestResult:
    """Run a job of 33 slots at its peak with the defaults."""
    vertices = [
        VertexModel(SOURCE, "Source: events", 12_500.0, max_parallelism=720),
        VertexModel(OTHER, "map", 5_000.0, max_parallelism=720),
        VertexModel(WORK, "window", 10_000.0, max_parallelism=720),
    ]
    job = JobModel.chain(vertices, [1.0, 0.5])
    return run(Simulation(job, week_sine().part(0, DAY), terms=RescaleParams(replay=5.0), dt=dt))


def test_defaults_do_well_on_days_like_any_other() -> None:
    measures = day(5.0).measures

    assert measures.rescales <= 6
    assert measures.lag_p95 == 0.0
    assert measures.over_slo / measures.duration < 0.005
    assert 0.6 < measures.efficiency < 1.0


def test_longer_steps_change_little() -> None:
    short, long = day(5.0), day(10.0)

    assert long.measures.slot_hours == pytest.approx(short.measures.slot_hours, rel=0.01)
    assert long.measures.lag_max == pytest.approx(short.measures.lag_max, abs=10.0)


def test_autoscaler_is_between_the_bounds() -> None:
    backtest = a_backtest([1000.0, 500.0, 3000.0, 700.0] * 4)

    result = run(backtest)

    held = result.measures.slot_hours * HOUR
    assert work_area(backtest.job, backtest.workload) < held
    # Twice the load is what it sizes for.
    assert held < 2 * static_peak(backtest.job, backtest.workload)
