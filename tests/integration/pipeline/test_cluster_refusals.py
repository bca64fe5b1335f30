"""Clusters that cannot do the work say why; apart, because a process has one Spark driver at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_setup import Fleet
from spark_cluster import Recorded, SparkCluster, executor_python
from spark_cluster.recorded import START_SECONDS

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.pipeline.spark.session import open_session
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from flink_cluster.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def test_executors_without_pyarrow_are_told_so_and_passes_run_inline(tmp_path: Path) -> None:
    with Fleet.serving() as fleet, SparkCluster(workers=1) as cluster, ExitStack() as stack:
        recorded = Recorded(cluster.settings(executor_python(tmp_path / "env")), fleet)
        stack.callback(recorded.engine.close)
        requests = [fleet.add("job")]

        def is_told() -> bool:
            assert [outcome.phase for outcome in recorded.engine.evaluate(requests)] == [PassPhase.COLLECTING]
            return "pyarrow" in recorded.fallbacks[-1]

        wait_until("a pass that is told of pyarrow", is_told, START_SECONDS)
        recorded.engine.evaluate(requests)

    assert f"{tmp_path}/env/bin/python" in recorded.fallbacks[-1]
    assert "has no pyarrow: install pyarrow>=18 there" in recorded.fallbacks[-1]


def test_cluster_without_free_cores_is_told_so(tmp_path: Path) -> None:
    with SparkCluster(workers=0) as cluster:
        settings = replace(cluster.settings(executor_python(tmp_path / "env")), executors_timeout=5.0)

        with pytest.raises(SparkLostError, match="no executor of Spark ran a task within 5 s: see whether"):
            open_session(settings)
