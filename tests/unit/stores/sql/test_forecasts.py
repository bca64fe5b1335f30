"""Stores of load profiles: the contract, and what the one in the database does besides."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sqlalchemy import Table, text, update

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.ports.forecast_store import ForecastStore
from flink_autoscaler.stores.heap import HeapForecastStore
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.forecasts import SqlForecastStore
from flink_autoscaler.stores.sql.migrations import VERSION_TABLE
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.sql.tables import FORECAST_META, FORECAST_PROFILE
from testkit.contracts.stores.forecasts import (
    ASOF,
    ForecastStoreContract,
    a_profile,
    a_result,
    without_profile,
)
from testkit.servers.databases import counting, every_database, rows_of


class TestHeapForecastStore(ForecastStoreContract):
    def make_store(self) -> ForecastStore:
        return HeapForecastStore()


@every_database
class TestSqlForecastStore(ForecastStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def make_store(self) -> ForecastStore:
        return SqlForecastStore(self.database)


def test_results_survive_a_restart(database: Database) -> None:
    SqlForecastStore(database).save([a_result()])

    assert SqlForecastStore(database).load("main/orders") == {"source": a_result()}


@every_database
def test_every_known_quarter_hour_is_a_row(database: Database) -> None:
    SqlForecastStore(database).save([a_result(), without_profile(a_result("main/new"))])

    rows = rows_of(database, FORECAST_PROFILE)
    assert [row["slot"] for row in rows] == list(range(1, 672))
    assert {(row["job_key"], row["weeks"]) for row in rows} == {("main/orders", 5)}


def test_profile_of_another_version_is_not_used(database: Database) -> None:
    store = SqlForecastStore(database)
    store.save([a_result()])
    with database.transaction() as connection:
        connection.execute(update(FORECAST_META).values(version=99))

    found = store.load("main/orders")["source"]

    assert (found.profile, found.is_readable) == (None, False)
    assert "made by another version" in (found.problem or "")


@pytest.mark.parametrize(
    ("table", "values", "problem"),
    [
        pytest.param(FORECAST_META, {"growth": None}, "growth", id="no growth"),
        pytest.param(FORECAST_META, {"level": -1.0}, "level", id="a level below zero"),
        pytest.param(FORECAST_META, {"timezone": None, "missing": None}, "missing, timezone", id="two lacking"),
        pytest.param(FORECAST_META, {"level": None}, "neither a level nor a problem", id="nothing"),
        pytest.param(FORECAST_PROFILE, {"q90": -0.5}, "q90", id="shares below zero"),
    ],
)
def test_damaged_profile_is_a_problem_of_its_source(
    database: Database, table: Table, values: dict[str, float | None], problem: str
) -> None:
    store = SqlForecastStore(database)
    store.save([a_result(), a_result("main/payments")])
    with database.transaction() as connection:
        connection.execute(update(table).where(table.c.job_key == "main/orders").values(**values))

    found = store.load("main/orders")["source"]

    assert (found.profile, found.is_readable) == (None, False)
    assert re.fullmatch(f"the profile in the database is damaged: .*{problem}; build it again", found.problem or "")
    assert store.load("main/payments") == {"source": a_result("main/payments")}


def test_results_without_a_revision_are_told_apart_by_their_day(database: Database) -> None:
    store = SqlForecastStore(database)
    seen = []
    for asof in (ASOF, ASOF + 900):
        store.save([a_result(asof=asof)])
        with database.transaction() as connection:
            connection.execute(update(FORECAST_META).values(revision=None))
        seen.append(store.revisions()["main/orders"])

    assert len(set(seen)) == 2


@every_database
def test_profiles_of_a_schema_without_revisions_are_kept_by_the_upgrade(database: Database) -> None:
    upgrade_schema(database)
    SqlForecastStore(database).save([a_result()])
    with database.transaction() as connection:
        connection.execute(text(f"ALTER TABLE {FORECAST_META.name} DROP COLUMN revision"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0005'"))

    upgrade_schema(database)

    assert SqlForecastStore(database).load("main/orders") == {"source": a_result()}
    assert set(SqlForecastStore(database).revisions()) == {"main/orders"}


def test_looking_for_new_results_reads_no_quarter_hour(database: Database) -> None:
    store = SqlForecastStore(database)
    store.save([a_result(), a_result("main/payments")])

    with counting(database) as statements:
        store.revisions()

    assert len(statements.texts) == 1
    assert statements.count("SELECT", FORECAST_PROFILE) == 0


def test_result_that_cannot_be_written_leaves_the_earlier_one(database: Database) -> None:
    store = SqlForecastStore(database)
    store.save([a_result()])
    broken = replace(a_profile(ASOF + 1), q90=(0.5,) * 671)

    with pytest.raises(StoreError, match="zip"):
        store.save([replace(a_result(asof=ASOF + 1), profile=broken)])

    assert store.load("main/orders") == {"source": a_result()}


def test_loading_is_one_statement_however_many_sources(database: Database) -> None:
    store = SqlForecastStore(database)
    store.save([a_result(source_id=f"source {number}") for number in range(3)])

    with counting(database) as statements:
        found = store.load("main/orders")

    assert len(found) == 3
    assert statements.count("SELECT", FORECAST_META) == 1
    assert len(statements.texts) == 1
