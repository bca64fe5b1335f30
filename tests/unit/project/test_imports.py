"""What an import brings along: who simulates, or only looks at settings, does not pay for clients and Spark."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flink_autoscaler.pipeline.spark.settings import source_path

HEAVY = {"aiohttp", "httpx", "numpy", "pandas", "pyarrow", "pyspark"}


def loaded_by(module: str) -> set[str]:
    """Return which heavy packages a fresh interpreter has after importing a module."""
    program = f"import sys, {module}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": source_path()}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return set(answer.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "pipeline",
        "pipeline.backtest",
        "pipeline.backtest.compare",
        "pipeline.reports",
        "pipeline.simulator",
        "pipeline.spark.session",
        "pipeline.spark.settings",
    ],
)
def test_nothing_heavy_is_imported(module: str) -> None:
    assert loaded_by(f"flink_autoscaler.{module}") == set()


def test_passes_in_this_process_need_no_spark_and_no_arrow() -> None:
    assert loaded_by("flink_autoscaler.pipeline.engine.inline") <= {"httpx"}


def test_workers_of_passes_on_spark_need_no_arrow() -> None:
    assert loaded_by("flink_autoscaler.pipeline.spark.task") <= {"httpx"}
