"""The history of a running daemon: aside from the passes, through outages and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from flink_autoscaler.pipeline.tables.buffer import RowBuffer
from flink_autoscaler.pipeline.tables.compact import MaintenanceTask, run_maintenance
from flink_autoscaler.pipeline.tables.files import MissingHistoryError
from flink_autoscaler.pipeline.tables.schema import TABLES
from flink_autoscaler.pipeline.tables.store import list_all_folders, read_rows
from flink_autoscaler.standalone.history.sink import MAX_PASSES, HistorySink, spill_folder
from flink_autoscaler.standalone.records.codec import PassRecord
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from testkit.builders.history import NOON_MS, a_storage, files_of, part_files, sample_rows, write
from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.recorded_passes import RecordedJob, orders_reading, scaled_up, window_filling

PATIENCE = 300.0
KILLS = int(os.environ.get("HISTORY_KILLS", "2"))
WRITER = Path(__file__).parents[3] / "testkit" / "builders" / "history" / "endless.py"


class Clock:
    """Stands still until it is told the time."""

    def __init__(self, at_ms: int = NOON_MS) -> None:
        self.at_ms = at_ms

    def __call__(self) -> float:
        return self.at_ms / 1000


def settings_of(root: Path | str, **values: Any) -> HistorySettings:
    return HistorySettings(enabled=True, path=str(root), **{"compaction_interval": 0.0, **values})


@pytest.fixture
def sinks() -> Iterator[list[HistorySink]]:
    made: list[HistorySink] = []
    yield made
    for sink in made:
        sink.close(timeout=1.0)


def add(sink: HistorySink, record: PassRecord, *, job_key: str | None = None, now_ms: int | None = None) -> None:
    """Hand a pass over one job to the sink."""
    context = replace(record.request.context, job_key=job_key or record.request.context.job_key)
    sink.add([record.outcome], [context], now_ms or record.request.now_ms)


def kept_rows(root: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    storage = a_storage(root)
    parts = (
        read_rows(storage, e.path, TABLES[table]) for each in list_all_folders(storage)[table] for e in each.entries
    )
    return [row for part in parts for row in part.to_pylist()]


def count(root: Path, table: str = "decisions") -> int:
    """Count the rows of a table."""
    storage = a_storage(root)
    found = list_all_folders(storage)[table]
    return sum(len(read_rows(storage, e.path, TABLES[table])) for each in found for e in each.entries)


def test_passes_become_rows_of_every_table(tmp_path: Path, sinks: list[HistorySink]) -> None:
    records = scaled_up().records
    # With today's date they would be months old, and each due as soon as it is there.
    sinks.append(sink := HistorySink(settings_of(tmp_path), clock=Clock(records[-1].request.now_ms)))

    for record in records:
        add(sink, record)

    assert sink.flush(PATIENCE)
    assert {name: count(tmp_path, name) for name in TABLES} == {
        "samples": 4,
        "vertices": 12,
        "decisions": 4,
        "rescales": 1,
    }
    assert len(part_files(tmp_path)) == 4


@pytest.mark.parametrize("lie", [pytest.param(1e12, id="a counter that jumps"), pytest.param(0.0, id="one that falls")])
def test_counters_that_the_pass_knew_to_be_impossible_are_no_rates_of_the_history(
    tmp_path: Path, sinks: list[HistorySink], lie: float
) -> None:
    sinks.append(sink := HistorySink(settings_of(tmp_path)))
    job = RecordedJob()
    job.look_at_load(4)
    job.look(orders_reading(job.now_ms + 60_000, rate=lie))
    job.look_at_load(4)

    for record in job.records:
        add(sink, record)

    assert sink.flush(PATIENCE)
    rates = {
        (table, column): [row[column] for row in kept_rows(tmp_path, table)]
        for table, column in [
            ("samples", "consumption_rate"),
            ("samples", "arrival_rate"),
            ("vertices", "records_in_rate"),
        ]
    }
    assert {rate for found in rates.values() for rate in found if rate is not None} == {1000.0}
    assert len(rates["samples", "consumption_rate"]) == 9


def test_quiet_passes_are_kept_once_per_interval_and_eventful_ones_always(
    tmp_path: Path, sinks: list[HistorySink]
) -> None:
    sinks.append(sink := HistorySink(settings_of(tmp_path, interval=900.0)))

    for record in scaled_up().records:
        add(sink, record)

    sink.flush(PATIENCE)
    # The first pass, the one that decides, and the one in which the rescale settles.
    assert count(tmp_path) == 3


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        pytest.param(59.5, 2, id="a little early"),
        pytest.param(30, 1, id="too early"),
        pytest.param(-3600, 2, id="the clock was set back"),
    ],
)
def test_passes_jitter(tmp_path: Path, sinks: list[HistorySink], seconds: float, kept: int) -> None:
    sinks.append(sink := HistorySink(settings_of(tmp_path)))
    record = scaled_up().records[0]

    for offset in (0.0, seconds):
        add(sink, record, now_ms=NOON_MS + round(offset * 1000))

    sink.flush(PATIENCE)
    assert count(tmp_path) == kept


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        pytest.param("15 min", 3, id="of the interval: minutes 0, 14 and 28"),
        pytest.param("5 min", 6, id="shorter: every 5 minutes, so that rates have no gaps"),
        pytest.param("10 s", 29, id="shorter than a minute: every minute"),
        pytest.param("for ever", 3, id="that cannot be read"),
    ],
)
def test_passes_are_kept_as_often_as_rates_reach_back(
    tmp_path: Path, sinks: list[HistorySink], window: str, kept: int
) -> None:
    sinks.append(sink := HistorySink(settings_of(tmp_path, interval=900.0)))
    record = window_filling().records[0]
    context = replace(record.request.context, configuration={"job.autoscaler.metrics.window": window})

    for minute in range(29):
        sink.add([record.outcome], [context], NOON_MS + minute * 60_000)

    sink.flush(PATIENCE)
    assert count(tmp_path) == kept


def test_rows_wait_until_they_are_due(tmp_path: Path, sinks: list[HistorySink]) -> None:
    clock = Clock()
    sinks.append(sink := HistorySink(settings_of(tmp_path, flush_interval=900.0), clock=clock))
    add(sink, scaled_up().records[0], now_ms=NOON_MS)
    pending = tmp_path / "_pending"
    spilled = wait_until("rows are spilled", lambda: list(pending.rglob("*.jsonl")), PATIENCE, interval=0.01)
    before = part_files(tmp_path)
    clock.at_ms += 900_000

    add(sink, scaled_up().records[0], now_ms=clock.at_ms)  # may come when the first rows are already being written

    assert before == []
    wait_until("rows are written", lambda: part_files(tmp_path), PATIENCE, interval=0.01)
    wait_until("they wait no more", lambda: not any(each.exists() for each in spilled), PATIENCE, interval=0.01)


def test_broken_pass_is_left_out_and_the_others_are_kept(tmp_path: Path, sinks: list[HistorySink]) -> None:
    sinks.append(sink := HistorySink(settings_of(tmp_path)))
    record = scaled_up().records[0]
    broken = replace(record.outcome, observation=replace(record.outcome.observation, topology=42))  # type: ignore[arg-type]

    with capture_logs() as logs:
        sink.add([broken, record.outcome], [record.request.context] * 2, record.request.now_ms)
        sink.flush(PATIENCE)

    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["history_pass_skipped"]
    assert count(tmp_path) == 1


def test_value_that_fits_no_column_costs_the_pass_of_its_job_alone(tmp_path: Path, sinks: list[HistorySink]) -> None:
    sinks.append(sink := HistorySink(settings_of(tmp_path)))
    record = scaled_up().records[0]
    context, topology = record.request.context, record.outcome.observation.topology
    assert topology is not None
    vertices = {v: replace(vertex, parallelism=10**12) for v, vertex in topology.vertices.items()}
    broken = replace(
        record.outcome, observation=replace(record.outcome.observation, topology=replace(topology, vertices=vertices))
    )
    contexts = [replace(context, job_key=f"main/{name}") for name in ("first", "broken", "last")]

    with capture_logs() as logs:
        sink.add([record.outcome, broken, record.outcome], contexts, record.request.now_ms)
        is_written = sink.flush(PATIENCE)

    left_out = [line["job_key"] for line in logs if line["event"] == "history_pass_skipped"]
    assert (is_written, left_out) == (True, ["main/broken"])
    assert count(tmp_path) == 2


def test_figure_whose_code_raises_costs_its_job_alone_and_is_told_once(
    tmp_path: Path, sinks: list[HistorySink]
) -> None:
    sinks.append(sink := HistorySink(settings_of(tmp_path)))
    record = scaled_up().records[0]
    context, topology = record.request.context, record.outcome.observation.topology
    assert topology is not None
    vertices = {v: replace(vertex, parallelism=object()) for v, vertex in topology.vertices.items()}  # type: ignore[arg-type]
    broken = replace(
        record.outcome, observation=replace(record.outcome.observation, topology=replace(topology, vertices=vertices))
    )
    contexts = [replace(context, job_key=f"main/{name}") for name in ("first", "broken", "last")]

    with capture_logs() as logs:
        for minute in range(3):
            sink.add([record.outcome, broken, record.outcome], contexts, NOON_MS + minute * 3_600_000)
        is_written = sink.flush(PATIENCE)

    left_out = [line["job_key"] for line in logs if line["event"] == "history_pass_skipped"]
    assert (is_written, left_out) == (True, ["main/broken"])
    assert count(tmp_path) == 6


def test_path_that_is_not_writable_warns_once_and_recovers(tmp_path: Path, sinks: list[HistorySink]) -> None:
    blocked = tmp_path / "history"
    blocked.write_text("in the way")
    sinks.append(sink := HistorySink(settings_of(blocked, spill_directory=str(tmp_path / "spill")), retry=0.05))

    with capture_logs() as logs:
        add(sink, scaled_up().records[0])
        assert not sink.flush(PATIENCE)
        assert not sink.flush(PATIENCE)
        blocked.unlink()
        wait_until("rows are written", lambda: part_files(tmp_path), PATIENCE, interval=0.01)
        assert sink.flush(PATIENCE)

    told = [line["event"] for line in logs if line["log_level"] in {"warning", "info"}]
    assert told == ["history_unavailable", "history_available"]
    assert count(blocked) == 1


def test_passes_become_rows_that_are_spilled_while_the_history_hangs(tmp_path: Path, sinks: list[HistorySink]) -> None:
    let_go = threading.Event()

    def hang() -> AbstractContextManager[Any]:
        let_go.wait(PATIENCE)
        raise SparkLostError("the JVM is gone")

    settings = settings_of("hdfs://nowhere/history", spill_directory=str(tmp_path))
    sinks.append(sink := HistorySink(settings, sessions=hang))
    add(sink, scaled_up().records[0])
    wait_until("rows", lambda: sink.status().rows_waiting > 0, PATIENCE, interval=0.001)
    sink.flush(0.05)
    passes = 2 * MAX_PASSES

    for number in range(passes):
        before = sink.status().rows_waiting
        add(sink, scaled_up().records[0], job_key=f"main/job {number}")
        wait_until("rows", lambda: sink.status().rows_waiting > before, PATIENCE, interval=0.001)  # noqa: B023

    let_go.set()
    sink.close(timeout=1.0)
    heir = RowBuffer(flush_seconds=900, flush_rows=50_000, spill=tmp_path, hand_over=lambda _: None)
    assert sink.status().passes_lost == 0
    assert heir.recover() == sink.status().rows_waiting > passes


class Hanging(list[PassOutcome]):
    """Outcomes of a pass that nobody comes to the end of."""

    def __init__(self, outcome: PassOutcome) -> None:
        super().__init__([outcome])
        self.is_looked_at, self.let_go = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[PassOutcome]:
        self.is_looked_at.set()
        self.let_go.wait(PATIENCE)
        return super().__iter__()


def test_passes_beyond_a_limit_are_given_up_and_that_is_said(tmp_path: Path, sinks: list[HistorySink]) -> None:
    record = scaled_up().records[0]
    sinks.append(sink := HistorySink(settings_of(tmp_path)))
    hanging = Hanging(record.outcome)
    sink.add(hanging, [record.request.context], record.request.now_ms)
    assert hanging.is_looked_at.wait(PATIENCE)

    with capture_logs() as logs:
        for _ in range(MAX_PASSES + 2):
            add(sink, record)

    assert [line["event"] for line in logs] == ["history_pass_lost"] * 3, "with the one in hand"
    hanging.let_go.set()
    assert sink.flush(PATIENCE)
    assert sink.status().passes_lost == 3


def test_passes_over_many_jobs_are_given_up_earlier(tmp_path: Path, sinks: list[HistorySink]) -> None:
    let_go = threading.Event()

    def hang() -> AbstractContextManager[Any]:
        let_go.wait(PATIENCE)
        return nullcontext()

    record = scaled_up().records[0]
    outcomes, contexts = [record.outcome] * 8_000, [record.request.context] * 8_000
    sinks.append(sink := HistorySink(settings_of("hdfs://nowhere/history"), sessions=hang))
    add(sink, record)
    sink.flush(0.05)

    with capture_logs() as logs:
        for number in range(3):
            sink.add(outcomes, contexts, number)

    assert [line["event"] for line in logs] == ["history_pass_lost"]
    let_go.set()


def test_closing_writes_what_waits(tmp_path: Path) -> None:
    sink = HistorySink(settings_of(tmp_path))
    add(sink, scaled_up().records[0])

    sink.close(timeout=PATIENCE)

    assert count(tmp_path) == 1


def test_daemon_compacts_and_removes_on_schedule(tmp_path: Path, sinks: list[HistorySink]) -> None:
    write(a_storage(tmp_path), sample_rows(2), sample_rows(3), sample_rows(1, at_ms=NOON_MS - 200 * 86_400_000))
    clock = Clock(NOON_MS + 86_400_000)
    sinks.append(sink := HistorySink(settings_of(tmp_path, compaction_interval=3600.0), clock=clock))
    add(sink, scaled_up().records[0])
    assert sink.flush(PATIENCE)

    clock.at_ms += 3_600_000
    sink.flush(PATIENCE)

    folder = "samples/version=1/date=2026-01-31/cluster=main"
    wait_until("one file is left", lambda: files_of(tmp_path).get(folder) == 1, PATIENCE, interval=0.02)
    assert not [name for name in files_of(tmp_path) if "date=2025" in name]
    assert count(tmp_path, "samples") >= 3


def test_history_is_kept_in_order_after_a_clock_was_set_back_by_years(tmp_path: Path, sinks: list[HistorySink]) -> None:
    write(a_storage(tmp_path), sample_rows(2), sample_rows(3))
    clock = Clock(NOON_MS + 10 * 365 * 86_400_000)
    sinks.append(sink := HistorySink(settings_of(tmp_path, compaction_interval=3600.0), clock=clock))
    add(sink, scaled_up().records[0])
    assert sink.flush(PATIENCE)

    clock.at_ms = NOON_MS + 86_400_000
    sink.flush(PATIENCE)

    folder = "samples/version=1/date=2026-01-31/cluster=main"
    wait_until("one file is left", lambda: files_of(tmp_path).get(folder) == 1, PATIENCE, interval=0.02)


def test_path_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"autoscaler\.history\.path is not set"):
        HistorySink(HistorySettings(enabled=True))


def test_spill_folder_is_in_a_local_history_and_nowhere_else_unless_given(tmp_path: Path) -> None:
    assert spill_folder(settings_of(tmp_path)) == tmp_path / "_pending"
    assert spill_folder(settings_of(f"file://{tmp_path}")) == tmp_path / "_pending"
    assert spill_folder(settings_of("hdfs://nameservice1/history")) is None
    assert spill_folder(settings_of("hdfs://nameservice1/history", spill_directory="/x")) == Path("/x")


def minutes_of(root: Path) -> list[int]:
    """Return the minutes of the decisions that were written, in order."""
    storage = a_storage(root)
    found = list_all_folders(storage)["decisions"]
    tables = [read_rows(storage, e.path, TABLES["decisions"]) for each in found for e in each.entries]
    instants = sorted(instant for table in tables for instant in table.column("ts").to_pylist())
    return [round((instant.timestamp() * 1000 - NOON_MS) / 60_000) for instant in instants]


def run_until_killed(root: Path, number: int, passes: int) -> None:
    """Run a process that writes all the time, and kill it while it writes the last of so many passes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(WRITER), str(root), str(number)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for _ in range(passes):
            assert process.stdout.readline(), "it ended by itself"
        process.send_signal(signal.SIGKILL)


