"""What Prometheus is told about the history of a running daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.standalone.history.sink import HistorySink
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.status_series import HISTORY_SERIES
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from testkit.builders.history import NOON_MS, part_files
from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.recorded_passes import window_filling

PATIENCE = 300.0


class Bench:
    """A history that is written when the test says so, and its series."""

    def __init__(self, root: Path, **values: Any) -> None:
        self.at_ms = NOON_MS
        settings = HistorySettings(enabled=True, path=str(root), interval=0.0, compaction_interval=0.0, **values)
        self.sink = HistorySink(settings, clock=lambda: self.at_ms / 1000)
        self._gauges = Gauges()
        self._gauges.register_status(HISTORY_SERIES, self.sink.status)

    def add(self) -> None:
        record = window_filling().records[0]
        self.sink.add([record.outcome], [record.request.context], self.at_ms)

    def series(self, name: str) -> float | None:
        return self._gauges.registry.get_sample_value(f"flink_autoscaler_history_{name}")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "history", spill_directory=str(tmp_path / "spill"))
    yield bench
    bench.sink.close(timeout=1.0)


def test_rows_and_files_that_were_written_are_counted(bench: Bench, tmp_path: Path) -> None:
    for _ in range(2):
        bench.add()
        bench.sink.flush(PATIENCE)
        bench.at_ms += 60_000

    rows = bench.series("rows_written_total")
    assert rows == 2 * (1 + 1 + 3), "a decision, a source and three vertices"
    assert bench.series("files_written_total") == len(part_files(tmp_path)) == 6
    assert (bench.series("failures_total"), bench.series("up")) == (0, 1)


def test_last_write_has_an_age_and_a_duration(bench: Bench) -> None:
    before = bench.series("last_write_age_seconds"), bench.series("last_write_seconds")
    bench.add()
    bench.sink.flush(PATIENCE)
    bench.at_ms += 90_000

    assert before == (None, None)
    assert bench.series("last_write_age_seconds") == 90.0
    assert 0.0 < (bench.series("last_write_seconds") or 0.0) < PATIENCE


def test_rows_that_wait_are_shown_with_the_size_of_what_is_spilled(bench: Bench, tmp_path: Path) -> None:
    bench.add()
    wait_until("rows wait", lambda: bench.series("rows_waiting"), PATIENCE, interval=0.01)

    waiting, spilled = bench.series("rows_waiting"), bench.series("spilled_bytes")
    size = sum(file.stat().st_size for file in (tmp_path / "spill").rglob("*.jsonl"))
    bench.sink.flush(PATIENCE)

    assert (waiting, spilled) == (5, size)
    assert size > 0
    assert (bench.series("rows_waiting"), bench.series("spilled_bytes")) == (0, 0)


def test_path_that_is_away_is_shown_with_failures_and_batches(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "history").write_text("in the way")
    for _ in range(2):
        bench.add()
        assert not bench.sink.flush(PATIENCE)

    names = ("up", "failures_total", "batches_waiting", "rows_waiting", "rows_written_total")
    away = [bench.series(name) for name in names]
    (tmp_path / "history").unlink()
    bench.sink.flush(PATIENCE)

    assert away == [0, 2, 2, 10, 0]
    assert [bench.series(name) for name in names] == [1, 2, 0, 0, 10]


def test_rows_that_were_given_up_are_counted(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("in the way")
    bench = Bench(tmp_path / "history", flush_rows=100)
    for _ in range(5):
        for _ in range(25):
            bench.add()
        bench.sink.flush(PATIENCE)
    lost = bench.series("rows_lost_total")
    bench.sink.close(timeout=PATIENCE)

    assert lost is not None
    assert lost >= 125
    assert lost % 5 == 0


def test_without_a_history_there_are_no_series() -> None:
    gauges = Gauges()
    gauges.register_status(HISTORY_SERIES, lambda: None)

    assert b"flink_autoscaler_history" not in b"".join(gauges.texts())


def test_series_are_among_those_of_the_daemon(bench: Bench) -> None:
    gauges = Gauges()
    gauges.register_status(HISTORY_SERIES, bench.sink.status)

    assert b"flink_autoscaler_history_up 1.0" in b"".join(gauges.texts())
