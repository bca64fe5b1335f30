"""Events as users look at them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.cli.command import read_instant
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from testkit.builders.sql import NOON, an_event, write_events
from testkit.builders.sql.command_line import call, command, environment
from testkit.clusters.flink.waiting import wait_until
from testkit.servers.databases import DatabaseServer, create_tables, every_database


@pytest.fixture
def file(tmp_path: Path) -> DatabaseSettings:
    return DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")


@pytest.fixture
def stored(file: DatabaseSettings) -> Iterator[Database]:
    with closing(Database(file)) as database:
        create_tables(database)
        yield database


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("24h", NOON - timedelta(hours=24), id="hours"),
        pytest.param(" 30 min ", NOON - timedelta(minutes=30), id="unit with a blank"),
        pytest.param("2026-01-01", datetime(2026, 1, 1), id="date"),
        pytest.param("2026-01-01T10:30", datetime(2026, 1, 1, 10, 30), id="date and time"),
        pytest.param("2026-01-01T10:30:00Z", datetime(2026, 1, 1, 10, 30, tzinfo=UTC), id="with a zone"),
        pytest.param("2026-01-01 10:30:01.5", datetime(2026, 1, 1, 10, 30, 1, 500_000), id="with a blank"),
    ],
)
def test_since_is_a_duration_or_a_date(text: str, expected: datetime) -> None:
    assert read_instant(text, NOON.timestamp()) == round(expected.timestamp() * 1000)


@pytest.mark.parametrize("text", ["", "yesterday", "24", "20260101", "-3h", "2026-13-01", "99999999999999 d"])
def test_since_that_is_neither_is_a_mistake(text: str) -> None:
    with pytest.raises(ConfigError, match="--since"):
        read_instant(text, NOON.timestamp(), "--since")


@every_database
def test_table_shows_the_events_of_every_database(database_settings: DatabaseSettings) -> None:
    with closing(Database(database_settings)) as database:
        create_tables(database)
        write_events(database, an_event(message="one", event_count=3), an_event(message="two", event_type="Warning"))

    result = call(database_settings, "events")

    assert (result.returncode, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows == [
        ["TIME", "TYPE", "REASON", "JOB", "COUNT", "MESSAGE"],
        ["2026-01-02", "12:00:00", "Normal", "ScalingReport", "main/orders", "3", "one"],
        ["2026-01-02", "12:00:00", "Warning", "ScalingReport", "main/orders", "1", "two"],
    ]


def test_json_is_one_object_per_line(file: DatabaseSettings, stored: Database) -> None:
    write_events(stored, an_event(message="first\nline \U0001f680"), an_event(update_time=NOON + timedelta(hours=1)))

    lines = call(file, "events", "--json").stdout.splitlines()

    first, second = map(json.loads, lines)
    assert (first["message"], first["job_key"], first["type"]) == ("first\nline \U0001f680", "main/orders", "Normal")
    assert (first["created_at"], second["updated_at"]) == ("2026-01-02T12:00:00+00:00", "2026-01-02T13:00:00+00:00")


def test_event_that_happens_again_and_again_is_read_where_its_last_time_is(
    file: DatabaseSettings, stored: Database
) -> None:
    write_events(stored, an_event(message="again", update_time=NOON + timedelta(hours=1)), an_event(message="once"))

    lines = call(file, "events", "--json").stdout.splitlines()

    assert [json.loads(line)["message"] for line in lines] == ["once", "again"]


def test_options_choose_events(file: DatabaseSettings, stored: Database) -> None:
    now = datetime.now()
    wanted: dict[str, Any] = {"event_type": "Warning", "reason": "AutoscalerError", "update_time": now}
    write_events(
        stored,
        an_event(message="old", **{**wanted, "update_time": now - timedelta(days=3)}),
        an_event(message="other type", **{**wanted, "event_type": "Normal"}),
        an_event(message="other reason", **{**wanted, "reason": "Scaling"}),
        an_event("main/payments", message="other job", **wanted),
        an_event(message="cut off by the limit", **wanted),
        an_event(message="shown", **wanted),
    )
    options = ("--job", "ord*", "--since", "48h", "--type", "warning", "--reason", "AutoscalerError", "--limit", "1")

    result = call(file, "events", "--json", *options)

    assert [json.loads(line)["message"] for line in result.stdout.splitlines()] == ["shown"]
    assert result.stderr == "the newest 1 events; --limit shows more\n"


def test_no_events_is_no_error(file: DatabaseSettings, stored: Database) -> None:
    result = call(file, "events")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "no events\n")


def test_database_without_the_table_says_what_to_do(file: DatabaseSettings) -> None:
    result = call(file, "events")

    assert result.returncode == 2
    assert "flink-autoscaler db upgrade" in result.stderr


def test_what_jobs_wrote_cannot_control_the_terminal(file: DatabaseSettings, stored: Database) -> None:
    write_events(stored, an_event("main/[red]\x1b[31m", message="a\x07b [bold]password=hunter2"))

    output = call(file, "events").stdout

    assert "\x1b" not in output
    assert "\x07" not in output
    assert "[bold]" in output
    assert "hunter2" not in output


class Following:
    """A process that follows events, with its output in files."""

    def __init__(self, settings: DatabaseSettings, folder: Path, *arguments: str) -> None:
        self.output = folder / "output"
        self.errors = folder / "errors"
        with self.output.open("w") as output, self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command(settings, "events", "--follow", *arguments),
                env=environment(settings),
                stdout=output,
                stderr=errors,
            )

    def wait_for(self, *messages: str) -> None:
        def arrived() -> bool:
            assert self.process.poll() is None, self.errors.read_text()
            return all(message in self.output.read_text() for message in messages)

        wait_until(f"events {messages}", arrived, timeout=300, interval=0.05, context=self.output.read_text)


@contextmanager
def following(settings: DatabaseSettings, folder: Path, *arguments: str) -> Iterator[Following]:
    process = Following(settings, folder, *arguments)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.wait(timeout=300)


def test_follow_shows_what_is_stored_and_then_what_comes_until_ctrl_c(
    file: DatabaseSettings, stored: Database, tmp_path: Path
) -> None:
    write_events(stored, an_event(message="cut off"), an_event(message="stored"))
    with following(file, tmp_path, "--limit", "1", "--job", "orders*") as process:
        process.wait_for("stored")
        write_events(stored, an_event("main/payments", message="unwanted"), an_event(message="new", event_count=2))
        process.wait_for("new")
        write_events(stored, an_event("main/orders-2", message="newer"))
        process.wait_for("newer")

        process.process.send_signal(signal.SIGINT)
        code = process.process.wait(timeout=300)

    assert process.output.read_text().splitlines() == [
        "2026-01-02 12:00:00 Normal ScalingReport main/orders: stored",
        "2026-01-02 12:00:00 Normal ScalingReport main/orders (x2): new",
        "2026-01-02 12:00:00 Normal ScalingReport main/orders-2: newer",
    ]
    assert (code, process.errors.read_text()) == (-signal.SIGINT, "")


def test_follow_in_json_waits_for_a_database_that_is_away(postgresql_server: DatabaseServer, tmp_path: Path) -> None:
    settings = postgresql_server.new_database()
    with closing(Database(settings)) as database:
        create_tables(database)
        write_events(database, an_event(message="stored"))
        with following(settings, tmp_path, "--json") as process:
            process.wait_for("stored")
            postgresql_server.stop()
            try:
                wait_until("a complaint", lambda: "trying again" in process.errors.read_text(), timeout=300)
            finally:
                postgresql_server.start()
            write_events(database, an_event(message="afterwards"))
            process.wait_for("afterwards")

            complaints = process.errors.read_text().splitlines()

            shown = [json.loads(line)["message"] for line in process.output.read_text().splitlines()]

    assert len(complaints) == 1
    assert shown == ["stored", "afterwards"]
