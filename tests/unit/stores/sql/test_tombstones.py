from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, update

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.deployment import JobTombstones
from flink_autoscaler.stores.heap import HeapTombstones
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.lease import Lease, LeaseFence
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import JOBS, TOMBSTONES
from flink_autoscaler.stores.sql.tombstones import BATCH, SqlTombstones
from testkit.contracts.stores.tombstones import JobTombstonesContract
from testkit.servers.databases import every_database, rows_of

OURS = "our installation"
DAY = timedelta(days=1)
MONTH = 30 * 86_400.0


def with_job(database: Database, job_key: JobKey, **values: Any) -> None:
    """Make the row that a saved job has."""
    cluster, slash, _ = job_key.partition("/")
    row = {"job_key": job_key, "cluster": cluster if slash else "", "writer": OURS, "updated_at": datetime.now()}
    with database.transaction() as connection:
        connection.execute(insert(JOBS).values({**row, **values}))


class TestHeapTombstones(JobTombstonesContract):
    def make_tombstones(self) -> JobTombstones:
        return HeapTombstones()


@every_database
class TestSqlTombstones(JobTombstonesContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def make_tombstones(self) -> JobTombstones:
        return SqlTombstones(self.database, writer=OURS)

    def with_states(self, *job_keys: JobKey) -> None:
        for job_key in job_keys:
            with_job(self.database, job_key)


@pytest.fixture
def tombstones(database: Database) -> SqlTombstones:
    return SqlTombstones(database, writer=OURS)


def test_marks_survive_a_restart(database: Database, tombstones: SqlTombstones) -> None:
    with_job(database, "main/a")
    tombstones.mark("main", ["main/a"])

    reopened = SqlTombstones(database, writer=OURS)

    assert reopened.due_jobs("main", 0.0) == {"main/a"}


@every_database
@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"writer": "another installation"}, id="of another writer"),
        pytest.param({"cluster": "other"}, id="of another cluster"),
    ],
)
def test_jobs_of_others_are_never_given_out(
    database: Database, tombstones: SqlTombstones, values: dict[str, str]
) -> None:
    with_job(database, "main/a", updated_at=datetime.now() - 100 * DAY, **values)

    tombstones.mark("main", ["main/a"])

    assert tombstones.marked_jobs("main") == frozenset()
    assert tombstones.due_jobs("main", 0.0) == frozenset()
    assert tombstones.unseen_jobs("main", [], MONTH) == frozenset()
    assert rows_of(database, TOMBSTONES) == []


def test_a_job_that_somebody_else_took_over_meanwhile_is_not_due(database: Database, tombstones: SqlTombstones) -> None:
    with_job(database, "main/a")
    tombstones.mark("main", ["main/a"])

    with database.transaction() as connection:
        connection.execute(update(JOBS).values(writer="another installation"))

    assert tombstones.due_jobs("main", 0.0) == frozenset()


def test_jobs_without_a_row_of_ours_are_not_marked(database: Database, tombstones: SqlTombstones) -> None:
    tombstones.mark("main", ["main/never saved"])

    assert rows_of(database, TOMBSTONES) == []


def grow_older(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(update(JOBS).values(updated_at=datetime.now() - 100 * DAY))


@every_database
def test_job_known_by_its_id_alone_is_unseen_in_the_cluster_that_listed_it(
    database: Database, tombstones: SqlTombstones
) -> None:
    job_id = "ab" * 16
    with_job(database, job_id)

    tombstones.unseen_jobs("main", [job_id], MONTH)
    grow_older(database)

    assert tombstones.unseen_jobs("other", [], MONTH) == frozenset()
    assert tombstones.unseen_jobs("main", [], MONTH) == {job_id}


def test_job_known_by_its_id_alone_that_nobody_listed_is_kept(database: Database, tombstones: SqlTombstones) -> None:
    with_job(database, "ab" * 16, updated_at=datetime.now() - 100 * DAY)

    assert tombstones.unseen_jobs("main", [], MONTH) == frozenset()


def test_job_known_by_its_id_alone_that_moved_is_seen_where_it_is(
    database: Database, tombstones: SqlTombstones
) -> None:
    job_id = "ab" * 16
    with_job(database, job_id)
    tombstones.unseen_jobs("main", [job_id], MONTH)
    grow_older(database)

    tombstones.unseen_jobs("other", [job_id], MONTH)

    assert tombstones.unseen_jobs("main", [], MONTH) == frozenset()


def test_saving_a_job_known_by_its_id_alone_keeps_the_cluster_that_listed_it(
    database: Database, tombstones: SqlTombstones
) -> None:
    job_id = "ab" * 16
    store = SqlStateStore(database, writer=OURS)
    store.save(job_id, JobState(job_id))
    tombstones.unseen_jobs("main", [job_id], MONTH)

    store.save(job_id, JobState("cd" * 16))
    grow_older(database)

    assert tombstones.unseen_jobs("main", [], MONTH) == {job_id}


@every_database
def test_unseen_jobs_are_those_that_were_not_saved_for_long(database: Database, tombstones: SqlTombstones) -> None:
    with_job(database, "main/long gone", updated_at=datetime.now() - 31 * DAY)
    with_job(database, "main/lately gone", updated_at=datetime.now() - 29 * DAY)
    with_job(database, "main/idle", updated_at=datetime.now() - 31 * DAY)

    assert tombstones.unseen_jobs("main", ["main/idle"], MONTH) == {"main/long gone"}


def test_a_present_job_counts_as_seen_even_if_it_is_never_saved(database: Database, tombstones: SqlTombstones) -> None:
    with_job(database, "main/idle", updated_at=datetime.now() - 31 * DAY)
    tombstones.unseen_jobs("main", ["main/idle"], MONTH)

    assert tombstones.unseen_jobs("main", [], MONTH) == frozenset()


@every_database
def test_more_jobs_than_fit_into_a_statement_are_marked_and_cleared(
    database: Database, tombstones: SqlTombstones
) -> None:
    keys = [f"main/job-{number:04}" for number in range(2 * BATCH + 1)]
    with database.transaction() as connection:
        row = {"cluster": "main", "writer": OURS, "updated_at": datetime.now()}
        connection.execute(insert(JOBS), [{"job_key": key, **row} for key in keys])

    tombstones.mark("main", keys)
    marked = tombstones.marked_jobs("main")
    tombstones.clear("main", keys[1:])

    assert marked == set(keys)
    assert tombstones.marked_jobs("main") == {keys[0]}


def test_without_the_lease_nothing_is_marked(database: Database) -> None:
    lease = Lease(database, name="group", owner="late", ttl=60.0)
    fenced = SqlTombstones(database, fence=LeaseFence(lease, lambda: lease.token), writer=OURS)
    with_job(database, "main/a")

    with pytest.raises(LeaseLostError):
        fenced.mark("main", ["main/a"])

    assert rows_of(database, TOMBSTONES) == []
