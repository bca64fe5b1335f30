"""The commands about the database as users run them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Table, text

from flink_autoscaler.core.model.state import JobState, ScalingRecord
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.lease import Lease
from flink_autoscaler.stores.sql.migrations import VERSION_TABLE
from flink_autoscaler.stores.sql.schema import HEAD, schema_status, upgrade_schema
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import EVENTS, JOBS, SET_ASIDE, STATE
from testkit.builders.sql import NOON, an_event, make_reference_schema, state_rows, write_events, write_state
from testkit.builders.sql.command_line import call, environment
from testkit.fakes.flink import FakeFlink, Fault
from testkit.servers.databases import DatabaseServer, every_database, rows_of


@pytest.fixture
def file(tmp_path: Path) -> DatabaseSettings:
    return DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")


@pytest.fixture
def current(file: DatabaseSettings) -> Iterator[Database]:
    with closing(Database(file)) as database:
        upgrade_schema(database)
        yield database


def set_revision(database: Database, revision: str) -> None:
    with database.transaction() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))


@every_database
def test_upgrade_makes_the_schema_of_every_database(database_settings: DatabaseSettings) -> None:
    result = call(database_settings, "db", "upgrade")

    assert (result.returncode, result.stderr) == (0, "")
    assert f"upgraded from nothing to revision {HEAD}" in result.stdout
    assert "created fa_job" in result.stdout
    with closing(Database(database_settings)) as database:
        assert schema_status(database).is_current


def test_upgrade_takes_over_the_schema_of_the_java_process(postgresql_server: DatabaseServer) -> None:
    settings = postgresql_server.new_database()
    with closing(Database(settings)) as database:
        make_reference_schema(database)

    result = call(settings, "db", "upgrade")

    assert result.returncode == 0
    assert "created fa_job" in result.stdout
    assert "t_flink_autoscaler" not in result.stdout


def test_second_upgrade_says_that_there_is_nothing_to_do(file: DatabaseSettings, current: Database) -> None:
    result = call(file, "db", "upgrade")

    assert result.returncode == 0
    assert "the schema is current" in result.stdout


def test_status_before_and_after_an_upgrade(file: DatabaseSettings) -> None:
    before = call(file, "db", "status")
    call(file, "db", "upgrade")
    after = call(file, "db", "status", "--json")

    assert before.returncode == 1
    assert "revision  none\n" in before.stdout
    assert "run flink-autoscaler db upgrade" in before.stdout
    assert after.returncode == 0
    assert json.loads(after.stdout)["current"] == HEAD


@pytest.mark.parametrize("command", ["upgrade", "import"])
def test_newer_schema_is_an_error_in_the_configuration(file: DatabaseSettings, current: Database, command: str) -> None:
    set_revision(current, "9999")

    result = call(file, "db", command, *(["--from-job-keys"] if command == "import" else []))

    assert result.returncode == 2
    assert result.stderr.startswith("error: the schema has revision 9999")
    assert result.stderr.count("\n") == 1


def test_older_version_is_let_in_and_that_is_said(file: DatabaseSettings, current: Database) -> None:
    first = call(file, "db", "downgrade", "0007")
    second = call(file, "db", "downgrade", "0007")

    assert (first.returncode, second.returncode) == (0, 0)
    assert f"went back from {HEAD} to revision 0007" in first.stdout
    assert "has revision 0007 already" in second.stdout
    assert schema_status(current).current == "0007"


def test_way_back_that_is_none_is_an_error_that_names_those_there_are(
    file: DatabaseSettings, current: Database
) -> None:
    result = call(file, "db", "downgrade", "0001")

    assert result.returncode == 2
    assert result.stderr == f"error: there is no way back to revision '0001', only to 0007, {HEAD}\n"


def test_status_of_a_newer_schema(file: DatabaseSettings, current: Database) -> None:
    set_revision(current, "9999")

    result = call(file, "db", "status", "--json")

    assert result.returncode == 1
    assert json.loads(result.stdout)["is_newer"] is True


@pytest.mark.parametrize("command", ["upgrade", "check", "status", "quarantine"])
def test_empty_revision_is_said_with_what_to_do(file: DatabaseSettings, current: Database, command: str) -> None:
    set_revision(current, "")

    result = call(file, "db", command)

    assert result.returncode == (1 if command in ("check", "status") else 2)
    assert "fa_schema_version holds ''" in " ".join((result.stdout + result.stderr).split())


@pytest.mark.parametrize(
    ("table", "column"),
    [(STATE, "update_time"), (EVENTS, "update_time"), (EVENTS, "create_time"), (SET_ASIDE, "set_aside_at")],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_check_of_rows_with_junk_is_a_finding_and_exit_code_1(
    file: DatabaseSettings, current: Database, table: Table, column: str
) -> None:
    write_state(current, "main/orders", scalingHistory="{}")
    write_events(current, an_event())
    with current.transaction() as connection:
        aside = {"job_key": "a", "state_type": "b", "state_value": "c", "problem": "d", "set_aside_at": NOON}
        connection.execute(SET_ASIDE.insert().values(aside))
        connection.execute(text(f"UPDATE {table.name} SET {column} = 'junk'"))

    result = call(file, "db", "check", "--json")

    findings = json.loads(result.stdout)["checks"]
    errors = [finding["text"] for finding in findings if finding["level"] == "error"]
    assert (result.returncode, result.stderr) == (1, "")
    assert len(findings) > 5
    assert len(errors) == 1
    assert "a value is not what belongs into its column" in errors[0]
    assert "junk" in errors[0]


@every_database
def test_check_shows_every_finding(database_settings: DatabaseSettings) -> None:
    call(database_settings, "db", "upgrade")

    result = call(database_settings, "db", "check")

    assert result.returncode == 0, result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["CHECK", "RESULT", "FOUND"]
    assert {row[0] for row in rows[1:]} >= {"connection", "schema", "clock", "writing", "contents"}


def test_check_for_programs(file: DatabaseSettings, current: Database) -> None:
    result = call(file, "db", "check", "--json")

    checks = {check["check"]: check for check in json.loads(result.stdout)["checks"]}
    assert result.returncode == 0
    assert checks["contents"]["facts"] == {"jobs": 0, "events": 0}


def test_check_fails_where_the_schema_is_missing(file: DatabaseSettings) -> None:
    assert call(file, "db", "check").returncode == 1


@pytest.mark.parametrize(
    ("url", "code", "expected"),
    [
        pytest.param("jdbc:derby:x", 2, "Derby", id="unsupported database"),
        pytest.param("jdbc:sqlite:/nonexistent/x.db", 2, "cannot be opened", id="no such folder"),
        pytest.param("jdbc:postgresql://127.0.0.1:1/x", 1, "cannot be reached", id="nobody listens"),
    ],
)
@pytest.mark.parametrize("command", [("db", "upgrade"), ("db", "status"), ("events",)], ids="-".join)
def test_database_that_cannot_be_used_is_one_line(command: tuple[str, ...], url: str, code: int, expected: str) -> None:
    credentials = () if "sqlite" in url else ("me", "hunter2")

    result = call(DatabaseSettings(url, *credentials), *command)

    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr
    assert "hunter2" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("db", "bogus"), "bogus", id="unknown command"),
        pytest.param(("db", "import"), "--from-job-keys", id="nothing to import"),
        pytest.param(("db", "status", "--set", "autoscaler.standalone.jdbc.ulr=x"), "jdbc.url", id="mistyped key"),
        pytest.param(("db", "import", "--from-job-keys", "--cluster", "mian"), "default", id="unknown cluster"),
        pytest.param(
            ("db", "import", "--from-job-keys", "--set", "autoscaler.job-key=job-id"), "as it is", id="job ids are keys"
        ),
        pytest.param(("events", "--since", "yesterday"), "24h", id="not a time"),
        pytest.param(("events", "--type", "Error"), "Normal or Warning", id="not a type"),
        pytest.param(("events", "--limit", "0"), "--limit", id="no events wanted"),
    ],
)
def test_mistake_is_one_line_and_exit_code_2(
    file: DatabaseSettings, current: Database, arguments: tuple[str, ...], expected: str
) -> None:
    result = call(file, *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr


@pytest.mark.parametrize("arguments", [("db", "status"), ("events",)], ids="-".join)
def test_missing_library_is_named_with_how_to_install_it(file: DatabaseSettings, arguments: tuple[str, ...]) -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None; from flink_autoscaler.standalone.__main__ import main; main()"
    )

    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(file),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert result.returncode == 2
    assert result.stderr.startswith("error: sqlalchemy is not installed")


def import_from(flink: FakeFlink, settings: DatabaseSettings, *arguments: str) -> tuple[int, str, str]:
    port = flink.url.rsplit(":", 1)[1]
    prefix = "autoscaler.standalone.fetcher.flink-cluster"
    place = ("--set", f"{prefix}.host=127.0.0.1", "--set", f"{prefix}.port={port}")
    result = call(settings, "db", "import", "--from-job-keys", *place, *arguments)
    return result.returncode, result.stdout, result.stderr


def test_import_adopts_state_of_listed_jobs_only(flink: FakeFlink, file: DatabaseSettings, current: Database) -> None:
    orders = flink.add_job("orders")
    flink.add_job("payments")
    write_state(current, orders.job_id, scalingHistory="{}")
    write_state(current, "f" * 32, scalingHistory="{}")

    code, output, _ = import_from(flink, file)

    assert code == 0
    assert output.splitlines()[-1] == "1 adopted, 0 refused, 1 without state under their job id"
    assert set(state_rows(current)) == {("default/orders", "scalingHistory"), ("f" * 32, "scalingHistory")}
    [job] = rows_of(current, JOBS)
    assert (job["job_key"], job["job_id"], job["cluster"]) == ("default/orders", orders.job_id, "default")


@every_database
def test_import_works_in_every_database(flink: FakeFlink, database_settings: DatabaseSettings) -> None:
    flink.taskmanagers = [{"id": "a", "slotsNumber": 16, "freeSlots": 8}]
    orders = flink.add_job("orders \U0001f680")
    with closing(Database(database_settings)) as database:
        upgrade_schema(database)
        write_state(database, orders.job_id, scalingHistory="{}")

        code, _, errors = import_from(flink, database_settings)

        assert (code, errors) == (0, "")
        assert set(state_rows(database)) == {("default/orders \U0001f680", "scalingHistory")}


def test_import_refuses_to_overwrite(flink: FakeFlink, file: DatabaseSettings, current: Database) -> None:
    orders = flink.add_job("orders")
    write_state(current, orders.job_id, scalingHistory="old")
    write_state(current, "default/orders", scalingTracking="new")
    before = state_rows(current)

    code, output, _ = import_from(flink, file)

    assert code == 1
    assert "there is state under the new key already" in output
    assert state_rows(current) == before


def test_dry_run_of_an_import_changes_nothing(flink: FakeFlink, file: DatabaseSettings, current: Database) -> None:
    orders = flink.add_job("orders")
    write_state(current, orders.job_id, scalingHistory="{}")

    code, output, _ = import_from(flink, file, "--dry-run")

    assert code == 0
    assert "adopted" in output
    assert output.splitlines()[-1].startswith("dry run, nothing changed: 1 adopted")
    assert set(state_rows(current)) == {(orders.job_id, "scalingHistory")}


def test_import_is_refused_while_a_daemon_works(flink: FakeFlink, file: DatabaseSettings, current: Database) -> None:
    orders = flink.add_job("orders")
    write_state(current, orders.job_id, scalingHistory="{}")
    Lease(current, name="flink-autoscaler", owner="host-1", ttl=60.0).acquire()

    code, _, errors = import_from(flink, file)

    assert code == 1
    assert "host-1" in errors
    assert set(state_rows(current)) == {(orders.job_id, "scalingHistory")}


def test_import_says_which_cluster_does_not_answer(flink: FakeFlink, file: DatabaseSettings, current: Database) -> None:
    flink.fault("/jobs/overview", Fault.HTML)

    code, _, errors = import_from(flink, file)

    assert code == 1
    assert errors.startswith("error: cluster default: ")


def test_job_id_of_two_clusters_needs_a_choice(
    flink: FakeFlink, file: DatabaseSettings, current: Database, tmp_path: Path
) -> None:
    orders = flink.add_job("orders")
    write_state(current, orders.job_id, scalingHistory="{}")
    configuration = tmp_path / "autoscaler.yaml"
    clusters = [{"name": "main", "url": flink.url}, {"name": "other", "url": flink.url}]
    configuration.write_text(json.dumps({"autoscaler": {"clusters": clusters}}))

    both = call(file, "db", "import", "--from-job-keys", "--config", str(configuration))
    one = call(file, "db", "import", "--from-job-keys", "--config", str(configuration), "--cluster", "other")

    assert both.returncode == 1
    assert "say with --cluster whose state it is" in both.stderr
    assert one.returncode == 0
    assert set(state_rows(current)) == {("other/orders", "scalingHistory")}


@pytest.mark.parametrize("arguments", [("explain", "orders"), ("run",)], ids="-".join)
def test_file_that_cannot_be_opened_is_a_mistake_in_the_configuration(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    nowhere = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'missing' / 'autoscaler.db'}")
    stored = ("state-store.type=JDBC", "event-handler.type=JDBC")
    options = [part for each in stored for part in ("--set", f"autoscaler.standalone.{each}")]

    result = call(nowhere, *arguments, *options, "--set", "autoscaler.engine.kind=inline")

    assert result.returncode == 2
    assert "its file cannot be opened: check the folder and its permissions" in result.stderr


def damaged(database: Database) -> None:
    """Let a store meet a value that it cannot read, and replace it."""
    write_state(database, "main/orders", scalingTracking="{", parallelismOverrides='{"a":"2"}')
    store = SqlStateStore(database, writer="flink-autoscaler")
    store.save("main/orders", JobState(overrides=store.load("main/orders").overrides, tracking=(ScalingRecord(1000),)))


def test_values_set_aside_are_listed_with_what_is_wrong(file: DatabaseSettings, current: Database) -> None:
    nothing = call(file, "db", "quarantine")
    damaged(current)

    result = call(file, "db", "quarantine", "--job", "main/orders")
    (found,) = json.loads(call(file, "db", "quarantine", "--json").stdout)["quarantine"]

    assert (nothing.returncode, nothing.stderr) == (0, "nothing is quarantined\n")
    assert result.stdout.splitlines()[1].split()[:3] == [str(found["id"]), "main/orders", "scalingTracking"]
    assert found["problem"].startswith("not JSON: ")
    assert found["size"] == 1


def test_a_removed_command_says_what_to_use_instead(file: DatabaseSettings) -> None:
    result = call(file, "db", "restore", "1")

    assert result.returncode == 2
    assert "'db restore' was removed; use db quarantine" in result.stderr
