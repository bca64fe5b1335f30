"""The state store in real databases: what is sent, what is kept when that fails, and what others wrote."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, text, update

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime, ScalingMetric
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState, ScalingRecord
from flink_autoscaler.core.ports.deployment import AutoScalerStateStore
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import ConflictError, LeaseLostError
from flink_autoscaler.stores.sql.state.codec import TEXT_LIMIT, StateType, encode
from flink_autoscaler.stores.sql.state.store import JOBS_AT_ONCE, SqlStateStore
from flink_autoscaler.stores.sql.state.windows import WindowTexts
from flink_autoscaler.stores.sql.tables import JOBS, METADATA, SET_ASIDE, STATE
from flink_autoscaler.stores.testing.store_contract import AutoScalerStateStoreContract, full_state, same_state
from testkit.builders.sql import make_reference_schema, state_rows, write_state
from testkit.scenarios.runner import LogLines
from testkit.servers.databases import DatabaseServer, counting, every_database, rows_of
from testkit.servers.databases.reader_rules import check_readable

SAMPLES = Path(__file__).parents[4] / "fixtures" / "jdbc-java"


NORMAL, EMPTY = "53f2be87e462401f4e4248df258a83f5", "0" * 29 + "c0c"


VERTEX = "a6b7102b8d3e3a9564998c1ffeb5e2b7"


OVERRIDES = JobState(overrides={VERTEX: 4})


TRACKING = (ScalingRecord(1_704_274_199_000, 61_500),)


TWO_TYPES = JobState(overrides={VERTEX: 4}, tracking=TRACKING)


NOON = 1_704_283_200.0


@every_database
class TestSqlStateStore(AutoScalerStateStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def make_store(self) -> AutoScalerStateStore:
        return SqlStateStore(self.database)

    def reopen(self, store: AutoScalerStateStore) -> AutoScalerStateStore:
        return SqlStateStore(self.database)


class Gate:
    """A fence that lets nobody through while it is closed, and counts who asked."""

    def __init__(self) -> None:
        self.error: StoreError | None = None
        self.asked = 0

    def check(self, connection: Connection) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def store(database: Database) -> SqlStateStore:
    return SqlStateStore(database)


def replaced(state: JobState, **parts: Any) -> JobState:
    return dataclasses.replace(state, **parts)


def spoil(database: Database, state_type: str, value: str, job_key: str = "job") -> None:
    """Replace a stored value behind the store's back."""
    with database.transaction() as connection:
        condition = (STATE.c.job_key == job_key) & (STATE.c.state_type == state_type)
        connection.execute(update(STATE).where(condition).values(state_value=value))


def counts(database: Database, *actions: Any) -> tuple[int, int, int, int]:
    """Return how many SELECT, INSERT, UPDATE and DELETE statements were about the state table."""
    with counting(database) as sent:
        for action in actions:
            action()
        return tuple(sent.count(word, STATE) for word in ("SELECT", "INSERT", "UPDATE", "DELETE"))  # type: ignore[return-value]


def test_statement_counts_of_a_life(database: Database, store: SqlStateStore) -> None:
    assert counts(database, *[lambda: store.load("job")] * 3) == (1, 0, 0, 0)
    assert counts(database, lambda: store.save("job", TWO_TYPES)) == (0, 1, 0, 0)
    changed = JobState(overrides={VERTEX: 5}, tracking=(*TRACKING, ScalingRecord(1_704_274_200_000)))
    assert counts(database, lambda: store.save("job", changed)) == (0, 0, 1, 0)
    assert counts(database, lambda: store.save("job", EMPTY_STATE)) == (0, 0, 0, 1)
    assert counts(database, lambda: store.load("job2")) == (1, 0, 0, 0)


