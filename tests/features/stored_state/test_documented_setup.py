"""The statements of the guide make users that may do what they have to, and no more."""

from __future__ import annotations

import dataclasses
import re
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.database.diagnosis import FindingLevel, diagnose
from flink_autoscaler.stores.sql.events.handler import SqlEventHandler
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.testing.event_handler_contract import a_context, a_report
from testkit.servers.databases import DatabaseServer, every_database

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "database.md"
BLOCKS = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
SETUPS, QUERIES = BLOCKS[:2], BLOCKS[2:]
STATEMENTS = dict(zip(("postgresql", "mariadb"), SETUPS, strict=True))


@pytest.fixture(params=["postgresql", "mariadb"])
def documented(request: pytest.FixtureRequest) -> DatabaseSettings:
    """A database that was set up as the guide says; who may use it is not set yet."""
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    superuser = server.new_database()
    target = dataclasses.replace(superuser, url=server.url("flink_autoscaler"))
    for statement in filter(str.strip, STATEMENTS[request.param].split(";")):
        settings = target if "DEFAULT PRIVILEGES" in statement else superuser
        with (
            closing(Database(settings)) as database,
            database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            connection.execute(text(statement))
    return target


@every_database
def test_documented_users_may_do_their_work(documented: DatabaseSettings) -> None:
    admin = dataclasses.replace(documented, username="flink_autoscaler_admin", password="choose-one")
    daemon = dataclasses.replace(documented, username="flink_autoscaler", password="choose-another")
    with closing(Database(daemon)) as database, pytest.raises(StoreError, match="may not do this"):
        upgrade_schema(database)

    with closing(Database(admin)) as database:
        upgrade_schema(database)

    with closing(Database(daemon)) as database:
        findings = list(diagnose(database))
    assert {finding.check for finding in findings if finding.level is FindingLevel.ERROR} == set()
    assert len(findings) > 2


@every_database
def test_documented_queries_find_the_numbers_of_events(database: Database) -> None:
    handler, context = SqlEventHandler(database), a_context("main/orders")
    figures = (("saved", 600.0), ("cost", 900.0), ("late", 1.0))
    handler.handle_scaling_report(context, a_report(is_executed=False, new=5))
    handler.handle_scaling_report(context, a_report(is_executed=True))
    handler.handle_event(context, Event(EventType.NORMAL, "ScaleDownDoesNotPay", "held back", "key", figures=figures))

    with database.transaction(read_only=True) as connection:
        vertices, held_back = ([tuple(row) for row in connection.execute(text(query))] for query in QUERIES)

    assert vertices == [("main/orders", "Source: orders", 2, 4, None, 100.0)]
    assert [(job, *numbers) for job, _, *numbers in held_back] == [("main/orders", 600.0, 900.0)]
