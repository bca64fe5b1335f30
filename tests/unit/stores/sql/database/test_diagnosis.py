"""What is told about a database that is fit for use, and about those that are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.database.diagnosis import Finding, Level, diagnose
from flink_autoscaler.stores.sql.migrations import VERSION_TABLE
from flink_autoscaler.stores.sql.schema import upgrade
from flink_autoscaler.stores.sql.tables import METADATA, SET_ASIDE
from testkit.builders.sql import NOON, an_event, make_reference_schema, write_events, write_state
from testkit.servers.databases import DatabaseServer, rows_of

CHECKS = ["connection", "schema", "clock", "time zone", "writing", "job keys", "contents", "set aside"]


@pytest.fixture
def current(database_settings: DatabaseSettings) -> Iterator[Database]:
    with closing(Database(database_settings)) as database:
        upgrade(database)
        yield database


def found(database: Database) -> dict[str, Finding]:
    return {finding.check: finding for finding in diagnose(database)}


def test_database_that_is_fit_for_use_has_no_errors(current: Database) -> None:
    findings = found(current)

    assert list(findings) == CHECKS
    assert {finding.level for finding in findings.values()} <= {Level.OK, Level.WARNING}
    assert findings["connection"].level is Level.OK
    assert abs(findings["clock"].facts["database_ahead_seconds"]) < 60


def test_nothing_is_left_behind(current: Database) -> None:
    found(current)

    assert {table.name: rows_of(current, table) for table in METADATA.sorted_tables} == {
        table.name: [] for table in METADATA.sorted_tables
    }


def test_jobs_events_and_values_set_aside_are_counted(current: Database) -> None:
    write_state(current, "main/orders", scalingHistory="{}", scalingTracking="{}")
    write_state(current, "main/payments", scalingHistory="{}")
    write_events(current, an_event(), an_event())
    set_aside = {"job_key": "main/orders", "state_type": "x", "state_value": "?", "problem": "?", "set_aside_at": NOON}
    with current.transaction() as connection:
        connection.execute(SET_ASIDE.insert().values(set_aside))

    findings = found(current)

    assert findings["contents"].facts == {"jobs": 2, "events": 2}
    assert findings["set aside"].level is Level.WARNING
    assert findings["set aside"].facts == {"set_aside": 1}


@pytest.mark.parametrize("ahead", [pytest.param({"hours": 8}, id="zone"), pytest.param({"days": 400}, id="far future")])
def test_rows_from_the_future_mean_another_time_zone(current: Database, ahead: dict[str, Any]) -> None:
    with current.transaction() as connection:
        future = current.now(connection) + timedelta(**ahead)
    write_events(current, an_event(update_time=future))

    finding = found(current)["time zone"]

    assert finding.level is Level.WARNING
    assert "another process writes in another one" in finding.text


def test_missing_schema_ends_the_checks_and_says_what_to_do(database_settings: DatabaseSettings) -> None:
    with closing(Database(database_settings)) as empty:
        findings = found(empty)

    assert list(findings) == ["connection", "schema"]
    assert findings["schema"].level is Level.ERROR
    assert "run flink-autoscaler db upgrade" in findings["schema"].text


def test_newer_schema_is_not_told_to_upgrade(current: Database) -> None:
    with current.transaction() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))

    finding = found(current)["schema"]

    assert finding.level is Level.ERROR
    assert "db upgrade" not in finding.text


def test_user_who_may_only_read_is_told(postgresql_server: DatabaseServer) -> None:
    settings = postgresql_server.new_database()
    with closing(Database(settings)) as owner, owner.transaction() as connection:
        connection.execute(text("CREATE ROLE reader LOGIN PASSWORD 'only-looks'"))
        connection.execute(text("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader"))
    with closing(Database(settings)) as owner:
        upgrade(owner)

    with closing(Database(DatabaseSettings(settings.url, "reader", "only-looks"))) as reader:
        findings = found(reader)

    assert findings["writing"].level is Level.ERROR
    assert "grant" in findings["writing"].text
    assert list(findings) == CHECKS


def test_file_that_cannot_be_reached_is_the_only_finding(tmp_path: Path) -> None:
    with closing(Database(DatabaseSettings(f"jdbc:sqlite:{tmp_path}/nowhere/autoscaler.db"))) as database:
        findings = found(database)

    assert [(finding.check, finding.level) for finding in findings.values()] == [("connection", Level.ERROR)]


def test_wrong_password_is_told_without_showing_it(mariadb_server: DatabaseServer) -> None:
    settings = mariadb_server.new_database()
    wrong = DatabaseSettings(settings.url, settings.username, "hunter2")
    with closing(Database(wrong)) as database:
        [finding] = diagnose(database)

    assert finding.level is Level.ERROR
    assert "password" in finding.text
    assert "hunter2" not in finding.text


def test_job_keys_that_ignore_case_are_worth_a_warning(mariadb_server: DatabaseServer) -> None:
    with closing(Database(mariadb_server.new_database())) as database:
        make_reference_schema(database)
        upgrade(database)

        finding = found(database)["job keys"]

    assert finding.level is Level.WARNING
    assert finding.facts == {"collation": "utf8mb4_general_ci"}
