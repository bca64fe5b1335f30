"""A fleet of 200 jobs on a real Spark cluster whose workers are killed, one after the other, while it works."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.profiles import ASOF, write_samples
from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.spark import SparkCluster, commands, equipped_python, make_pyfiles

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="cluster")]

JOBS: Final = 200
KILLS: Final = 2
FIRST_TASKS: Final = 2
"""Of a session: they try what executors have."""

PATIENCE: Final = 1500.0
"""Seconds for what takes one or two minutes on a quiet machine."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def settings(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    python = equipped_python(tmp_path_factory.mktemp("bare") / "env")
    archive = make_pyfiles(tmp_path_factory.mktemp("build"))
    # A stage whose results are lost with a worker is computed again; of many small tasks a kill meets some.
    conf = {
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.files.maxPartitionBytes": "1m",
    }
    found = cluster.settings(python)
    return replace(found, python_files=(str(archive),), conf={**found.conf, **conf})


def through_kills(cluster: SparkCluster, command: Sequence[str | Path]) -> tuple[Mapping[str, Any], int]:
    """Run a command on the cluster, and kill a worker again and again while it works.

    Each one that was killed is replaced; the next one is killed when there are two again and tasks were begun since
    the one before was killed, on whichever worker: how long a new one takes to start is up to the machine.

    Returns:
        What the command printed, and how many workers were killed before it ended.
    """
    begun = cluster.tasks_begun() + FIRST_TASKS
    process = commands.start(*command)
    killed = 0
    for after in (2, 6)[:KILLS]:
        wait_until(
            "tasks, or the end",
            lambda: cluster.tasks_begun() >= begun + after or process.poll() is not None,  # noqa: B023
            PATIENCE,
            interval=0.05,
        )
        if process.poll() is not None:
            break
        next(worker for worker in cluster.workers if worker.is_running).kill()
        killed += 1
        begun = cluster.tasks_begun()
        cluster.add_worker()
        cluster.wait_for_workers(2)
    return commands.document(commands.await_command(process, PATIENCE)), killed


def timed(name: str, command: Sequence[str | Path]) -> Mapping[str, Any]:
    """Run a command on this machine and tell how long it took."""
    began = time.monotonic()
    found = commands.document(commands.await_command(commands.start(*command), PATIENCE))
    print(f"{name}: {time.monotonic() - began:.1f} s on this machine")
    return found


def test_backtest_of_a_fleet_survives_its_workers(
    cluster: SparkCluster, settings: SparkSettings, tmp_path: Path
) -> None:
    jobs = [job_rows(f"main/job-{number:03}", minutes=90, rate=_load(number)) for number in range(JOBS)]
    asked: list[str | Path] = [
        "backtest",
        "--json",
        "--history",
        a_history(tmp_path / "history", list(itertools.chain(*jobs))),
    ]
    began = time.monotonic()

    found, killed = through_kills(cluster, [*asked, "--master", settings.master, *commands.engine_options(settings)])

    print(f"backtest: {time.monotonic() - began:.1f} s on the cluster, {killed} workers killed")
    assert killed == KILLS
    assert len(found["jobs"]) == JOBS
    assert found == timed("backtest", [*asked, "--master", "none"])


def test_profiles_of_a_fleet_survive_their_workers(
    cluster: SparkCluster, settings: SparkSettings, tmp_path: Path
) -> None:
    days = {f"main/job-{number:03}": 1 if number % 10 == 0 else 3 for number in range(JOBS)}
    history = write_samples(tmp_path, days=days).history
    asked: list[str | Path] = ["forecast", "build", "--dry-run", "--json", "--asof", ASOF, "--history", history]
    here = SparkSettings(master="local[1]", conf={"spark.sql.shuffle.partitions": "2"})
    began = time.monotonic()

    found, killed = through_kills(cluster, [*asked, *commands.engine_options(settings)])

    print(f"profiles: {time.monotonic() - began:.1f} s on the cluster, {killed} workers killed")
    assert killed == KILLS
    assert len(found["forecasts"]) == JOBS
    assert found == timed("profiles", [*asked, *commands.engine_options(here)])


def _load(number: int) -> Any:
    """Return the load of a job, which rises in its own way after half an hour."""
    return lambda minute: 400.0 if minute < 30 else 500.0 + number
