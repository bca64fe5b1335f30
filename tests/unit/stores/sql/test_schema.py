"""Schemas that are made, taken over, upgraded by several at once, or refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.migrations import OLDEST_WAY_BACK, REVISIONS, VERSION_TABLE
from flink_autoscaler.stores.sql.schema import HEAD, downgrade_schema, require_current, schema_status, upgrade_schema
from flink_autoscaler.stores.sql.tables import EVENTS, JOBS, METADATA, STATE
from testkit.builders.sql import an_event, make_reference_schema, state_rows, write_events, write_state
from testkit.servers.databases import DatabaseServer, every_database

EVERYTHING = tuple(sorted(table.name for table in METADATA.sorted_tables))
REFERENCE_TABLES = (STATE.name, EVENTS.name)
UPGRADE = """
import sys
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.schema import upgrade_schema
settings = DatabaseSettings(*sys.stdin.readline().split())
print("ready", flush=True)
sys.stdin.readline()
upgrade_schema(Database(settings))
"""


@pytest.fixture
def empty(database_settings: DatabaseSettings) -> Iterator[Database]:
    with closing(Database(database_settings)) as database:
        yield database


@pytest.fixture(params=["postgresql", "mariadb"])
def served(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of each kind that the Java process uses, too."""
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    with closing(Database(server.new_database())) as database:
        yield database


def run(database: Database, *statements: str) -> None:
    with database.transaction() as connection:
        for statement in statements:
            connection.execute(text(statement))


def columns_of(database: Database, table: str) -> list[str]:
    with database.transaction(read_only=True) as connection:
        return [str(sorted(column.items(), key=str)) for column in inspect(connection).get_columns(table)]


def everything_about_tables(database: Database) -> list[str]:
    with database.transaction(read_only=True) as connection:
        inspector = inspect(connection)
        facts: list[Mapping[Any, Any]] = [
            inspector.get_multi_columns(),
            inspector.get_multi_indexes(),
            inspector.get_multi_pk_constraint(),
            inspector.get_multi_unique_constraints(),
        ]
        if connection.dialect.name in ("mysql", "mariadb"):  # SQLAlchemy 2.0 does not know those of others
            facts.append(inspector.get_multi_table_options())
    return [f"{name}: {fact}" for each in facts for name, fact in sorted(each.items(), key=str)]


def indexes_of(database: Database, table: str) -> set[tuple[str | None, ...]]:
    with database.transaction(read_only=True) as connection:
        return {tuple(index["column_names"]) for index in inspect(connection).get_indexes(table)}


def test_revisions_are_those_that_alembic_finds() -> None:
    config = Config()
    config.set_main_option("script_location", "flink_autoscaler.stores.sql:migrations")

    found = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]

    assert tuple(reversed(found)) == REVISIONS


def test_empty_database_lacks_everything(empty: Database) -> None:
    found = schema_status(empty)

    assert (found.current, found.head, found.missing) == (None, HEAD, EVERYTHING)
    assert not found.is_current
    assert not found.is_newer


@every_database
def test_upgrade_makes_the_tables_as_they_are_declared(empty: Database) -> None:
    upgrade_schema(empty)
    upgraded = everything_about_tables(empty)
    with empty.transaction() as connection:
        METADATA.drop_all(connection)
        METADATA.create_all(connection)

    assert everything_about_tables(empty) == upgraded


@every_database
def test_reference_schema_is_upgraded_in_place(served: Database) -> None:
    make_reference_schema(served)
    write_state(served, "a" * 32, scalingTracking='{"scalingRecords":{}}', parallelismOverrides="v:4")
    write_events(served, an_event(message="of the Java process"))
    before = [columns_of(served, name) for name in REFERENCE_TABLES]
    rows = state_rows(served)

    change = upgrade_schema(served)

    assert change.before.current is None
    assert set(change.before.missing) == set(EVERYTHING) - set(REFERENCE_TABLES)
    assert schema_status(served).is_current
    assert [columns_of(served, name) for name in REFERENCE_TABLES] == before
    assert state_rows(served) == rows
    with served.transaction(read_only=True) as connection:
        assert connection.scalar(text(f"SELECT message FROM {EVENTS.name}")) == "of the Java process"
        assert len(inspect(connection).get_indexes(EVENTS.name)) == 2


@every_database
def test_upgrade_adds_an_index_that_somebody_left_out(served: Database) -> None:
    make_reference_schema(served)
    on_table = f" ON {EVENTS.name}" if served.dialect == "mysql" else ""
    run(served, f"DROP INDEX job_key_reason_create_time_idx{on_table}")

    upgrade_schema(served)

    assert ("job_key", "reason", "create_time") in indexes_of(served, EVENTS.name)


@every_database
def test_table_that_is_something_else_is_left_alone(empty: Database) -> None:
    run(empty, f"CREATE TABLE {STATE.name} (job_key VARCHAR(10))")

    with pytest.raises(StoreError, match=rf"{STATE.name} exists without the columns .*state_value"):
        upgrade_schema(empty)

    assert len(columns_of(empty, STATE.name)) == 1


@every_database
def test_interrupted_upgrade_is_finished(empty: Database) -> None:
    upgrade_schema(empty)
    run(empty, "DROP TABLE fa_lease", f"UPDATE {VERSION_TABLE} SET version_num = '0001'")

    upgrade_schema(empty)

    assert schema_status(empty).is_current


@every_database
def test_dropped_table_is_made_again(empty: Database) -> None:
    upgrade_schema(empty)
    run(empty, f"DROP TABLE {JOBS.name}")

    change = upgrade_schema(empty)

    assert change.before.missing == (JOBS.name,)
    assert change.after.is_current


