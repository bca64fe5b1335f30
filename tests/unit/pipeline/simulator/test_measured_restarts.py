"""What measured outages save: two days of a week's wave, whose rescales take the job away for a minute."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.pipeline.backtest.subject import chain
from flink_autoscaler.pipeline.simulator import BacktestResult, RescaleTerms, Simulation, run
from flink_autoscaler.pipeline.simulator.workloads import DAY, week_sine

OUTAGE = 60.0
DELAY = 120.0
"""Seconds from the request to the outage, in which the job works on."""

TRUTH = {"restart.time-source": "option", "restart.time": f"{OUTAGE:g} s"}
ASSUMED = {"restart.time-source": "option"}


def simulated(options: Mapping[str, str], *, days: float = 2.0) -> BacktestResult:
    workload = week_sine().part(0, days * DAY)
    configuration = {f"job.autoscaler.{key}": value for key, value in options.items()}
    terms = RescaleTerms(OUTAGE, delay=DELAY, replay=5.0)
    return run(Simulation(chain(workload), workload, configuration, installed_plugins(), terms=terms))


def test_measured_outages_cost_what_the_truth_costs_and_the_assumed_restart_time_costs_more() -> None:
    truth, assumed = (simulated(options).measures.slot_hours for options in (TRUTH, ASSUMED))

    measured = simulated({}).measures.slot_hours

    assert measured == pytest.approx(truth)
    assert assumed > 1.03 * truth


def tracked(options: Mapping[str, str]) -> set[float]:
    """Return the seconds that restart.time-tracking has recorded."""
    result = simulated({**options, "restart.time-tracking.enabled": "true"}, days=0.45)
    return {record.restart_ms / 1000 for record in result.final.tracking if record.restart_ms is not None}


def test_tracking_records_the_outage_where_rescales_are_followed() -> None:
    assert tracked({}) == {OUTAGE}


def test_tracking_of_the_reference_counts_from_the_decision_and_so_the_wait_before_the_outage() -> None:
    assert min(tracked({"compat": "reference"})) > OUTAGE