def test_remove_replace_and_add_are_one_statement_each(database: Database, store: SqlStateStore) -> None:
    store.save("job", TWO_TYPES)
    changed = replaced(EMPTY_STATE, tracking=(), overrides={VERTEX: 5}, samples=full_state().samples)

    assert counts(database, lambda: store.save("job", changed)) == (0, 1, 1, 1)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(TWO_TYPES, id="the same"),
        pytest.param(replaced(TWO_TYPES, overrides={VERTEX: 4}), id="equal but another object"),
    ],
)
def test_saving_what_is_stored_sends_nothing(database: Database, store: SqlStateStore, state: JobState) -> None:
    store.save("job", TWO_TYPES)

    assert counts(database, lambda: store.save("job", state), lambda: store.load("job")) == (0, 0, 0, 0)


def test_a_steady_pass_is_one_update_and_nothing_else(database: Database, store: SqlStateStore) -> None:
    state = full_state()
    store.save("job", state)
    later = replaced(state, samples=(*state.samples, MetricSample(1_704_274_300_000, {}, {})))

    with counting(database) as sent:
        store.save("job", later)

    assert [text.split()[:2] for text in sent.texts] == [["UPDATE", STATE.name]]


@every_database
def test_a_conflict_drops_the_view_and_the_next_access_reads(database: Database) -> None:
    ours, theirs = SqlStateStore(database), SqlStateStore(database)
    ours.load("job")
    theirs.save("job", OVERRIDES)

    with pytest.raises(ConflictError, match="another process writes the same job"):
        ours.save("job", JobState(overrides={VERTEX: 9}))

    assert counts(database, lambda: ours.load("job")) == (1, 0, 0, 0)
    assert ours.load("job") == OVERRIDES


def test_a_failed_save_leaves_nothing_of_it_behind(database: Database) -> None:
    ours, theirs = SqlStateStore(database), SqlStateStore(database)
    ours.save("job", replaced(EMPTY_STATE, tracking=TRACKING))
    before = state_rows(database)
    write_state(database, "job", parallelismOverrides=f"{VERTEX}:1")

    with pytest.raises(ConflictError):
        ours.save("job", JobState(overrides={VERTEX: 9}))

    assert state_rows(database) == {**before, ("job", "parallelismOverrides"): f"{VERTEX}:1"}
    assert theirs.load("job") == replaced(EMPTY_STATE, tracking=TRACKING, overrides={VERTEX: 1})


@every_database
def test_a_row_that_was_deleted_behind_our_back_is_made_again(database: Database, store: SqlStateStore) -> None:
    store.save("job", TWO_TYPES)
    with database.transaction() as connection:
        connection.execute(delete(STATE).where(STATE.c.state_type == "parallelismOverrides"))
    changed = JobState(overrides={VERTEX: 5}, tracking=(*TRACKING, ScalingRecord(1_704_274_200_000)))

    store.save("job", changed)

    assert SqlStateStore(database).load("job") == changed


def test_a_job_that_was_deleted_behind_our_back_is_made_again(database: Database, store: SqlStateStore) -> None:
    store.save("job", replaced(OVERRIDES, job_id="a"))
    with database.transaction() as connection:
        connection.execute(delete(STATE))
        connection.execute(delete(JOBS))

    store.save("job", JobState(job_id="b", overrides={VERTEX: 5}))

    assert SqlStateStore(database).load("job") == JobState(job_id="b", overrides={VERTEX: 5})


def test_forget_makes_changes_of_others_visible(database: Database) -> None:
    ours, theirs = SqlStateStore(database), SqlStateStore(database)
    ours.save("job", OVERRIDES)
    theirs.save("job", TWO_TYPES)

    ours.forget()

    assert ours.load("job") == TWO_TYPES


def test_a_failed_save_is_kept_and_written_with_the_next(database: Database) -> None:
    gate = Gate()
    store = SqlStateStore(database, fence=gate)
    store.save("job", OVERRIDES)
    gate.error = StoreError("away")

    with pytest.raises(StoreError, match="away"):
        store.save("job", TWO_TYPES)
    assert store.load("job") is TWO_TYPES
    gate.error = None
    store.save("job", TWO_TYPES)

    assert SqlStateStore(database).load("job") == TWO_TYPES


def test_a_new_job_whose_save_failed_counts_as_a_job(database: Database) -> None:
    gate = Gate()
    store = SqlStateStore(database, fence=gate)
    gate.error = StoreError("away")
    with pytest.raises(StoreError):
        store.save("job", OVERRIDES)

    assert store.job_keys() == {"job"}
    assert SqlStateStore(database).job_keys() == frozenset()


