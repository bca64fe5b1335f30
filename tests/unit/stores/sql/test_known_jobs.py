"""State under plain job ids gets the keys of this daemon."""

from __future__ import annotations

import dataclasses

import pytest

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.known_jobs import StateImport, StateImportResult, import_job_state, leading_daemon
from flink_autoscaler.stores.sql.lease import Lease
from flink_autoscaler.stores.sql.tables import JOBS, STATE
from testkit.builders.sql import NOON, state_rows, write_state
from testkit.servers.databases import every_database, rows_of

JOB_ID = "3de64ea3d0a34a5f9c3f4f1f5c0f7a11"
OTHER_ID = "53f2be87d0a34a5f9c3f4f1f5c0f7a12"
ORDERS = StateImport(JOB_ID, "main/orders", "main", "flink-autoscaler")


def write_job(database: Database, job_key: str) -> None:
    row = {"job_key": job_key, "cluster": "", "job_id": JOB_ID, "own_state": "{}", "writer": "me", "updated_at": NOON}
    with database.transaction() as connection:
        connection.execute(JOBS.insert().values(row))


@every_database
def test_state_is_renamed_with_values_and_times_kept(database: Database) -> None:
    write_state(database, JOB_ID, scalingHistory="{}", parallelismOverrides="v:4")
    write_state(database, OTHER_ID, scalingHistory="{}")

    result = import_job_state(database, ORDERS)

    assert result is StateImportResult.ADOPTED
    assert state_rows(database) == {
        ("main/orders", "scalingHistory"): "{}",
        ("main/orders", "parallelismOverrides"): "v:4",
        (OTHER_ID, "scalingHistory"): "{}",
    }
    assert {row["update_time"] for row in rows_of(database, STATE)} == {NOON}


def test_job_id_is_noted_so_that_metric_samples_stay_valid(database: Database) -> None:
    write_state(database, JOB_ID, collectedMetrics="{}")

    import_job_state(database, ORDERS)

    [job] = rows_of(database, JOBS)
    assert (job["job_key"], job["cluster"], job["job_id"], job["writer"]) == (
        "main/orders",
        "main",
        JOB_ID,
        "flink-autoscaler",
    )


@every_database
def test_own_state_of_a_daemon_that_used_job_ids_goes_along(database: Database) -> None:
    write_state(database, JOB_ID, collectedMetrics="{}")
    write_job(database, JOB_ID)

    import_job_state(database, ORDERS)

    [job] = rows_of(database, JOBS)
    assert (job["job_key"], job["own_state"], job["writer"]) == ("main/orders", "{}", "flink-autoscaler")


def test_import_can_be_repeated(database: Database) -> None:
    write_state(database, JOB_ID, scalingHistory="{}")
    import_job_state(database, ORDERS)

    assert import_job_state(database, ORDERS) is StateImportResult.NOTHING
    assert list(state_rows(database)) == [("main/orders", "scalingHistory")]


def test_job_without_state_is_left_alone(database: Database) -> None:
    assert import_job_state(database, ORDERS) is StateImportResult.NOTHING
    assert rows_of(database, JOBS) == []


@pytest.mark.parametrize("state_type", ["scalingHistory", "parallelismOverrides"])
def test_existing_state_is_not_overwritten(database: Database, state_type: str) -> None:
    write_state(database, JOB_ID, scalingHistory="old")
    write_state(database, "main/orders", **{state_type: "new"})
    before = state_rows(database)

    assert import_job_state(database, ORDERS) is StateImportResult.REFUSED
    assert state_rows(database) == before


def test_own_state_under_the_new_key_is_not_overwritten(database: Database) -> None:
    write_state(database, JOB_ID, scalingHistory="old")
    write_job(database, "main/orders")

    assert import_job_state(database, ORDERS) is StateImportResult.REFUSED


def test_dry_run_tells_and_changes_nothing(database: Database) -> None:
    write_state(database, JOB_ID, scalingHistory="{}")

    assert import_job_state(database, ORDERS, is_dry_run=True) is StateImportResult.ADOPTED
    assert list(state_rows(database)) == [(JOB_ID, "scalingHistory")]
    assert rows_of(database, JOBS) == []


@every_database
def test_names_with_a_meaning_to_databases_are_names(database: Database) -> None:
    write_state(database, JOB_ID, scalingHistory="{}")
    key = "main/'; DROP TABLE fa_job; -- \U0001f680"

    import_job_state(database, dataclasses.replace(ORDERS, job_key=key))

    assert list(state_rows(database)) == [(key, "scalingHistory")]


def test_daemon_with_the_lease_is_seen_until_it_releases_it(database: Database) -> None:
    lease = Lease(database, name="ours", owner="host-1", ttl=30.0)
    lease.acquire()
    leading = (leading_daemon(database, "ours"), leading_daemon(database, "others"))

    lease.release()

    assert leading == ("host-1", None)
    assert leading_daemon(database, "ours") is None
