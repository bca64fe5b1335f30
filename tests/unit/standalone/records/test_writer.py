"""Passes that are recorded aside from the passes themselves."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flink_autoscaler.core.cycle.recording import StoredRecord
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest, RescaleTarget
from flink_autoscaler.standalone.records.codec import decode
from flink_autoscaler.standalone.records.writer import PassRecorder
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.tables import DECISIONS
from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.recorded_passes import JOB_KEY, RecordedJob, scaled_up
from testkit.servers.databases import create_tables, rows_of

PATIENCE = 300.0


@dataclass
class FakeRecordStore:
    """Keeps everything that it is given, oldest first; takes nothing while it is broken."""

    is_broken: bool = False
    tried: threading.Event = field(default_factory=threading.Event)
    records: list[StoredRecord] = field(default_factory=list)

    def add(self, records: Sequence[StoredRecord]) -> None:
        self.tried.set()
        if self.is_broken:
            raise StoreError("away")
        self.records.extend(records)

    def latest(self, job_key: JobKey, at_ms: int | None = None) -> StoredRecord | None:
        found = [each for each in self.records if each.job_key == job_key and (at_ms is None or each.at_ms <= at_ms)]
        return found[-1] if found else None

    def list_newest(self, job_key: JobKey, before_ms: int | None, limit: int) -> Sequence[tuple[int, str, str]]:
        return []

    def job_keys(self) -> frozenset[JobKey]:
        return frozenset(record.job_key for record in self.records)

    def shrink(self, most_bytes: int) -> int:
        return 0

    def expire(self, before_ms: int) -> int:
        expired = [record for record in self.records if record.at_ms < before_ms]
        self.records = [record for record in self.records if record.at_ms >= before_ms]
        return len(expired)


@pytest.fixture
def store() -> FakeRecordStore:
    return FakeRecordStore()


@pytest.fixture
def recorder(store: FakeRecordStore) -> Iterator[PassRecorder]:
    recorder = PassRecorder(store, interval=600.0, retention=86_400.0)
    yield recorder
    recorder.close()


def quiet_passes(recorder: PassRecorder, minutes: int) -> list[int]:
    """Do passes that come to the same, and return the instants of those that were recorded."""
    job = RecordedJob({"enabled": "true"}, status=scaled_up().status)
    job.look_at_load(3, busy_ms=700.0)
    instants = []
    for _ in range(minutes):
        job.look_at_load(1, busy_ms=700.0)
        request = replace(job.records[-1].request, recorded=recorder.last_recorded(JOB_KEY))
        recorder.put(request, job.outcome)
        if recorder.last_recorded(JOB_KEY) != request.recorded:
            instants.append(request.now_ms)
    return instants


def a_decision() -> tuple[PassRequest, PassOutcome]:
    record = scaled_up().records[2]
    return record.request, record.outcome


def test_a_recorded_pass_can_be_read_again(recorder: PassRecorder, store: FakeRecordStore) -> None:
    request, outcome = a_decision()

    recorder.put(request, outcome)

    assert recorder.flush(PATIENCE)
    kept = store.latest(JOB_KEY)
    assert kept is not None
    assert (kept.at_ms, kept.phase, kept.decision) == (request.now_ms, "executed", "rescale")
    assert decode(kept.text).outcome.target.parallelism == outcome.target.parallelism


def test_passes_that_come_to_the_same_are_recorded_now_and_then(recorder: PassRecorder) -> None:
    instants = quiet_passes(recorder, 21)

    assert [instant - instants[0] for instant in instants] == [0, 600_000, 1_200_000]


def test_a_pass_that_is_not_to_be_recorded_is_not(recorder: PassRecorder, store: FakeRecordStore) -> None:
    request, outcome = a_decision()

    recorder.put(replace(request, recorded=None), outcome)

    assert recorder.flush(PATIENCE)
    assert store.job_keys() == frozenset()


def test_a_job_that_was_forgotten_begins_anew(recorder: PassRecorder) -> None:
    recorder.put(*a_decision())
    recorder.forget(JOB_KEY)

    assert recorder.last_recorded(JOB_KEY).at_ms == 0
    assert recorder.last_recorded(JOB_KEY).interval_ms == 600_000


def test_what_the_store_does_not_take_waits_until_it_does() -> None:
    store = FakeRecordStore(is_broken=True)
    recorder = PassRecorder(store, interval=600.0, retention=86_400.0, retry=0.01)
    recorder.put(*a_decision())
    assert store.tried.wait(PATIENCE)

    store.is_broken = False

    assert recorder.flush(PATIENCE)
    assert store.job_keys() == {JOB_KEY}
    recorder.close()


def test_while_the_store_is_away_the_oldest_passes_are_given_up_and_that_is_said() -> None:
    store = FakeRecordStore(is_broken=True)
    request, outcome = a_decision()
    with capture_logs() as lines:
        recorder = PassRecorder(store, interval=600.0, retention=86_400.0, retry=0.01, max_waiting=50)
        for number in range(80):
            recorder.put(replace(request, now_ms=request.now_ms + number), outcome)
        store.is_broken = False
        recorder.flush(PATIENCE)
        recorder.close()

    latest = store.latest(JOB_KEY)
    assert latest is not None
    assert latest.at_ms == request.now_ms + 79
    assert any(line["event"] == "pass_records_lost" for line in lines)


def test_a_pass_that_cannot_be_written_does_not_keep_others_from_it(store: FakeRecordStore) -> None:
    request, outcome = a_decision()
    with capture_logs() as lines:
        recorder = PassRecorder(store, interval=600.0, retention=86_400.0)
        recorder.put(request, replace(outcome, target=RescaleTarget({"work": object()})))  # type: ignore[dict-item]
        recorder.put(replace(request, now_ms=request.now_ms + 1), outcome)
        recorder.close()

    latest = store.latest(JOB_KEY)
    assert latest is not None
    assert latest.at_ms == request.now_ms + 1
    assert [line["event"] for line in lines] == ["pass_not_recorded"]


REFUSE_BUSY = "CREATE TRIGGER refuse BEFORE INSERT ON fa_decision WHEN NEW.job_key = 'main/sick' BEGIN {} END"


def test_a_record_that_the_database_never_takes_does_not_keep_others_from_it(tmp_path: Path) -> None:
    job = RecordedJob({"enabled": "true"})
    job.look_at_load(1, busy_ms=700.0)
    request, outcome = job.records[-1].request, job.outcome
    sick = replace(request, context=replace(request.context, job_key="main/sick"))
    with closing(Database(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}"))) as database, capture_logs() as lines:
        create_tables(database)
        with database.transaction() as connection:
            connection.exec_driver_sql(REFUSE_BUSY.format("SELECT RAISE(ABORT, 'not this one');"))
        recorder = PassRecorder(SqlRecordStore(database), interval=600.0, retention=86_400.0, retry=0.01)
        for each in (sick, request):
            recorder.put(each, outcome)
        is_written = recorder.flush(PATIENCE)
        recorder.close()
        kept = [row["job_key"] for row in rows_of(database, DECISIONS)]

    assert is_written
    assert kept == [request.context.job_key]
    assert [line["job_key"] for line in lines if line["event"] == "pass_not_recorded"] == ["main/sick"]


def test_that_nothing_is_recorded_is_said_once_and_that_it_is_over() -> None:
    store = FakeRecordStore(is_broken=True)
    with capture_logs() as lines:
        recorder = PassRecorder(store, interval=600.0, retention=86_400.0, retry=0.01, tell_after=0.05)
        quiet_passes(recorder, 1)
        wait_until(
            "the word", lambda: [each for each in lines if each["log_level"] == "warning"], PATIENCE, interval=0.01
        )
        store.is_broken = False
        is_written = recorder.flush(PATIENCE)
        recorder.close()

    assert is_written
    told = [(line["event"], line["log_level"]) for line in lines if line["log_level"] != "debug"]
    assert told == [("passes_not_recorded", "warning"), ("pass_recording_recovered", "info")]


def test_old_records_are_removed_in_time(store: FakeRecordStore) -> None:
    request, outcome = a_decision()
    now = [request.now_ms / 1000]
    recorder = PassRecorder(store, interval=600.0, retention=3600.0, clock=lambda: now[0])
    recorder.put(request, outcome)
    assert recorder.flush(PATIENCE)

    now[0] += 7200.0
    later = request.now_ms + 7_200_000
    recorder.put(replace(request, now_ms=later), outcome)
    recorder.put(replace(request, now_ms=later + 1), outcome)
    recorder.flush(PATIENCE)
    recorder.close()

    assert store.latest(JOB_KEY, request.now_ms) is None


def test_old_records_are_removed_after_a_clock_was_set_back_by_years(store: FakeRecordStore) -> None:
    request, outcome = a_decision()
    now = [request.now_ms / 1000 + 10 * 365 * 86_400.0]
    recorder = PassRecorder(store, interval=600.0, retention=3600.0, clock=lambda: now[0])
    now[0] = request.now_ms / 1000 + 7200.0
    for minute in (0, 120, 121):
        recorder.put(replace(request, now_ms=request.now_ms + minute * 60_000), outcome)
        assert recorder.flush(PATIENCE)
    recorder.close()

    assert store.latest(JOB_KEY, request.now_ms) is None


def test_records_of_busy_jobs_take_no_more_than_they_may(tmp_path: Path) -> None:
    request, outcome = a_decision()
    limit, most = 1 << 20, 0
    with closing(Database(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}"))) as database:
        create_tables(database)
        store, now = SqlRecordStore(database), request.now_ms / 1000
        recorder = PassRecorder(store, interval=0.0, retention=86_400.0, max_size=limit, clock=lambda: now)
        for batch in range(30):
            for number in range(20):
                at = replace(request, now_ms=request.now_ms + 20 * batch + number)
                padded = replace(outcome, target=RescaleTarget({secrets.token_hex(4000): 1}))
                recorder.put(at, padded)
            assert recorder.flush(PATIENCE)
            most = max(most, sum(len(row["record"]) for row in rows_of(database, DECISIONS)))
        recorder.close()

    assert limit / 2 < most <= limit * 1.25
