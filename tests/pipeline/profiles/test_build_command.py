"""``forecast build`` from a Parquet file to the results, with a Spark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sql_setup.command_line import environment

from flink_autoscaler.stores.sql.database import DatabaseSettings

MONDAY = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
PROGRAM = "from flink_autoscaler.standalone.forecast_commands import forecast; forecast()"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment(DatabaseSettings("sqlite://")),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def write_history(path: Path) -> None:
    """Write four days of one job, and an hour of another one."""
    columns: dict[str, list[object]] = {"job_key": [], "ts": []}
    for job_key, minutes in (("main/orders", 4 * 1440), ("main/new", 60)):
        columns["job_key"] += [job_key] * minutes
        columns["ts"] += [datetime.fromtimestamp(MONDAY - 60 * minute, UTC) for minute in range(minutes)]
    count = len(columns["ts"])
    others = {"source_id": ["source"] * count, "arrival_rate": [50.0] * count, "is_running": [True] * count}
    pq.write_table(pa.table({**columns, **others}), path)


@pytest.mark.spark
def test_build_shows_a_result_for_every_source(tmp_path: Path) -> None:
    write_history(tmp_path / "history.parquet")

    path = str(tmp_path / "history.parquet")

    fast = ("--set", "autoscaler.engine.spark-config.spark.sql.shuffle.partitions=1")

    result = call("build", "--history", path, "--asof", "2026-11-02T00:00Z", "--dry-run", "--json", *fast)

    assert result.returncode == 0, result.stderr
    [new, orders] = json.loads(result.stdout)["forecasts"]
    assert (new["job_key"], new["level"]) == ("main/new", None)
    assert new["problem"].startswith("too little history: 4 of the 288")
    assert (orders["job_key"], orders["level"], orders["problem"]) == ("main/orders", 50.0, None)
    assert orders["asof"] == "2026-11-02T00:00:00+00:00"


def test_build_needs_a_database() -> None:
    result = call("build", "--history", "nowhere.parquet")

    assert (result.returncode, result.stdout) == (2, "")
    assert "jdbc.url is not set" in result.stderr
