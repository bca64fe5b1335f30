"""Clusters whose Python is not ours, and what they say when they cannot do the work; each has a driver of its own."""

from __future__ import annotations

import re
import tarfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.pipeline.spark.session import open_session
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from testkit.builders.pipeline import Fleet
from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.spark import Recorded, SparkCluster, comparables, equipped_python, executor_python
from testkit.clusters.spark.recorded import START_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="cluster")]


@pytest.mark.parametrize(
    ("there", "lacks"),
    [pytest.param((), "pyarrow", id="bare"), pytest.param(("pyarrow",), r"\w+", id="pyarrow alone")],
)
def test_executors_that_lack_a_library_are_told_so_and_passes_run_inline(
    there: tuple[str, ...], lacks: str, tmp_path: Path
) -> None:
    told = re.compile(f"the Python of Spark's executors lacks {lacks}: install ")
    with Fleet.serving() as fleet, SparkCluster(workers=1) as cluster, ExitStack() as stack:
        recorded = Recorded(cluster.settings(executor_python(tmp_path / "env", *there)), fleet)
        stack.callback(recorded.engine.close)
        requests = [fleet.add("job")]

        def is_told() -> bool:
            assert [outcome.phase for outcome in recorded.engine.evaluate(requests)] == [PassPhase.COLLECTING]
            return told.search(recorded.fallbacks[-1]) is not None

        wait_until("a pass that is told of it", is_told, START_SECONDS)


def test_environment_that_is_shipped_as_an_archive_evaluates_passes(tmp_path: Path) -> None:
    python = equipped_python(tmp_path / "env")
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as target:  # as venv-pack does
        target.add(python.parent.parent, arcname=".")
    with Fleet.serving() as fleet, SparkCluster(workers=1) as cluster, ExitStack() as stack:
        settings = cluster.settings(Path("environment/bin/python"))
        shipped = {"spark.archives": f"{archive}#environment"}
        recorded = Recorded(replace(settings, conf={**settings.conf, **shipped}), fleet)
        stack.callback(recorded.engine.close)
        recorded.wait_for_spark()
        requests = [fleet.add("job")]

        outcomes = recorded.engine.evaluate(requests)

        assert comparables(outcomes) == comparables(fleet.inline.evaluate(requests))
        assert recorded.fallbacks == []


def test_cluster_without_free_cores_is_told_so(tmp_path: Path) -> None:
    with SparkCluster(workers=0) as cluster:
        settings = replace(cluster.settings(executor_python(tmp_path / "env")), executors_timeout=5.0)

        with pytest.raises(SparkLostError, match="no executor of Spark ran a task within 5 s: see whether"):
            open_session(settings)
