"""A metric history that the last release and today's version write, and that both read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.upgrading import Site, Version, said
from testkit.scenarios.upgrading.site import JOBS, LEARNING

pytestmark = [pytest.mark.suite(name="upgrade"), pytest.mark.parametrize("settings", ["sqlite"], indirect=True)]

PASSES = 50
SPAN = timedelta(hours=3)
"""What the recorded minute is stretched to: a backtest wants an hour."""


@pytest.fixture
def site(tmp_path: Path, settings: DatabaseSettings) -> Iterator[Site]:
    """Daemons that write the history when they end: one that is killed leaves it to the next."""
    options = {
        "autoscaler.history.enabled": "true",
        "autoscaler.history.path": str(tmp_path / "history"),
        "autoscaler.history.interval": "1 s",
        "autoscaler.history.flush-interval": "1 h",
    }
    with BusyCluster(tmp_path, jobs=JOBS) as cluster:
        yield Site(tmp_path, cluster, settings, options)


def test_history_goes_on_and_is_read_by_both_versions(site: Site, old: Version, new: Version, tmp_path: Path) -> None:
    history = tmp_path / "history"
    with site.daemon(old) as killed:
        killed.start()
        killed.wait_for_passes(PASSES)
        killed.kill()
    assert files_of(history) == []
    with site.running(new) as daemon:
        daemon.wait_for_passes(PASSES)
    columns = {tuple(pq.read_schema(file).names) for file in files_of(history / "vertices")}

    stretch(history, datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1))
    rows = rows_of(site, new)
    for version in (old, new):
        assert reported(site, version, tmp_path / "report.html") == list(JOBS)
        assert backtested(site, version) == [f"main/{LEARNING}"]
    compacted = said(site.call(new, "history", "compact"))

    print(f"\nhistory: {rows} rows, {len(columns)} schemas of vertices; {compacted.splitlines()[0]}")
    assert rows_of(site, old) == rows
    assert rows_of(site, new) == rows
    assert len(files_of(history / "samples")) == 1
    assert [backtested(site, version) for version in (old, new)] == 2 * [[f"main/{LEARNING}"]]


def files_of(folder: Path) -> Sequence[Path]:
    """Return the files of a history, or of one of its tables, that count."""
    return sorted(folder.glob("**/date=*/**/*.parquet"))


def rows_of(site: Site, version: Version) -> dict[str, int]:
    """Return the number of rows of each table, as a version reads them; no file may be damaged."""
    shown = json.loads(said(site.call(version, "history", "info", "--json")))
    assert all(table["damaged"] == [] for table in shown["tables"])
    return {table["name"]: table["rows"] for table in shown["tables"]}


def backtested(site: Site, version: Version) -> list[str]:
    """Backtest the options of the daemon on what arrived at the job with the longest window; return who was tried."""
    history = site.folder / "history"
    words = ("--history", str(history), "--jobs", f"main/{LEARNING}", "--master", "none", "--json")
    return [job["job_key"] for job in json.loads(said(site.call(version, "backtest", *words)))["jobs"]]


def reported(site: Site, version: Version, page: Path) -> list[str]:
    """Write a report; return the jobs that are in it."""
    said(site.call(version, "report", "--output", str(page), "--force", "--no-forecast"))
    return [job for job in JOBS if f"main/{job}" in page.read_text()]


def stretch(history: Path, start: datetime) -> None:
    """Let what was recorded begin at midnight and last for hours, and be of a day that is over."""
    tables = {file: pq.ParquetFile(file).read() for file in files_of(history)}
    instants = [ts for table in tables.values() for ts in table["ts"].to_pylist()]
    first, factor = min(instants), SPAN / (max(instants) - min(instants))
    for file, table in tables.items():
        rows = [_stretched(row, table.schema, first, start, factor) for row in table.to_pylist()]
        place = Path(str(file).replace(f"date={first:%Y-%m-%d}", f"date={start:%Y-%m-%d}"))
        place.parent.mkdir(parents=True, exist_ok=True)
        file.unlink()
        pq.write_table(pa.Table.from_pylist(rows, table.schema), place)


def _stretched(
    row: dict[str, Any], schema: pa.Schema, first: datetime, start: datetime, factor: float
) -> dict[str, Any]:
    later = dict(row)
    for field in schema:
        if row[field.name] is not None and pa.types.is_timestamp(field.type):
            later[field.name] = start + (row[field.name] - first) * factor
        elif row[field.name] is not None and field.name == "span":
            later[field.name] = row[field.name] * factor
    return later
