"""What measured outages save: a day of a week's wave, whose rescales take the job away for a minute."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.backtest.case import chain
from flink_autoscaler.pipeline.simulator import BacktestResult, RescaleParams, Simulation, run
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS, Watch
from flink_autoscaler.pipeline.simulator.workloads import DAY, week_sine

OUTAGE = 60.0
DELAY = 120.0
"""Seconds from the request to the outage, in which the job works on."""

TRUTH = {"restart.time-source": "option", "restart.time": f"{OUTAGE:g} s"}
ASSUMED = {"restart.time-source": "option"}


def simulated(
    options: Mapping[str, str], *, days: float = 1.0, outages: tuple[int, ...] | None = None, watch: Watch | None = None
) -> BacktestResult:
    workload = week_sine().part(0, days * DAY)
    configuration = {f"job.autoscaler.{key}": value for key, value in options.items()}
    terms = RescaleParams(OUTAGE, delay=DELAY, replay=5.0)
    backtest = Simulation(chain(workload), workload, configuration, installed_plugins(), terms=terms, outages=outages)
    return run(backtest, watch)


def test_measured_outages_cost_what_the_truth_costs_and_the_assumed_restart_time_costs_more() -> None:
    truth, assumed = (simulated(options).measures.slot_hours for options in (TRUTH, ASSUMED))

    measured = simulated({}).measures.slot_hours

    assert measured == pytest.approx(truth)
    assert assumed > 1.03 * truth


def test_a_new_job_alone_in_its_cluster_is_planned_with_the_assumption_until_its_third_rescale_is_over() -> None:
    planned = dict[int, int]()

    def watch(outcome: PassOutcome, context: JobAutoScalerContext, now_ms: int) -> None:
        if outcome.restart is not None:
            planned.setdefault(outcome.restart.seconds, now_ms)

    new = simulated({}, outages=(), watch=watch).rescales
    assumed = simulated(ASSUMED).rescales

    third = new[2]
    assert new[:3] == assumed[:3]
    assert list(planned) == [300, 60]
    assert third.running <= (planned[60] - MONDAY_MS) / 1000 <= third.running + 3 * 60


def tracked(options: Mapping[str, str]) -> set[float]:
    """Return the seconds that restart.time-tracking has recorded."""
    result = simulated({**options, "restart.time-tracking.enabled": "true"}, days=0.45)
    return {record.restart_ms / 1000 for record in result.final.tracking if record.restart_ms is not None}


def test_tracking_records_the_outage_where_rescales_are_followed() -> None:
    assert tracked({}) == {OUTAGE}


def test_tracking_of_the_reference_counts_from_the_decision_and_so_the_wait_before_the_outage() -> None:
    assert min(tracked({"compat": "reference"})) > OUTAGE
