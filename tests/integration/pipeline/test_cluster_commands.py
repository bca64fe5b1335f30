"""``forecast build`` and ``backtest`` on a real Spark cluster and over Spark Connect, as users run them.

Executors have nothing of ours installed. Both come to what they come to without a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.forecasts import SqlForecastStore
from testkit.builders.backtests import a_history, job_rows, rescale_row
from testkit.builders.profiles import ASOF, write_samples
from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.spark import ConnectServer, SparkCluster, commands, equipped_python, make_pyfiles

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="cluster")]

PLACES: Final = ("standalone", "connect")
CANDIDATES: Final = {"calm": 0.6, "bold": 0.8}
MANY: Final = {f"target-{percent}": percent / 100 for percent in range(50, 80, 5)}
"""So many that a kill meets some of them."""

FEW: Final = {"spark.sql.shuffle.partitions": "2"}
"""For little data."""

PATIENCE: Final = 120.0
Profiles = Mapping[str, Mapping[str, ProfileResult]]


@dataclass(frozen=True)
class Places:
    """Where commands run, and where the files are."""

    cluster: SparkCluster
    server: ConnectServer
    python: Path
    archive: Path

    def settings(self, place: str) -> SparkSettings:
        """Return how Spark is run at a place."""
        if place == "connect":
            return SparkSettings(master=self.server.url, conf=FEW)
        settings = self.cluster.settings(self.python)
        return replace(settings, python_files=(str(self.archive),), conf={**settings.conf, **FEW})


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("commands")
    python = equipped_python(folder / "env")
    archive = make_pyfiles(folder / "build")
    with SparkCluster(workers=2) as cluster, ConnectServer(python) as server:
        yield Places(cluster, server, python, archive)


def candidates(folder: Path, targets: Mapping[str, float]) -> list[str | Path]:
    """Write configurations to be compared; return the options that name them."""
    options: list[str | Path] = []
    for name, target in targets.items():
        path = folder / f"{name}.yaml"
        path.write_text(f"job.autoscaler.utilization.target: {target}")
        options += ["--config", path]
    return options


def build(settings: SparkSettings, samples: Path, folder: Path) -> tuple[Any, Profiles]:
    """Build profiles into a database of their own; return what was shown, and what is in the database."""
    database = DatabaseSettings(f"jdbc:sqlite:{folder / 'profiles.db'}")
    options = ("--set", f"autoscaler.standalone.jdbc.url={database.url}")
    upgraded = commands.run("db", "upgrade", *options)
    assert upgraded.returncode == 0, upgraded.stderr
    asked = ("--history", samples, "--asof", ASOF, "--json")

    command = commands.run("forecast", "build", *asked, *options, *commands.engine_options(settings))

    shown = commands.document(command)
    store = SqlForecastStore(Database(database))
    return shown, {each["job_key"]: store.load(each["job_key"]) for each in shown["forecasts"]}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Give samples as each place reads them: through Spark Connect a Parquet file, else a metric history."""
    found = write_samples(tmp_path_factory.mktemp("samples"))
    return {"standalone": found.history, "connect": found.file}


@pytest.fixture(scope="module")
def local_profiles(samples: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Profiles]:
    return build(SparkSettings(master="local[1]", conf=FEW), samples["standalone"], tmp_path_factory.mktemp("local"))


@pytest.mark.parametrize("place", PLACES)
def test_profiles_of_a_cluster_are_those_of_this_machine(
    place: str, places: Places, samples: Mapping[str, Path], local_profiles: tuple[Any, Profiles], tmp_path: Path
) -> None:
    shown, profiles = build(places.settings(place), samples[place], tmp_path)

    assert (shown, profiles) == local_profiles
    assert {job: found["source"].problem is None for job, found in profiles.items()} == {
        "main/clicks": True,
        "main/new": False,
        "main/orders": True,
    }


def backtest(asked: Sequence[str | Path], settings: SparkSettings) -> commands.Process:
    """Start a backtest on a cluster."""
    return commands.start("backtest", "--json", *asked, "--master", settings.master, *commands.engine_options(settings))


def inline(asked: Sequence[str | Path]) -> Any:
    """Return what a backtest comes to in a process without Spark."""
    return commands.document(commands.run("backtest", "--json", *asked, "--master", "none"))


@pytest.mark.parametrize("place", PLACES)
def test_backtest_on_a_cluster_comes_to_what_one_process_comes_to(place: str, places: Places, tmp_path: Path) -> None:
    jobs = [job_rows(), job_rows("main/clicks"), [*job_rows("main/views"), rescale_row(20.0, job_key="main/views")]]
    asked = ["--history", a_history(tmp_path / "history", *jobs), *candidates(tmp_path, CANDIDATES)]

    found = commands.document(commands.await_command(backtest(asked, places.settings(place))))

    assert [each["job_key"] for each in found["jobs"]] == ["main/clicks", "main/orders", "main/views"]
    assert found == inline(asked)


def test_executor_killed_during_a_backtest_costs_no_result(places: Places, tmp_path: Path) -> None:
    asked = ["--workload", "week-sine", "--days", "1", *candidates(tmp_path, MANY)]
    begun = places.cluster.tasks_begun()

    process = backtest(asked, places.settings("standalone"))
    # Two tasks ask executors what they are; those that follow simulate.
    wait_until("a simulation", lambda: places.cluster.tasks_begun() >= begun + 4, PATIENCE, interval=0.05)
    places.cluster.kill_executor()

    assert commands.document(commands.await_command(process)) == inline(asked)
