"""The engine on a real Spark standalone cluster whose executors have nothing of ours installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.pipeline import Fleet
from testkit.clusters.spark import Recorded, SparkCluster, comparables, equipped_python, evaluate_while, make_pyfiles
from testkit.fakes.flink import Fault

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="cluster")]

JOBS = 40  # three tasks' worth: both workers take part


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def settings(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    python = equipped_python(tmp_path_factory.mktemp("bare") / "env")
    archive = make_pyfiles(tmp_path_factory.mktemp("build"))
    return replace(cluster.settings(python), python_files=(str(archive),))


@pytest.fixture(scope="module")
def module_fleet() -> Iterator[Fleet]:
    with Fleet.serving() as fleet:
        yield fleet


@pytest.fixture(scope="module")
def module_spark(settings: SparkSettings, module_fleet: Fleet) -> Iterator[Recorded]:
    with ExitStack() as stack:
        recorded = Recorded(settings, module_fleet)
        stack.callback(recorded.engine.close)
        recorded.wait_for_spark()
        yield recorded


@pytest.fixture
def fleet(module_fleet: Fleet) -> Fleet:
    module_fleet.flink.clear_faults()
    module_fleet.flink.jobs.clear()
    return module_fleet


@pytest.fixture
def spark(module_spark: Recorded) -> Recorded:
    module_spark.fallbacks.clear()
    return module_spark


@pytest.mark.guard
def test_pass_on_two_workers_gives_what_the_inline_engine_gives(
    cluster: SparkCluster, fleet: Fleet, spark: Recorded
) -> None:
    requests = fleet.add_mixed()

    outcomes = spark.engine.evaluate(requests)

    assert comparables(outcomes) == comparables(fleet.inline.evaluate(requests))
    assert (spark.fallbacks, spark.sessions[-1].slots(), len(cluster.executors())) == ([], 2, 2)


def test_executor_killed_during_a_pass_costs_nothing(cluster: SparkCluster, fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add(f"job {number}") for number in range(JOBS)]
    fleet.flink.fault(str(requests[-1].context.job_id), Fault.HANG)
    opened = len(spark.sessions)

    during = evaluate_while(spark, fleet, requests, cluster.kill_executor)
    after = spark.engine.evaluate(requests)

    assert [outcome.phase for outcome in during[:-1]] == [PassPhase.COLLECTING] * (JOBS - 1)
    assert [outcome.phase for outcome in after] == [outcome.phase for outcome in during]
    assert (spark.fallbacks, len(spark.sessions)) == ([], opened)
    cluster.wait_for_executors(2)


def test_worker_killed_during_a_pass_costs_nothing(cluster: SparkCluster, fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add(f"job {number}") for number in range(JOBS)]
    fleet.flink.fault(str(requests[-1].context.job_id), Fault.HANG)
    cluster.wait_for_executors(2)

    during = evaluate_while(spark, fleet, requests, cluster.workers[0].kill)
    cluster.wait_for_workers(1)
    after = spark.engine.evaluate(requests)
    cluster.add_worker()
    cluster.wait_for_workers(2)

    assert [outcome.phase for outcome in during[:-1]] == [PassPhase.COLLECTING] * (JOBS - 1)
    assert [outcome.phase for outcome in after] == [outcome.phase for outcome in during]
    assert spark.fallbacks == []


def test_master_replaced_costs_one_pass(cluster: SparkCluster, fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add("job")]
    opened = len(spark.sessions)
    cluster.restart_master()

    [during] = spark.engine.evaluate(requests)
    spark.wait_for_spark()
    [after] = spark.engine.evaluate(requests)

    assert [during.phase, after.phase] == [PassPhase.COLLECTING] * 2
    assert spark.fallbacks == []
    assert len(spark.sessions) - opened in {0, 1}  # executors that have not noticed yet may do the work, too