def test_a_save_after_a_failed_one_looks_at_the_rows_first(database: Database) -> None:
    """Whether the failed one was committed is not known."""
    gate = Gate()
    store = SqlStateStore(database, fence=gate)
    store.load("job")
    gate.error = StoreError("connection lost during commit")
    with pytest.raises(StoreError):
        store.save("job", OVERRIDES)
    SqlStateStore(database).save("job", OVERRIDES)
    gate.error = None

    assert counts(database, lambda: store.save("job", TWO_TYPES)) == (1, 1, 0, 0)
    assert SqlStateStore(database).load("job") == TWO_TYPES


def test_without_the_lease_nothing_is_written_and_nothing_kept(database: Database) -> None:
    gate = Gate()
    store = SqlStateStore(database, fence=gate)
    store.save("job", OVERRIDES)
    gate.error = LeaseLostError("another daemon leads")

    with pytest.raises(LeaseLostError):
        store.save("job", TWO_TYPES)
    with pytest.raises(LeaseLostError):
        store.delete("job")

    assert store.load("job") == OVERRIDES
    assert SqlStateStore(database).load("job") == OVERRIDES


def test_only_writing_asks_the_fence(database: Database) -> None:
    gate = Gate()
    store = SqlStateStore(database, fence=gate)

    store.load("job")
    store.save("job", EMPTY_STATE)
    store.job_keys()
    assert gate.asked == 0
    store.save("job", OVERRIDES)
    store.delete("job")
    assert gate.asked == 2


def test_a_failed_first_load_is_tried_again(database: Database, store: SqlStateStore) -> None:
    SqlStateStore(database).save("job", OVERRIDES)
    with database.transaction() as connection:
        connection.execute(text(f"ALTER TABLE {JOBS.name} RENAME TO away"))

    with pytest.raises(StoreError, match="flink-autoscaler db upgrade"):
        store.load("job")
    with database.transaction() as connection:
        connection.execute(text(f"ALTER TABLE away RENAME TO {JOBS.name}"))

    assert store.load("job") == OVERRIDES


@every_database
def test_times_are_local_and_the_writer_is_noted(database: Database) -> None:
    store = SqlStateStore(database, writer="host-1", clock=lambda: NOON + 0.999)

    store.save("main/orders", JobState(job_id="abc", overrides={VERTEX: 4}))

    (row,), (job,) = rows_of(database, STATE), rows_of(database, JOBS)
    assert row["update_time"] == job["updated_at"] == database.local_time(NOON + 0.999)
    assert row["update_time"].microsecond == (0 if database.dialect == "mysql" else 999_000)
    assert (job["cluster"], job["job_id"], job["writer"]) == ("main", "abc", "host-1")


def test_what_is_written_satisfies_the_reader_of_the_java_process(database: Database, store: SqlStateStore) -> None:
    store.save("job", full_state())

    rows = rows_of(database, STATE)
    assert {row["state_type"] for row in rows} == set(StateType)
    for row in rows:
        check_readable(row["state_type"], row["state_value"])


def java_rows(database: Database) -> list[dict[str, Any]]:
    name = "mysql" if database.dialect == "mysql" else "postgres"
    rows: list[dict[str, Any]] = json.loads((SAMPLES / f"state_store_{name}.json").read_text())["rows"]
    return rows


@pytest.fixture
def taken_over(database: Database) -> Database:
    """A database with the rows of the Java process."""
    for row in java_rows(database):
        write_state(database, row["job_key"], **{row["state_type"]: row["state_value"]})
    return database


@every_database
def test_rows_of_the_java_process_load(taken_over: Database) -> None:
    store = SqlStateStore(taken_over)

    state = store.load(NORMAL)

    assert len(store.job_keys()) == 3
    assert store.quarantined_count == 0
    assert state.job_id is None
    assert [len(state.samples), len(state.history), len(state.tracking), len(state.overrides)] == [2, 1, 1, 3]


