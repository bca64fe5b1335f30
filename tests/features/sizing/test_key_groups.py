"""Key groups: a subtask has whole ones, which costs capacity wherever they cannot be divided evenly."""

from __future__ import annotations

from typing import Any

import pytest

from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import EMPTY_MEMORY
from flink_autoscaler.pipeline.simulator import JobModel, RescaleParams, Simulation, VertexModel, run
from flink_autoscaler.pipeline.simulator.bounds import OracleParams, oracle, parallelism_for
from flink_autoscaler.pipeline.simulator.metrics import Reporter, ReportSettings
from flink_autoscaler.pipeline.simulator.model import FluidJob
from flink_autoscaler.pipeline.simulator.rescales import RescalingJob
from flink_autoscaler.pipeline.simulator.workloads import HOUR, from_rates

SOURCE, WINDOW = "a" * 32, "b" * 32


def a_vertex(**further: Any) -> VertexModel:
    return VertexModel(WINDOW, "window", 100.0, max_parallelism=128, **{"key_groups": 128, **further})


def a_job() -> JobModel:
    return JobModel.chain([VertexModel(SOURCE, "source", 1000.0), a_vertex()])


@pytest.mark.parametrize(
    ("parallelism", "capacity"),
    [
        pytest.param(1, 100.0, id="one has them all"),
        pytest.param(32, 3200.0, id="four each"),
        pytest.param(33, 3200.0, id="some still have four"),
        pytest.param(42, 3200.0, id="two of four, the rest three"),
        pytest.param(43, 12800 / 3, id="three at most"),
        pytest.param(63, 12800 / 3, id="two would need one more"),
        pytest.param(64, 6400.0, id="two each"),
        pytest.param(128, 12800.0, id="one each"),
    ],
)
def test_capacity_is_that_of_the_subtask_with_the_most_key_groups(parallelism: int, capacity: float) -> None:
    assert a_vertex().capacity(parallelism) == pytest.approx(capacity)
    assert a_vertex(key_groups=0).capacity(parallelism) == parallelism * 100.0
    assert a_vertex(skew=2.0).capacity(parallelism) == pytest.approx(capacity / 2)


def test_sizes_are_those_at_which_key_groups_are_divided_better() -> None:
    assert [parallelism_for(a_vertex(), demand) for demand in (3200.0, 3201.0, 4300.0)] == [32, 43, 64]
    with pytest.raises(ValueError, match="impossible vertex"):
        a_vertex(key_groups=-1)


def test_oracle_knows_the_sizes_that_are_worth_having() -> None:
    # 1,000 records/s need eleven, of which the hottest has twelve key groups; ten have thirteen, which take 985.
    # 4,200 need 43. To make up for an outage as well, 5,250, would take 64, so it goes up a bucket before.
    workload = from_rates("mine", [1000.0] * 20 + [4200.0] * 5, step=300.0)

    plan = oracle(a_job(), workload, OracleParams(outage=60.0))

    assert plan.sizes == (11,) * 19 + (43,) * 6


def test_cluster_reports_the_hottest_subtask() -> None:
    job = RescalingJob(FluidJob(a_job(), {SOURCE: 5, WINDOW: 48}), RescaleParams())
    reporter = Reporter(job, ReportSettings(), 0)
    job.flow(60.0, (3200.0,))

    window = reporter.read(EMPTY_MEMORY, with_facts=False).aggregates[WINDOW]

    # 25 records/s per key group: three of them keep the hottest busy for 0.75, and 128 / 48 the mean for 0.667.
    busy, rate = window[FlinkMetric.BUSY_TIME], window[FlinkMetric.RECORDS_IN_RATE]
    assert (busy.maximum, busy.average) == pytest.approx((750.0, 2000 / 3))
    assert (rate.maximum, rate.average) == pytest.approx((75.0, 3200 / 48))


@pytest.mark.parametrize("mode", ["EVENLY_SPREAD", "OFF"])
def test_policy_ends_at_a_size_that_serves_what_arrives(mode: str) -> None:
    configuration = {
        "job.autoscaler.scaling.parallelism-alignment.mode": mode,
        "job.autoscaler.metrics.window": "5 min",
        "job.autoscaler.stabilization.interval": "1 min",
    }
    workload = from_rates("step", [1500.0] * 30 + [5000.0] * 210)

    result = run(Simulation(a_job(), workload, configuration, initial={SOURCE: 4, WINDOW: 32}))

    final = result.rescales[-1].after[WINDOW]
    assert a_vertex().capacity(final) >= 5000.0
    assert result.trace.lags[-1] == 0.0
    assert mode == "OFF" or 128 % final == 0
    assert result.measures.duration == 4 * HOUR
