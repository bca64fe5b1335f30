"""What is told about a database that is fit for use, and about those that are not."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.database.diagnosis import DatabaseFinding, FindingLevel, diagnose
from flink_autoscaler.stores.sql.database.jdbc_url import sqlalchemy_url
from flink_autoscaler.stores.sql.migrations import VERSION_TABLE
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.sql.tables import METADATA, SET_ASIDE
from testkit.builders.sql import NOON, an_event, make_reference_schema, write_events, write_state
from testkit.servers.databases import DatabaseServer, every_database, rows_of

CHECKS = ["connection", "schema", "clock", "time zone", "writing", "job keys", "contents", "quarantined values"]


@pytest.fixture
def current(database_settings: DatabaseSettings) -> Iterator[Database]:
    with closing(Database(database_settings)) as database:
        upgrade_schema(database)
        yield database


def found(database: Database) -> dict[str, DatabaseFinding]:
    return {finding.check: finding for finding in diagnose(database)}


@every_database
def test_database_that_is_fit_for_use_has_no_errors(current: Database) -> None:
    findings = found(current)

    assert list(findings) == CHECKS
    assert {finding.level for finding in findings.values()} <= {FindingLevel.OK, FindingLevel.WARNING}
    assert findings["connection"].level is FindingLevel.OK
    assert abs(findings["clock"].facts["database_ahead_seconds"]) < 60


@every_database
def test_nothing_is_left_behind(current: Database) -> None:
    found(current)

    assert {table.name: rows_of(current, table) for table in METADATA.sorted_tables} == {
        table.name: [] for table in METADATA.sorted_tables
    }


@every_database
def test_jobs_events_and_values_set_aside_are_counted(current: Database) -> None:
    write_state(current, "main/orders", scalingHistory="{}", scalingTracking="{}")
    write_state(current, "main/payments", scalingHistory="{}")
    write_events(current, an_event(), an_event())
    set_aside = {"job_key": "main/orders", "state_type": "x", "state_value": "?", "problem": "?", "set_aside_at": NOON}
    with current.transaction() as connection:
        connection.execute(SET_ASIDE.insert().values(set_aside))

    findings = found(current)

    assert findings["contents"].facts == {"jobs": 2, "events": 2}
    assert findings["quarantined values"].level is FindingLevel.WARNING
    assert findings["quarantined values"].facts == {"set_aside": 1}


@every_database
@pytest.mark.parametrize("ahead", [pytest.param({"hours": 8}, id="zone"), pytest.param({"days": 400}, id="far future")])
def test_rows_from_the_future_mean_another_time_zone(current: Database, ahead: dict[str, Any]) -> None:
    with current.transaction() as connection:
        future = current.now(connection) + timedelta(**ahead)
    write_events(current, an_event(update_time=future))

    finding = found(current)["time zone"]

    assert finding.level is FindingLevel.WARNING
    assert "another process writes in another one" in finding.text


def test_missing_schema_ends_the_checks_and_says_what_to_do(database_settings: DatabaseSettings) -> None:
    with closing(Database(database_settings)) as empty:
        findings = found(empty)

    assert list(findings) == ["connection", "schema"]
    assert findings["schema"].level is FindingLevel.ERROR
    assert "run flink-autoscaler db upgrade" in findings["schema"].text


def test_newer_schema_is_not_told_to_upgrade(current: Database) -> None:
    with current.transaction() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))

    finding = found(current)["schema"]

    assert finding.level is FindingLevel.ERROR
    assert "db upgrade" not in finding.text


def test_user_who_may_only_read_is_told(postgresql_server: DatabaseServer) -> None:
    settings = postgresql_server.new_database()
    with closing(Database(settings)) as owner, owner.transaction() as connection:
        connection.execute(text("CREATE ROLE reader LOGIN PASSWORD 'only-looks'"))
        connection.execute(text("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader"))
    with closing(Database(settings)) as owner:
        upgrade_schema(owner)

    with closing(Database(DatabaseSettings(settings.url, "reader", "only-looks"))) as reader:
        findings = found(reader)

    assert findings["writing"].level is FindingLevel.ERROR
    assert "grant" in findings["writing"].text
    assert list(findings) == CHECKS


def test_file_that_cannot_be_reached_is_the_only_finding(tmp_path: Path) -> None:
    with closing(Database(DatabaseSettings(f"jdbc:sqlite:{tmp_path}/nowhere/autoscaler.db"))) as database:
        findings = found(database)

    assert [(finding.check, finding.level) for finding in findings.values()] == [("connection", FindingLevel.ERROR)]


def test_wrong_password_is_told_without_showing_it(mariadb_server: DatabaseServer) -> None:
    settings = mariadb_server.new_database()
    wrong = DatabaseSettings(settings.url, settings.username, "hunter2")
    with closing(Database(wrong)) as database:
        [finding] = diagnose(database)

    assert finding.level is FindingLevel.ERROR
    assert "password" in finding.text
    assert "hunter2" not in finding.text


def test_job_keys_that_ignore_case_are_worth_a_warning(mariadb_server: DatabaseServer) -> None:
    with closing(Database(mariadb_server.new_database())) as database:
        make_reference_schema(database)
        upgrade_schema(database)

        finding = found(database)["job keys"]

    assert finding.level is FindingLevel.WARNING
    assert finding.facts == {"collation": "utf8mb4_general_ci"}


AUTHORITIES = ssl.get_default_verify_paths().cafile
CONNECTOR_J = "jdbc:mysql://h/d?useUnicode=true&characterEncoding=utf8&allowPublicKeyRetrieval=true&serverTimezone=UTC"


@pytest.mark.parametrize(
    ("jdbc", "expected"),
    [
        pytest.param("jdbc:postgresql://db:5433/state", "postgresql+psycopg://db:5433/state", id="postgresql"),
        pytest.param("jdbc:postgresql:state", "postgresql+psycopg://localhost/state", id="postgresql, database only"),
        pytest.param("jdbc:postgresql://db/", "postgresql+psycopg://db", id="postgresql, host only"),
        pytest.param("jdbc:postgresql://[::1]:5433/s", "postgresql+psycopg://[::1]:5433/s", id="IPv6"),
        pytest.param("jdbc:postgresql://h/a%20b", "postgresql+psycopg://h/a b", id="escaped database"),
        pytest.param(
            "jdbc:postgresql://h/d?user=u&password=p%40ss", "postgresql+psycopg://u:p%40ss@h/d", id="credentials"
        ),
        pytest.param(
            "jdbc:postgresql://h/d?sslmode=verify-full&sslrootcert=/ca.pem",
            "postgresql+psycopg://h/d?sslmode=verify-full&sslrootcert=%2Fca.pem",
            id="postgresql with TLS",
        ),
        pytest.param("jdbc:postgresql://h/d?ssl=true", "postgresql+psycopg://h/d?sslmode=verify-full", id="ssl=true"),
        pytest.param("jdbc:postgresql://h/d?ssl=false", "postgresql+psycopg://h/d", id="ssl=false"),
        pytest.param(
            "jdbc:postgresql://h/d?ssl=true&sslmode=require", "postgresql+psycopg://h/d?sslmode=require", id="both"
        ),
        pytest.param(
            "jdbc:postgresql://h/d?currentSchema=fl",
            "postgresql+psycopg://h/d?options=-csearch_path%3Dfl",
            id="schema",
        ),
        pytest.param(
            "jdbc:postgresql://a,b:5433/d?targetServerType=primary",
            "postgresql+psycopg:///d?host=a%3A5432&host=b%3A5433&target_session_attrs=read-write",
            id="two hosts",
        ),
        pytest.param("jdbc:mysql://db:3307/state", "mysql+pymysql://db:3307/state", id="mysql"),
        pytest.param("JDBC:MariaDB://db/state", "mysql+pymysql://db/state", id="mariadb, any case"),
        pytest.param(CONNECTOR_J, "mysql+pymysql://h/d", id="tuning of the Java driver"),
        pytest.param("jdbc:mysql://h/d?useSSL=false", "mysql+pymysql://h/d?ssl_disabled=true", id="useSSL=false"),
        pytest.param(
            "jdbc:mysql://h/d?useSSL=true",
            "mysql+pymysql://h/d?ssl_check_hostname=false&ssl_verify_cert=false",
            id="useSSL=true",
        ),
        pytest.param(
            "jdbc:mysql://h/d?sslMode=VERIFY_CA&sslCa=/ca.pem",
            "mysql+pymysql://h/d?ssl_ca=%2Fca.pem&ssl_check_hostname=false",
            id="authority",
        ),
        pytest.param(
            "jdbc:mariadb://h/d?sslMode=verify-full&serverSslCert=/ca.pem",
            "mysql+pymysql://h/d?ssl_ca=%2Fca.pem&ssl_check_hostname=true",
            id="identity",
        ),
        pytest.param("jdbc:sqlite:/var/lib/a.db", "sqlite:////var/lib/a.db", id="sqlite"),
        pytest.param("sqlite:////var/lib/a.db", "sqlite:////var/lib/a.db", id="SQLAlchemy's sqlite"),
        pytest.param("postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d", id="SQLAlchemy's postgresql"),
        pytest.param("mariadb+pymysql://h/d", "mysql+pymysql://h/d", id="SQLAlchemy's mariadb"),
    ],
)
def test_urls_are_translated(jdbc: str, expected: str) -> None:
    assert sqlalchemy_url(jdbc).render_as_string(hide_password=False) == expected


def test_an_identity_without_a_file_is_checked_against_the_system() -> None:
    assert sqlalchemy_url("jdbc:mysql://h/d?sslMode=VERIFY_IDENTITY").query["ssl_ca"] == AUTHORITIES


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param("jdbc:derby:/tmp/db;create=true", "Derby, which Python cannot use", id="derby"),
        pytest.param("jdbc:oracle:thin:@h", "supported: sqlite, postgresql", id="another database"),
        pytest.param("oracle://h/d", "supported: sqlite, postgresql", id="another database of SQLAlchemy"),
        pytest.param("h:5432/d", "cannot be read", id="no URL"),
        pytest.param("jdbc:postgresql://h:port/d", "port 'port'", id="port"),
        pytest.param("jdbc:postgresql://u:secret@h/d", "credentials before the host", id="credentials in front"),
        pytest.param("jdbc:mysql://a,b/d", "takes one", id="two hosts of mysql"),
        pytest.param("jdbc:mysql://h/d?sslMode=maybe", "sslMode=maybe; allowed", id="unknown mode"),
        pytest.param("jdbc:mysql://h/d?trustCertificateKeyStoreUrl=file:/a.jks", "no equivalent", id="key store"),
        pytest.param("jdbc:postgresql://h/d?sslfactory=org.X", "no equivalent", id="factory"),
        pytest.param("jdbc:sqlite::memory:", "state-store.type: MEMORY", id="in memory"),
        pytest.param("sqlite://", "state-store.type: MEMORY", id="SQLAlchemy's in memory"),
    ],
)
def test_what_cannot_be_used_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        sqlalchemy_url(url)

    assert "secret" not in str(raised.value)


def test_credentials_are_not_shown() -> None:
    settings = DatabaseSettings("jdbc:postgresql://h/d?password=secret1", "user", "secret2")

    database = Database(settings)

    assert database.name == "PostgreSQL 'd' at h"
    assert "secret" not in repr(settings) + repr(database.engine)
