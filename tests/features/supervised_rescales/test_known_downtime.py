"""Measured outages reach the passes of the daemon: of the job, or of its cluster until there are enough."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from testkit.builders.sql.command_line import call
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner.wired import in_database, settings_on, started

ASSUMED = 300
"""Seconds that ``restart.time`` is without configuration."""

HOUR_MS = 3_600_000


def assumed_restarts(
    flink: FakeFlink,
    folder: Path,
    *,
    measured: dict[str, Sequence[float]],
    options: dict[str, str] | None = None,
) -> dict[str, int | None]:
    """Let a daemon look at jobs three times, and return the seconds that it assumes of a restart, by job name.

    Args:
        flink: The cluster.
        folder: For the database.
        measured: Seconds of outages that the daemon before has measured, by job name, oldest first.
        options: Of the jobs.
    """
    ids = {name: flink.add_job(name).job_id for name in measured}
    values = in_database(f"jdbc:sqlite:{folder / 'autoscaler.db'}") | {"job.autoscaler.metrics.window": "20 s"}
    values |= {f"job.autoscaler.{key}": text for key, text in (options or {}).items()}
    with started(settings_on(flink.url, values)) as (_, passes):
        remember(folder, {f"main/{name}": (ids[name], outages) for name, outages in measured.items()})
        reports = [passes.run() for _ in range(3)]
    restarts = {name: reports[-1].reports[f"main/{name}"].outcome.restart for name in measured}
    return {name: None if restart is None else restart.seconds for name, restart in restarts.items()}


def remember(folder: Path, jobs: dict[str, tuple[str, Sequence[float]]]) -> None:
    """Write the states that a daemon has left behind."""
    database = Database(DatabaseSettings(f"jdbc:sqlite:{folder / 'autoscaler.db'}"))
    now_ms = time.time_ns() // 1_000_000
    store = SqlStateStore(database)
    for job_key, (job_id, outages) in jobs.items():
        past = tuple(
            RescaleRecord(
                now_ms - (len(outages) - number) * HOUR_MS,
                now_ms - (len(outages) - number) * HOUR_MS,
                {"v": 1},
                {"v": 2},
                stage=Stage.REACHED,
                outage_ms=round(seconds * 1000),
            )
            for number, seconds in enumerate(outages)
        )
        store.save(job_key, JobState(job_id=job_id, supervision=Supervision(past=past)))
    store.close()
    database.close()


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        pytest.param([], ASSUMED, id="nothing measured"),
        pytest.param([20, 30], ASSUMED, id="two are not enough"),
        pytest.param([20, 31, 30], 30, id="the median of three"),
        pytest.param([20.0, 20.1, 600.0, 19.9], 21, id="one that took long counts no more, rounded up"),
        pytest.param([0.3, 0.2, 0.4], 5, id="not below five seconds"),
        pytest.param([1200, 1300, 1400], 900, id="not above the limit"),
        pytest.param([10_000] * 30 + [40] * 20, 40, id="the newest twenty"),
    ],
)
def test_three_measured_outages_replace_the_assumed_restart_time(
    flink: FakeFlink, tmp_path: Path, measured: list[float], expected: int
) -> None:
    assert assumed_restarts(flink, tmp_path, measured={"orders": measured}) == {"orders": expected}


def test_a_job_without_enough_outages_of_its_own_has_those_of_its_cluster(flink: FakeFlink, tmp_path: Path) -> None:
    measured: dict[str, Sequence[float]] = {"orders": [30, 40, 50], "payments": [100], "returns": [], "clicks": [45]}

    assumed = assumed_restarts(flink, tmp_path, measured=measured)

    assert assumed == {"orders": 40, "payments": 45, "returns": 45, "clicks": 45}


def test_outages_of_one_job_change_nothing_for_its_neighbours(flink: FakeFlink, tmp_path: Path) -> None:
    measured: dict[str, Sequence[float]] = {"liar": [900, 900, 900], "payments": [100], "returns": []}

    assumed = assumed_restarts(flink, tmp_path, measured=measured)

    assert assumed == {"liar": 900, "payments": ASSUMED, "returns": ASSUMED}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"compat": "reference"}, ASSUMED, id="compat reference"),
        pytest.param({"restart.time-source": "option"}, ASSUMED, id="switched off"),
        pytest.param({"compat": "reference", "restart.time-source": "measured"}, 40, id="reference, and asked for"),
        pytest.param({"restart.time-tracking.enabled": "true"}, ASSUMED, id="the longest restart is tracked"),
    ],
)
def test_the_option_counts_where_measured_outages_are_not_wanted(
    flink: FakeFlink, tmp_path: Path, options: dict[str, str], expected: int
) -> None:
    assumed = assumed_restarts(flink, tmp_path, measured={"orders": [30, 40, 50]}, options=options)

    assert assumed == {"orders": expected}


def test_explain_says_what_the_restart_time_of_a_pass_rests_on(flink: FakeFlink, tmp_path: Path) -> None:
    assumed_restarts(flink, tmp_path, measured={"orders": [100], "payments": [30, 40, 50], "clicks": [45]})

    texts = [
        call(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}"), "explain", f"main/{name}").stdout
        for name in ("orders", "payments")
    ]

    assert [text.split("planned for a restart\n  ")[1].split("\n")[0] for text in texts] == [
        "45 s, the median of what was measured (outages of the job: 1, other jobs of its cluster: 2)",
        "40 s, the median of 3 measured outages of the job",
    ]
