"""A schedule that never applies changes no decision of the default policy, whatever its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from behaviour_vectors import read_vectors, replay

from flink_autoscaler.core.model.decision import Hold
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.simulator import JobModel, Simulation, VertexModel, run
from flink_autoscaler.pipeline.simulator.workloads import HOUR, MINUTE, WORKLOADS, Workload, from_rates
from testkit.contracts.vectors import scenario_differences

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
PREFIX = "job.autoscaler."
NEVER = {
    "no plan": {"schedule.plans": "days=sat, from=3:00, to=3:01, max-parallelism=1"},
    "a plan for no vertex": {"schedule.plans": "vertex=nowhere, min-parallelism=8"},
}
HASTY = {
    "metrics.window": "5 min",
    "stabilization.interval": "1 min",
    "scale-down.interval": "10 min",
    "catch-up.duration": "10 min",
    "restart.time": "1 min",
    "sample-check.enabled": "false",  # or the second look holds back what some of the options are about
}
OPTIONS: Mapping[str, dict[str, str]] = {
    "as the reference": {"compat": "reference"},
    "observed scalability": {
        "observed-scalability.enabled": "true",
        "observed-scalability.min-observations": "1",
        "observed-scalability.coefficient-min": "0.2",
    },
    "effectiveness": {"scaling.effectiveness.detection.enabled": "true", "scaling.effectiveness.threshold": "0.9"},
    "steps": {"scale-up.max-factor": "0.5", "scale-down.max-factor": "0.2"},
    "bounds": {"vertex.min-parallelism": "3", "vertex.max-parallelism": "12", "vertex.bounds": "work=2..8"},
    "a wide band": {"utilization.max": "0.95", "utilization.min": "0.2"},
    "no catching up": {"catch-up.duration": "0"},
    "measured restarts": {"restart.time-tracking.enabled": "true", "restart.time": "20 min"},
    "no alignment": {"scaling.parallelism-alignment.mode": "OFF"},
    "backlogs": {"backlog-processing.lag-threshold": "10 s"},
}


def a_job(workload: Workload) -> JobModel:
    """Make a chain that takes the greatest load of a workload at about 20 subtasks per vertex."""
    peak = max(row[0] for row in workload.rows)
    source = VertexModel("a" * 32, "Source: in", peak / 20)
    return JobModel.chain([source, VertexModel("b" * 32, "work", peak / 15, max_parallelism=720)])


def passes(workload: Workload, options: Mapping[str, str]) -> list[Any]:
    """Return what every pass of a simulation came to, apart from its reasons and what policies remember."""
    seen: list[Any] = []

    def watch(outcome: PassOutcome, _: JobAutoScalerContext, at_ms: int) -> None:
        summaries = {} if isinstance(outcome.decision, Hold) else outcome.decision.summaries
        state = replace(outcome.state, policies={}, samples=())
        metrics = outcome.metrics or None
        told = [(event.reason, event.message) for event in outcome.events]
        seen.append(
            (at_ms, outcome.phase, summaries, dict(outcome.target.parallelism), repr(metrics), told, repr(state))
        )

    configuration = {PREFIX + key: value for key, value in {**HASTY, **options}.items()}
    run(Simulation(a_job(workload), workload, configuration), watch)
    return seen


def shortened(workload: Workload) -> Workload:
    """Return the first two hours of a workload, of its first source."""
    rows = tuple(row[:1] for row in workload.rows[: int(2 * HOUR / workload.step)])
    return replace(workload, rows=rows)


@pytest.mark.parametrize("name", ["office", "spikes", "three-sources", "random"])
def test_a_schedule_that_never_applies_changes_no_pass_of_a_workload(name: str) -> None:
    workload = shortened(WORKLOADS[name](seed=1))

    assert passes(workload, {}) == passes(workload, NEVER["no plan"])


STEPS = from_rates("up and down", [4e4] * 15 + [9e4] * 40 + [2e4] * 65, step=MINUTE)


@cache
def alone() -> list[Any]:
    """Return the passes of the default policy over these steps, with its own options."""
    return passes(STEPS, {})


@pytest.mark.parametrize("never", NEVER)
def test_whatever_keeps_it_from_applying(never: str) -> None:
    assert sum(bool(each[2]) for each in alone()) > 1
    assert passes(STEPS, NEVER[never]) == alone()


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_default_counts_under_a_schedule_as_well(name: str) -> None:
    options = OPTIONS[name]
    without = passes(STEPS, options)

    assert passes(STEPS, {**options, **NEVER["no plan"]}) == without
    assert [each[2:] for each in without] != [each[2:] for each in alone()]


@pytest.mark.parametrize("name", ["scenarios_01"])
def test_scenarios_of_the_reference_go_as_measured_under_a_schedule_that_never_applies(name: str) -> None:
    vectors = read_vectors(VECTORS / f"{name}.json.gz")
    more = {PREFIX + key: value for key, value in NEVER["no plan"].items()}
    for case in vectors["cases"]:
        case["scenario"]["base_conf"] = {**case["scenario"].get("base_conf", {}), **more}

    replayed = replay(vectors, progress=lambda *_: None)

    pairs = zip(vectors["cases"], replayed["cases"], strict=True)
    assert [difference for case, actual in pairs for difference in scenario_differences(case, actual)] == []