@every_database
def test_missing_column_is_named_and_not_repaired(empty: Database) -> None:
    upgrade_schema(empty)
    run(empty, f"ALTER TABLE {JOBS.name} DROP COLUMN cluster")

    with pytest.raises(StoreError, match=f"lacks {JOBS.name}.cluster, which an upgrade cannot repair"):
        upgrade_schema(empty)

    assert schema_status(empty).missing == (f"{JOBS.name}.cluster",)


def test_newer_schema_is_refused(empty: Database) -> None:
    upgrade_schema(empty)
    run(empty, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")

    with pytest.raises(ConfigError, match=r"revision 9999 .* newer flink-autoscaler"):
        require_current(empty, upgrades_at_start=True)
    with pytest.raises(ConfigError, match=r"revision 9999 .* newer flink-autoscaler"):
        upgrade_schema(empty)

    assert schema_status(empty).is_newer
    assert not schema_status(empty).is_current


@pytest.mark.parametrize("revision", ["", "  ", "\t?"], ids=["empty", "blank", "junk"])
def test_revision_that_is_none_is_refused_with_what_to_do(empty: Database, revision: str) -> None:
    upgrade_schema(empty)
    with empty.transaction() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :revision"), {"revision": revision})
    found = schema_status(empty)

    for act in (upgrade_schema, require_current):
        with pytest.raises(ConfigError, match=r"fa_schema_version holds .* restore a backup .* delete that row"):
            act(empty)

    assert (found.is_damaged, found.is_newer, found.is_current) == (True, False, False)
    assert schema_status(empty) == found


def test_row_of_the_revision_can_be_deleted_and_upgraded_again(empty: Database) -> None:
    upgrade_schema(empty)
    run(empty, f"DELETE FROM {VERSION_TABLE}")

    upgrade_schema(empty)

    assert schema_status(empty).is_current


def test_schema_in_two_revisions_is_refused(empty: Database) -> None:
    upgrade_schema(empty)
    run(empty, f"INSERT INTO {VERSION_TABLE} VALUES ('0001')")

    with pytest.raises(ConfigError, match=f"revision 0001, {HEAD}"):
        require_current(empty)


def test_daemon_asks_for_an_upgrade_unless_it_is_told_to_do_it(empty: Database) -> None:
    with pytest.raises(ConfigError, match="run flink-autoscaler db upgrade"):
        require_current(empty, upgrades_at_start=False)

    require_current(empty, upgrades_at_start=True)

    assert schema_status(empty).is_current


def test_daemon_upgrades_by_itself_in_a_file_only(empty: Database) -> None:
    if empty.dialect == "sqlite":
        require_current(empty)
        assert schema_status(empty).is_current
    else:
        with pytest.raises(ConfigError, match="run flink-autoscaler db upgrade"):
            require_current(empty)


@every_database
def test_processes_upgrade_at_the_same_time(database_settings: DatabaseSettings, empty: Database) -> None:
    known = (database_settings.url, database_settings.username, database_settings.password)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", UPGRADE],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(" ".join(filter(None, known)) + "\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()

    errors = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=300)[1] for process in processes]

    assert errors == ["", "", ""]
    assert schema_status(empty).is_current


@every_database
def test_upgrade_does_not_wait_for_ever(served: Database) -> None:
    lock = {
        "postgresql": f"SELECT pg_advisory_xact_lock({0x666C_696E_6B61_7331})",
        "mysql": "SELECT GET_LOCK(CONCAT('flink_autoscaler_schema_', MD5(DATABASE())), 0)",
    }
    with served.transaction() as connection:
        connection.execute(text(lock[served.dialect]))

        with pytest.raises(StoreError, match="another process has been upgrading"):
            upgrade_schema(served, lock_timeout=0.2)


@every_database
def test_older_version_is_let_in_again_and_nothing_is_lost(empty: Database) -> None:
    upgrade_schema(empty)
    write_state(empty, "main/orders", parallelismOverrides="v:4")
    rows, tables = state_rows(empty), everything_about_tables(empty)

    change = downgrade_schema(empty, OLDEST_WAY_BACK)

    assert (change.before.current, change.after.current) == (HEAD, OLDEST_WAY_BACK)
    assert schema_status(empty).current == OLDEST_WAY_BACK
    assert (state_rows(empty), everything_about_tables(empty)) == (rows, tables)
    assert downgrade_schema(empty, OLDEST_WAY_BACK).before.current == OLDEST_WAY_BACK
    assert upgrade_schema(empty).after.is_current


@pytest.mark.parametrize("revision", ["0006", "9999", "head", ""])
def test_there_is_no_way_back_to_what_was_never_released(empty: Database, revision: str) -> None:
    upgrade_schema(empty)

    with pytest.raises(ConfigError, match=rf"no way back to revision '{revision}', only to 0007, "):
        downgrade_schema(empty, revision)

    assert schema_status(empty).is_current


def test_schema_of_a_version_that_is_not_known_does_not_go_back(empty: Database) -> None:
    upgrade_schema(empty)
    run(empty, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")

    with pytest.raises(ConfigError, match=f"revision 9999 .* downgrade {HEAD}"):
        downgrade_schema(empty, OLDEST_WAY_BACK)


def test_schema_that_is_older_does_not_go_back(empty: Database) -> None:
    with pytest.raises(ConfigError, match="revision none, which is older than"):
        downgrade_schema(empty, HEAD)