def test_rows_of_the_java_process_stay_as_they_are_until_they_change(taken_over: Database) -> None:
    before = state_rows(taken_over)
    store = SqlStateStore(taken_over)
    for job_key in store.job_keys():
        store.save(job_key, store.load(job_key))
    assert state_rows(taken_over) == before

    store.save(NORMAL, replaced(store.load(NORMAL), overrides={VERTEX: 2}))

    assert state_rows(taken_over) == {**before, (NORMAL, "parallelismOverrides"): f"{VERTEX}:2"}


@every_database
def test_rows_of_the_java_process_can_be_handed_back(taken_over: Database) -> None:
    store = SqlStateStore(taken_over)
    for job_key in store.job_keys() - {EMPTY}:
        # Everything is written anew.
        state = store.load(job_key)
        store.save(job_key, EMPTY_STATE)
        store.save(job_key, state)

    for (job_key, state_type), value in state_rows(taken_over).items():
        if job_key != EMPTY:
            check_readable(state_type, value)


def test_kinds_of_a_later_version_are_left_alone(database: Database, store: SqlStateStore) -> None:
    write_state(database, "job", fromTheFuture="{}", parallelismOverrides=f"{VERTEX}:4")

    store.save("job", replaced(store.load("job"), overrides={}))

    assert state_rows(database) == {("job", "fromTheFuture"): "{}"}


@every_database
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("\x01garbage", id="corrupt"),
        pytest.param('{"scalingRecords":{"2024-0', id="truncated"),
        pytest.param("H4sIAAAAAAAC" + "A" * 400, id="compressed"),
        pytest.param("{}" * 100_000, id="foreign"),
        pytest.param("'; DROP TABLE fa_job; --", id="SQL"),
    ],
)
def test_a_value_that_cannot_be_read_is_set_aside_to_the_letter(database: Database, damage: str) -> None:
    SqlStateStore(database).save("job", TWO_TYPES)
    spoil(database, "scalingTracking", damage)
    store = SqlStateStore(database)

    with LogLines() as lines:
        assert store.load("job") == OVERRIDES
        store.save("job", OVERRIDES)

    (kept,) = rows_of(database, SET_ASIDE)
    (line,) = lines.of("state_quarantined", job_key="job", state_type="scalingTracking")
    assert (kept["job_key"], kept["state_type"], kept["state_value"]) == ("job", "scalingTracking", damage)
    assert kept["problem"] == line["problem"]
    assert damage not in kept["problem"]
    assert store.quarantined_count == 1
    assert set(state_rows(database)) == {("job", "parallelismOverrides")}


def test_a_value_that_cannot_be_read_stays_until_somebody_writes(database: Database) -> None:
    SqlStateStore(database).save("job", TWO_TYPES)
    spoil(database, "scalingTracking", "{")
    before = state_rows(database)
    store = SqlStateStore(database)

    for _ in range(3):
        store.load("job")

    assert state_rows(database) == before
    assert store.quarantined_count == 1


def test_a_value_with_unknown_metrics_is_used_and_kept_when_it_is_replaced(database: Database) -> None:
    value = '{"2024-01-03T09:29:59Z":{"vertexMetrics":{},"globalMetrics":{"LAG":1.0,"NEW":2.0}}}'
    write_state(database, "job", collectedMetrics=value)
    store = SqlStateStore(database)

    state = store.load("job")
    store.save("job", replaced(state, overrides={VERTEX: 4}))
    assert rows_of(database, SET_ASIDE) == []
    store.save("job", replaced(state, samples=()))

    assert state.samples == (MetricSample(1_704_274_199_000, {}, {ScalingMetric.LAG: 1.0}),)
    assert [row["state_value"] for row in rows_of(database, SET_ASIDE)] == [value]


def test_damage_is_reported_again_after_it_was_repaired(database: Database) -> None:
    SqlStateStore(database).save("job", TWO_TYPES)
    store = SqlStateStore(database)
    for _ in range(2):
        spoil(database, "scalingTracking", "{")
        store.forget()
        store.load("job")
        store.save("job", TWO_TYPES)

    assert store.quarantined_count == 2
    assert len(rows_of(database, SET_ASIDE)) == 2