def assert_whole(minutes: Sequence[int], number: int, least: int) -> None:
    written = [minute for minute in minutes if minute // 1000 == number]
    assert len(written) >= least
    assert written == list(range(number * 1000, number * 1000 + len(written))), "no gap, nothing twice"


def test_daemon_that_is_killed_while_it_writes_loses_and_doubles_no_row(tmp_path: Path) -> None:
    for number in range(KILLS):
        run_until_killed(tmp_path, number, passes=5)

    HistorySink(settings_of(tmp_path)).close(timeout=PATIENCE)

    found = minutes_of(tmp_path)
    for number in range(KILLS):
        assert_whole(found, number, least=4)


def test_daemon_that_stands_by_leaves_the_compaction_to_the_leader(tmp_path: Path, sinks: list[HistorySink]) -> None:
    day = 86_400_000
    write(a_storage(tmp_path), sample_rows(2), sample_rows(2))
    clock, leads = Clock(NOON_MS + 2 * day), threading.Event()
    often = settings_of(tmp_path, compaction_interval=0.1)
    sinks.append(sink := HistorySink(often, may_maintain=leads.is_set, clock=clock))
    clock.at_ms += day
    sink.flush(PATIENCE)
    before = len(part_files(tmp_path))

    leads.set()

    def is_compacted() -> bool:
        clock.at_ms += 1000
        return len(part_files(tmp_path)) == 1

    wait_until("a compaction", is_compacted, PATIENCE)
    assert before == 2
    assert sink.status().last_compaction_timestamp_seconds is not None


def test_two_daemons_and_a_compaction_share_a_history(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as daemons:
        running = [daemons.submit(run_until_killed, tmp_path, number, 8) for number in range(2)]
        while not all(each.done() for each in running):
            with suppress(MissingHistoryError):
                run_maintenance(a_storage(tmp_path), MaintenanceTask(NOON_MS + 3 * 86_400_000))
        for each in running:
            each.result()

    HistorySink(settings_of(tmp_path)).close(timeout=PATIENCE)

    found = minutes_of(tmp_path)
    for number in range(2):
        assert_whole(found, number, least=7)
    assert not list((tmp_path / "_pending").iterdir())


def test_full_disk_is_told_once_and_rows_wait_for_space(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(WRITER.with_name("full_disk.py")), str(tmp_path)]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)

    found = json.loads(done.stdout)
    assert found["is_written"] == [False] * 5 + [True]
    assert found["told"] == ["history_not_spilled", "history_unavailable", "history_available"]
    assert count(tmp_path) == 5
    assert found["rows"] == sum(count(tmp_path, name) for name in TABLES)