@every_database
def test_a_value_that_is_too_long_is_not_fetched_but_kept(database: Database) -> None:
    SqlStateStore(database).save("job", TWO_TYPES)
    spoil(database, "scalingTracking", "{" + " " * TEXT_LIMIT)
    store = SqlStateStore(database)

    assert store.load("job") == OVERRIDES
    store.save("job", OVERRIDES)

    assert [len(row["state_value"]) for row in rows_of(database, SET_ASIDE)] == [TEXT_LIMIT + 1]


def test_damage_in_our_own_table_makes_every_sample_incomplete(database: Database) -> None:
    samples = (MetricSample(1_704_274_199_000, {VERTEX: {}}, {}, frozenset({VERTEX})),)
    SqlStateStore(database).save("job", JobState(samples=samples))
    with database.transaction() as connection:
        connection.execute(update(JOBS).values(own_state="{"))

    assert SqlStateStore(database).load("job").samples == samples


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"supervision":{"since_ms":-900000000000000000}}', '{"supervision":{"edit":{"until_ms":1e18}}}'],
)
def test_damage_in_our_own_table_is_set_aside_to_the_letter_and_told_once(database: Database, text: str) -> None:
    samples = (MetricSample(1_704_274_199_000, {VERTEX: {}}, {}, frozenset({VERTEX})),)
    SqlStateStore(database).save("job", JobState(samples=samples))
    with database.transaction() as connection:
        connection.execute(update(JOBS).values(own_state=text))

    with LogLines() as lines:
        store = SqlStateStore(database)
        for job_id in ("a" * 32, "b" * 32):
            store.save("job", dataclasses.replace(store.load("job"), job_id=job_id))
        again = SqlStateStore(database)
        again.load("job")

    (kept,) = rows_of(database, SET_ASIDE)
    assert (kept["job_key"], kept["state_type"], kept["state_value"]) == ("job", "ownState", text)
    assert [line["state_type"] for line in lines.of("state_quarantined")] == ["ownState"]
    assert (store.quarantined_count, again.quarantined_count) == (1, 0)


@every_database
@pytest.mark.parametrize(
    "job_key",
    [
        pytest.param("k" * 192, id="too long"),
        pytest.param("\U0001f680" * 192, id="too long in characters of four bytes"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("a\ud800b", id="half a character"),
    ],
)
def test_job_keys_that_do_not_fit_are_refused(store: SqlStateStore, job_key: str) -> None:
    for attempt in (store.load, store.delete, lambda key: store.save(key, OVERRIDES)):
        with pytest.raises(StoreError, match="characters"):
            attempt(job_key)


@every_database
@pytest.mark.parametrize(
    "job_key",
    [
        pytest.param("'; DELETE FROM t_flink_autoscaler_state_store; --", id="SQL"),
        pytest.param("100%s%(x)s :name ?", id="placeholders"),
        pytest.param("\"\\'`%_", id="quotes and patterns"),
        pytest.param("\U0001f680" * 191, id="longest with four bytes each"),
    ],
)
def test_job_keys_are_data(database: Database, job_key: str) -> None:
    store = SqlStateStore(database)
    store.save("other", OVERRIDES)
    store.save(job_key, TWO_TYPES)
    store.save(job_key, replaced(TWO_TYPES, overrides={VERTEX: 7}))

    assert SqlStateStore(database).load(job_key).overrides == {VERTEX: 7}
    store.delete(job_key)

    assert SqlStateStore(database).job_keys() == {"other"}


@every_database
def test_values_of_any_characters_come_back(database: Database) -> None:
    state = replaced(
        full_state(), config_changes=dataclasses.replace(full_state().config_changes, removals=("\0", "🚀"))
    )

    SqlStateStore(database).save("job", state)

    assert same_state(SqlStateStore(database).load("job"), state)


@pytest.fixture
def java_mysql(mariadb_server: DatabaseServer) -> Iterator[Database]:
    """MariaDB with the state table of the Java process, which ignores case."""
    with closing(Database(mariadb_server.new_database())) as database:
        make_reference_schema(database)
        with database.transaction() as connection:
            METADATA.create_all(connection)
        yield database


def test_a_table_that_ignores_case_does_not_mix_up_jobs(java_mysql: Database) -> None:
    store = SqlStateStore(java_mysql)
    store.save("main/job", TWO_TYPES)

    assert store.load("main/JOB") == EMPTY_STATE
    with pytest.raises(StoreError, match=r"'main/JOB' and 'main/job' are the same .* binary collation"):
        store.save("main/JOB", OVERRIDES)
    store.delete("main/JOB")

    assert SqlStateStore(java_mysql).load("main/job") == TWO_TYPES


def test_released_job_is_read_again_and_others_are_not(database: Database) -> None:
    store = SqlStateStore(database)
    for job_key in ("gone", "here"):
        store.save(job_key, OVERRIDES)

    store.release("gone")
    with counting(database) as statements:
        here = store.load("here")
        untouched = len(statements.texts)
        gone = store.load("gone")

    assert (here, gone) == (OVERRIDES, OVERRIDES)
    assert (untouched, len(statements.texts)) == (0, 1)


def after_a_failed_save(database: Database) -> SqlStateStore:
    """Return a store that could not write the state of a job."""
    gate = Gate()
    store = SqlStateStore(database, fence=gate)
    store.load("job")
    gate.error = StoreError("away")
    with pytest.raises(StoreError):
        store.save("job", OVERRIDES)
    return store


def test_released_job_that_could_not_be_written_yet_is_kept(database: Database) -> None:
    store = after_a_failed_save(database)

    store.release("job")

    assert store.load("job") == OVERRIDES


@pytest.mark.parametrize(
    "is_over",
    [
        pytest.param(lambda store: store.release("job"), id="the job is gone"),
        pytest.param(lambda store: store.forget(), id="somebody else writes it"),
    ],
)
def test_a_save_that_failed_tells_nothing_about_the_database_once_nobody_here_tries_it_again(
    database: Database, is_over: Callable[[SqlStateStore], None]
) -> None:
    store = after_a_failed_save(database)
    told_before = store.write_error()

    is_over(store)

    assert told_before is not None
    assert store.write_error() is None


def test_a_save_that_fails_after_somebody_else_began_to_write_tells_nothing(database: Database) -> None:
    class Overtaken(Gate):
        def check(self, connection: Connection) -> None:
            overtaken.forget()
            raise StoreError("away")

    overtaken = SqlStateStore(database, fence=Overtaken())
    overtaken.load("job")

    with pytest.raises(StoreError):
        overtaken.save("job", OVERRIDES)

    assert overtaken.write_error() is None


def test_of_jobs_that_are_gone_and_could_not_be_written_the_last_hundred_are_kept(database: Database) -> None:
    gate = Gate()
    store = SqlStateStore(database, fence=gate)
    for number in range(150):
        store.load(f"job-{number}")
    gate.error = StoreError("away")
    for number in range(150):
        with pytest.raises(StoreError):
            store.save(f"job-{number}", OVERRIDES)
        store.release(f"job-{number}")

    kept = [number for number in range(150) if store.load(f"job-{number}") == OVERRIDES]

    assert kept == list(range(50, 150))


def test_a_job_that_has_returned_before_it_could_be_written_is_kept_whoever_leaves(database: Database) -> None:
    gate = Gate()
    store = SqlStateStore(database, fence=gate)
    for number in range(150):
        store.load(f"job-{number}")
    gate.error = StoreError("away")
    for number in range(150):
        with pytest.raises(StoreError):
            store.save(f"job-{number}", OVERRIDES)
    store.release("job-0")
    with pytest.raises(StoreError):
        store.save("job-0", OVERRIDES)
    for number in range(1, 150):
        store.release(f"job-{number}")

    assert store.load("job-0") == OVERRIDES


START_MS = 1_704_274_199_123


JOB_KEYS = [f"main/job {number}" for number in range(JOBS_AT_ONCE + 5)]


class Fence:
    """A fence that counts who asked, and may keep them out."""

    def __init__(self) -> None:
        self.error: StoreError | None = None
        self.asked = 0

    def check(self, connection: Connection) -> None:
        del connection
        self.asked += 1
        if self.error is not None:
            raise self.error


def sample(number: int) -> MetricSample:
    waited = {VERTEX: NonBusyTime(10.0 * number, 0.0)}
    return MetricSample(START_MS + 10_000 * number, {VERTEX: {ScalingMetric.LOAD: 0.5 + number}}, {}, waited=waited)


def state(*numbers: int) -> JobState:
    return JobState(samples=tuple(map(sample, numbers)), job_id="1")


def after(before: Mapping[JobKey, JobState], number: int) -> dict[JobKey, JobState]:
    """Return the states of the next pass: one sample more, and one less."""
    newest = sample(number)
    return {key: dataclasses.replace(each, samples=(*each.samples[1:], newest)) for key, each in before.items()}


@pytest.fixture
def gate() -> Fence:
    return Fence()


@pytest.fixture
def batch(database: Database, gate: Fence) -> SqlStateStore:
    return SqlStateStore(database, fence=gate)


@pytest.fixture
def known(batch: SqlStateStore, gate: Fence) -> dict[JobKey, JobState]:
    """Jobs that are stored, and what is stored of them."""
    states = {job_key: state(1, 2, 3) for job_key in JOB_KEYS}
    for job_key in JOB_KEYS:
        batch.load(job_key)
    assert batch.save_all(states) == set(JOB_KEYS)
    gate.asked = 0
    return states


@every_database
def test_many_jobs_are_two_transactions_of_two_statements(
    database: Database, batch: SqlStateStore, gate: Fence, known: dict[JobKey, JobState]
) -> None:
    later = after(known, 4)

    with counting(database) as sent:
        saved = batch.save_all(later)

    assert saved == set(JOB_KEYS)
    assert gate.asked == 2
    assert [text.split()[:2] for text in sent.texts] == [["UPDATE", STATE.name], ["UPDATE", JOBS.name]] * 2
    fresh = SqlStateStore(database)
    assert all(same_state(fresh.load(job_key), later[job_key]) for job_key in (JOB_KEYS[0], JOB_KEYS[-1]))


def test_what_is_stored_already_sends_nothing(batch: SqlStateStore, gate: Fence, known: dict[JobKey, JobState]) -> None:
    assert batch.save_all(known) == set(JOB_KEYS)
    assert gate.asked == 0


def test_states_that_were_never_read_are_left_to_be_saved_one_by_one(database: Database, batch: SqlStateStore) -> None:
    assert batch.save_all({"main/a": state(1)}) == frozenset()
    assert state_rows(database) == {}


def test_jobs_with_more_to_write_than_a_replacement_are_saved_with_the_others(
    database: Database, batch: SqlStateStore, known: dict[JobKey, JobState]
) -> None:
    batch.load("main/new")
    first, second, *_ = JOB_KEYS
    states = {first: full_state(), second: EMPTY_STATE, "main/new": state(1), JOB_KEYS[2]: state(2, 3, 4)}

    saved = batch.save_all(states)

    fresh = SqlStateStore(database)
    assert saved == set(states)
    assert all(same_state(fresh.load(job_key), each) for job_key, each in states.items())


@every_database
def test_a_transaction_that_meets_a_removed_row_is_undone_and_leaves_its_jobs_to_be_saved_one_by_one(
    database: Database, batch: SqlStateStore, known: dict[JobKey, JobState]
) -> None:
    with database.transaction() as connection:
        connection.execute(delete(STATE).where(STATE.c.job_key == JOB_KEYS[3]))
    before, later = state_rows(database), after(known, 4)

    saved = batch.save_all(later)
    untouched = {key: text for key, text in state_rows(database).items() if key[0] in JOB_KEYS[:JOBS_AT_ONCE]}
    for job_key in later.keys() - saved:
        batch.save(job_key, later[job_key])

    assert saved == set(JOB_KEYS[JOBS_AT_ONCE:])
    assert untouched == {key: text for key, text in before.items() if key[0] in JOB_KEYS[:JOBS_AT_ONCE]}
    fresh = SqlStateStore(database)
    assert all(same_state(fresh.load(job_key), later[job_key]) for job_key in JOB_KEYS[:5])


def test_without_the_lease_nothing_is_written(
    database: Database, batch: SqlStateStore, gate: Fence, known: dict[JobKey, JobState]
) -> None:
    before, gate.error = state_rows(database), LeaseLostError("another daemon leads")

    assert batch.save_all(after(known, 4)) == frozenset()
    assert state_rows(database) == before


def test_a_database_that_is_away_is_asked_once_and_looked_at_before_the_next_save(
    database: Database, batch: SqlStateStore, gate: Fence, known: dict[JobKey, JobState]
) -> None:
    gate.error, later = StoreError("away"), after(known, 4)

    saved = batch.save_all(later)
    asked, gate.error = gate.asked, None
    with counting(database) as sent:
        batch.save(JOB_KEYS[0], later[JOB_KEYS[0]])

    assert (saved, asked) == (frozenset(), 1)
    assert sent.count("SELECT", STATE) == 1
    assert same_state(SqlStateStore(database).load(JOB_KEYS[0]), later[JOB_KEYS[0]])


def test_a_state_that_cannot_be_written_leaves_the_others_alone(
    database: Database, batch: SqlStateStore, known: dict[JobKey, JobState]
) -> None:
    later = after(known, 4)
    later[JOB_KEYS[1]] = dataclasses.replace(later[JOB_KEYS[1]], overrides=5)  # type: ignore[arg-type]

    assert batch.save_all(later) == {*JOB_KEYS} - {JOB_KEYS[1]}
    assert same_state(SqlStateStore(database).load(JOB_KEYS[0]), later[JOB_KEYS[0]])


@pytest.mark.parametrize("most_whole", [0, 1, 1 << 20], ids=["none whole", "the first one whole", "all whole"])
@pytest.mark.parametrize("most_kept", [0, 300, 1 << 20], ids=["nothing kept", "some kept", "all kept"])
def test_texts_of_windows_are_those_of_the_codec_whatever_is_kept(most_kept: int, most_whole: int) -> None:
    texts = WindowTexts(most_kept=most_kept, most_whole=most_whole)
    window: tuple[MetricSample, ...] = ()

    for number in range(8):
        window = (*window[-3:], sample(number))
        for job_key in ("a", "b"):
            assert texts.write(job_key, window) == encode(StateType.COLLECTED_METRICS, window)
        assert texts.characters <= most_kept


@pytest.mark.parametrize("most_whole", [0, 1 << 20], ids=["numbers kept", "texts kept"])
def test_samples_of_a_window_may_differ_in_their_metrics(most_whole: int) -> None:
    texts = WindowTexts(most_whole=most_whole)
    told: list[dict[ScalingMetric, float]] = [
        {},
        {ScalingMetric.LOAD: math.nan},
        {ScalingMetric.LOAD: 0.5, ScalingMetric.LAG: math.inf},
    ]
    window = [
        MetricSample(1000 * number, {"100 %s": told[number % 3], 'a "b"': told[number % 2]}, told[number % 3])
        for number in range(9)
    ]

    for last in range(1, len(window) + 1):
        samples = tuple(window[max(0, last - 5) : last])
        assert texts.write("a", samples) == encode(StateType.COLLECTED_METRICS, samples)


def test_numbers_alone_take_less_than_half_of_the_texts() -> None:
    whole, numbers = WindowTexts(), WindowTexts(most_whole=0)
    vertices = {f"{number:032x}": dict.fromkeys(list(ScalingMetric)[:5], 12345.678) for number in range(10)}
    for texts in (whole, numbers):
        texts.write("a", tuple(MetricSample(1000 * number, vertices, {}) for number in range(16)))

    assert numbers.characters < whole.characters / 2


def test_texts_of_a_job_go_with_it() -> None:
    texts = WindowTexts()
    texts.write("a", (sample(1),))
    texts.write("b", (sample(1),))

    texts.forget("a")
    half = texts.characters
    texts.clear()

    assert half > 0
    assert texts.characters == 0
