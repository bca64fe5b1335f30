"""The commands with which people give orders, as they type them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.model.metrics import MetricSample
from flink_autoscaler.core.model.orders import Orders, PauseScope
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    Fingerprint,
    Pause,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
)
from flink_autoscaler.standalone.cli.main import app
from flink_autoscaler.standalone.operator_commands.named_jobs import AmbiguousJobError, new_job_key, resolve_jobs
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.known_jobs import KnownJob
from flink_autoscaler.stores.sql.orders import SqlOrderStore
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import EVENTS, ORDERS
from testkit.builders.sql.command_line import call
from testkit.servers.databases import every_database, rows_of

WRITER = "flink-autoscaler"
JOBS = ("main/orders", "main/payments", "other/orders")
LAST = RescaleRecord(1_000, 1_000, {"v": 2}, {"v": 4}, stage=Stage.REACHED, reason="decided by load")
RESCALED = JobState("0" * 32, (MetricSample(1, {}, {}),), overrides={"v": 4}, supervision=Supervision(current=LAST))
JDBC = ("state-store.type=JDBC", "event-handler.type=JDBC")


@dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    output: str
    errors: str


@dataclass
class Site:
    """A database with the states of jobs, and commands that use it."""

    settings: DatabaseSettings
    database: Database
    capture: pytest.CaptureFixture[str]

    def options(self, *more: str) -> list[str]:
        values = [f"autoscaler.standalone.{each}" for each in (f"jdbc.url={self.settings.url}", *(more or JDBC))]
        clusters = [
            f"autoscaler.clusters.{i}.{k}"
            for i, c in enumerate(("main", "other"))
            for k in (f"name={c}", f"url=http://{c}:1")
        ]
        return [argument for value in (*values, *clusters) for argument in ("--set", value)]

    def order(self, *arguments: str, options: list[str] | None = None) -> Said:
        self.capture.readouterr()
        code = app([*arguments, *(self.options() if options is None else options)], standalone_mode=False)
        said = self.capture.readouterr()
        return Said(int(code or 0), said.out, said.err)

    def orders(self, job_key: str = "main/orders") -> Orders:
        return SqlOrderStore(self.database).orders(job_key.partition("/")[0]).get(job_key, Orders())

    def events(self) -> list[tuple[str, str, str]]:
        return [(row["job_key"], row["reason"], row["message"]) for row in rows_of(self.database, EVENTS)]

    def remember(self, job_key: str, state: JobState) -> None:
        SqlStateStore(self.database, writer=WRITER).save(job_key, state)


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    settings = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    with closing(Database(settings)) as database:
        upgrade_schema(database)
        site = Site(settings, database, capsys)
        for job_key in JOBS:
            site.remember(job_key, RESCALED)
        yield site


def test_an_order_is_in_the_book_and_among_the_events(site: Site) -> None:
    said = site.order("pause", "main/orders", "--reason", "deployment", "--as", "alice")

    pause = site.orders().pause
    assert pause is not None
    assert (pause.signed.who, pause.signed.reason, pause.direction) == ("alice", "deployment", PauseScope.BOTH)
    text = "Scaling is paused until somebody resumes it, by alice: deployment"
    assert (said.code, said.output, said.errors) == (0, f"main/orders: {text}\n", "")
    assert site.events() == [("main/orders", "Paused", text)]


@pytest.mark.parametrize(
    ("options", "direction"),
    [
        pytest.param((), PauseScope.BOTH, id="nothing said"),
        pytest.param(("--up",), PauseScope.UP, id="up"),
        pytest.param(("--down",), PauseScope.DOWN, id="down"),
        pytest.param(("--up", "--down"), PauseScope.BOTH, id="both"),
    ],
)
def test_a_pause_has_a_direction(site: Site, options: tuple[str, ...], direction: PauseScope) -> None:
    site.order("pause", "main/orders", "--reason", "x", *options)

    pause = site.orders().pause
    assert pause is not None
    assert pause.direction is direction


def test_a_pause_may_end_by_itself(site: Site) -> None:
    site.order("pause", "main/orders", "--reason", "x", "--for", "2h")

    pause = site.orders().pause
    assert pause is not None
    assert pause.until_ms == pause.signed.at_ms + 7_200_000


def test_who_is_the_login_name_and_host_unless_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")

    site.order("pause", "main/orders", "--reason", "x")

    pause = site.orders().pause
    assert pause is not None
    assert pause.signed.who.startswith("alice@")


def test_resuming_ends_an_ordered_pause(site: Site) -> None:
    site.order("pause", "main/orders", "--reason", "x")

    said = site.order("resume", "main/orders", "--reason", "done")

    assert said.code == 0
    assert site.orders().pause is None
    assert [reason for _, reason, _ in site.events()] == ["Paused", "Resumed"]


def test_resuming_ends_a_pause_after_a_rollback(site: Site) -> None:
    later = 10**13
    pause = Pause("restarts", "rolled back to work 2", later, Fingerprint(None), for_good=True)
    site.remember("main/orders", replace(RESCALED, supervision=Supervision(phase=SupervisionPhase.PAUSED, pause=pause)))

    said = site.order("resume", "main/orders")

    assert "rolled back to work 2" in said.output
    assert site.orders().resumed_ms == later


def test_resuming_what_is_not_paused_is_no_mistake(site: Site) -> None:
    said = site.order("resume", "main/orders")

    assert (said.code, said.output) == (0, "main/orders: It is not paused; there is nothing to resume\n")
    assert site.events() == []


def test_vertices_are_pinned_and_unpinned(site: Site) -> None:
    pinned = site.order("pin", "main/orders", "Source: a=b=4", "sink=2", "--reason", "x", "--as", "alice")
    site.order("unpin", "main/orders", "sink")

    assert [(pin.pattern, pin.parallelism) for pin in site.orders().pins] == [("Source: a=b", 4)]
    assert pinned.output.startswith("main/orders: Pinned Source: a=b=4, sink=2, by alice: x (not checked yet")
    site.order("unpin", "main/orders")
    assert site.orders().pins == ()
    assert rows_of(site.database, ORDERS) == []


def test_unpinning_what_is_not_pinned_is_refused(site: Site) -> None:
    site.order("pin", "main/orders", "sink=2", "--reason", "x")

    said = site.order("unpin", "main/orders", "snik")

    assert (said.code, said.output) == (1, "")
    assert said.errors == "error: main/orders: 'snik' is not pinned; pinned: sink=2\n"


def test_a_rollback_waits_for_the_next_pass(site: Site) -> None:
    said = site.order("rollback", "main/orders", "--reason", "slow", "--as", "bob")

    order = site.orders().rollback
    assert order is not None
    assert said.code == 0
    assert "the rescale of 1970-01-01 00:00:01 UTC, by bob: slow" in said.output
    assert [reason for _, reason, _ in site.events()] == ["RollbackOrdered"]


@pytest.mark.parametrize(
    ("supervision", "why"),
    [
        pytest.param(Supervision(), "no rescale is remembered that could be undone", id="no rescale"),
        pytest.param(
            Supervision(current=replace(LAST, before=LAST.target)),
            "the last rescale, of 1970-01-01 00:00:01 UTC, changed nothing",
            id="no change",
        ),
    ],
)
def test_a_rollback_that_the_daemon_would_not_carry_out_is_refused(
    site: Site, supervision: Supervision, why: str
) -> None:
    site.remember("main/orders", replace(RESCALED, supervision=supervision))

    said = site.order("rollback", "main/orders", "--reason", "slow")

    assert (said.code, said.output) == (1, "")
    assert why in said.errors
    assert (site.orders(), site.events()) == (Orders(), [])


def test_a_reset_first_says_what_is_forgotten(site: Site) -> None:
    said = site.order("reset", "main/orders", "--reason", "new hosts")

    assert said.code == 2
    assert said.output == "main/orders: A reset forgets: 1 sample of metrics, 1 decided parallelism, 1 rescale\n"
    assert "--yes" in said.errors
    assert site.orders() == Orders()


def test_a_confirmed_reset_is_ordered(site: Site) -> None:
    said = site.order("reset", "main/orders", "--reason", "new hosts", "--yes")

    assert said.code == 0
    assert site.orders().reset is not None
    assert [reason for _, reason, _ in site.events()] == ["ResetOrdered"]


def test_a_dry_run_is_switched_on_and_off(site: Site) -> None:
    site.order("dry-run", "main/orders", "on", "--reason", "new options")
    order = site.orders().dry_run
    site.order("dry-run", "main/orders", "off")

    assert order is not None
    assert order.reason == "new options"
    assert site.orders() == Orders()
    assert [reason for _, reason, _ in site.events()] == ["DryRunOn", "DryRunOff"]


def test_several_jobs_are_refused_unless_all_are_meant(site: Site) -> None:
    refused = site.order("pause", "orders", "--reason", "x")
    taken = site.order("pause", "orders", "--reason", "x", "--all")

    assert refused.code == 1
    assert refused.errors.splitlines() == [
        "error: 'orders' fits 2 jobs; name one, or add --all:",
        "error:   main/orders",
        "error:   other/orders",
    ]
    assert (taken.code, len(taken.output.splitlines())) == (0, 2)
    assert None not in (site.orders("main/orders").pause, site.orders("other/orders").pause)
    assert site.orders("main/payments").pause is None


def test_an_unknown_job_is_answered_with_the_nearest(site: Site) -> None:
    said = site.order("pause", "paymens", "--reason", "x")

    assert said.code == 1
    assert "no job 'paymens' is known" in said.errors
    assert "  main/payments" in said.errors
    assert rows_of(site.database, ORDERS) == []


def test_a_job_that_was_not_seen_yet_can_be_ordered_about(site: Site) -> None:
    said = site.order("pause", "main/new one", "--reason", "x", "--new")
    later = site.order("resume", "new one")

    assert (said.code, later.code) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("pause", "main/orders"), "--reason", id="no reason"),
        pytest.param(("pause", "main/orders", "--reason", " "), "--reason is empty", id="empty reason"),
        pytest.param(("pause", "main/orders", "--reason", "x" * 501), "at most 500", id="long reason"),
        pytest.param(("pause", "main/orders", "--reason", "x", "--as", " "), "--as is empty", id="no name"),
        pytest.param(("pause", "main/orders", "--reason", "x", "--for", "2"), "--for '2'", id="no unit"),
        pytest.param(("pause", "main/orders", "--reason", "x", "--for", "soon"), "--for 'soon'", id="no duration"),
        pytest.param(("pause", "main/orders", "--reason", "x", "--for", "0 h"), "--for '0 h'", id="no time"),
        pytest.param(("pin", "main/orders", "work", "--reason", "x"), "VERTEX=PARALLELISM", id="no number"),
        pytest.param(("pin", "main/orders", "work=0", "--reason", "x"), "VERTEX=PARALLELISM", id="zero"),
        pytest.param(("pin", "main/orders", "=4", "--reason", "x"), "VERTEX=PARALLELISM", id="no vertex"),
        pytest.param(("pin", "main/orders", "work=32769", "--reason", "x"), "VERTEX=PARALLELISM", id="beyond Flink"),
        pytest.param(("dry-run", "main/orders", "maybe"), "on or off", id="neither on nor off"),
    ],
)
def test_mistakes_are_said_and_nothing_is_ordered(site: Site, arguments: tuple[str, ...], expected: str) -> None:
    said = call(site.settings, *arguments, *site.options())

    assert (said.returncode, said.stdout) == (2, "")
    assert expected in said.stderr
    assert rows_of(site.database, ORDERS) == []


def test_without_a_database_the_two_keys_are_named(site: Site) -> None:
    said = site.order("pause", "main/orders", "--reason", "x", options=[])

    assert said.code == 2
    assert "autoscaler.standalone.state-store.type" in said.errors
    assert "autoscaler.standalone.jdbc.url" in said.errors


def test_a_database_without_the_table_is_not_used(site: Site) -> None:
    with site.database.transaction() as connection:
        ORDERS.drop(connection)

    said = site.order("commands")

    assert said.code == 2
    assert "flink-autoscaler db upgrade" in said.errors


def test_events_go_where_the_settings_say(site: Site) -> None:
    said = site.order("pause", "main/orders", "--reason", "x", options=site.options("state-store.type=JDBC"))

    assert said.code == 0
    assert '"reason": "Paused"' in said.errors
    assert site.events() == []


def test_orders_are_shown_with_who_since_and_until(site: Site) -> None:
    site.order("pause", "main/orders", "--down", "--reason", "sale [bold]", "--as", "alice")
    site.order("pin", "main/orders", "work=4", "--reason", "x", "--as", "bob")
    site.order("rollback", "other/orders", "--reason", "slow", "--as", "carol")
    site.order("pause", "main/payments", "--reason", "x", "--for", "1 ms")

    lines = [line.split() for line in site.order("commands").output.splitlines()]
    one = site.order("commands", "other/*").output

    assert lines[0] == ["JOB", "ORDER", "BY", "SINCE", "UNTIL", "REASON"]
    assert [line[:3] for line in lines[1:]] == [
        ["main/orders", "pause", "(down)"],
        ["main/orders", "pin", "work=4"],
        ["other/orders", "rollback", "carol"],
    ]
    assert lines[1][-2:] == ["sale", "[bold]"]
    assert len(one.splitlines()) == 2


def test_a_rollback_that_was_carried_out_is_no_order_any_more(site: Site) -> None:
    site.order("rollback", "main/orders", "--reason", "slow")
    order = site.orders().rollback
    assert order is not None
    site.remember("main/orders", replace(RESCALED, supervision=Supervision(past=(LAST,), obeyed_ms=order.at_ms)))

    said = site.order("commands")

    assert (said.code, said.output, said.errors) == (0, "", "no commands\n")


def test_orders_for_programs(site: Site) -> None:
    site.order("pause", "main/orders", "--up", "--reason", "x", "--as", "alice", "--for", "1h")
    site.order("pin", "main/orders", "work=4", "--reason", "y", "--as", "bob")

    (entry,) = json.loads(site.order("commands", "--json").output)["commands"]

    assert entry["job_key"] == "main/orders"
    assert set(entry["pause"]) == {"direction", "until", "by", "reason", "since"}
    assert (entry["pause"]["direction"], entry["pause"]["by"]) == ("up", "alice")
    assert (entry["pins"][0]["vertex"], entry["pins"][0]["parallelism"]) == ("work", 4)
    assert (entry["dry_run"], entry["rollback"], entry["reset"]) == (None, None, None)


@every_database
def test_orders_work_in_every_database(database_settings: DatabaseSettings) -> None:
    options = [each for value in JDBC for each in ("--set", f"autoscaler.standalone.{value}")]
    with closing(Database(database_settings)) as database:
        upgrade_schema(database)
        SqlStateStore(database, writer=WRITER).save("default/orders", RESCALED)

    paused = call(database_settings, "pause", "orders", "--reason", "x", "--as", "alice", *options)
    shown = call(database_settings, "commands", *options)
    told = call(database_settings, "events", *options)

    assert (paused.returncode, paused.stderr) == (0, ""), paused.stderr
    assert "alice" in shown.stdout
    assert "Paused" in told.stdout


KNOWN = (
    KnownJob("main/orders", "a" * 32),
    KnownJob("main/orders-eu"),
    KnownJob("main/[x]"),
    KnownJob("other/orders"),
    KnownJob("b" * 32),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("main/orders", ("main/orders",), id="key before everything else"),
        pytest.param("orders-eu", ("main/orders-eu",), id="name"),
        pytest.param("a" * 32, ("main/orders",), id="job id"),
        pytest.param("b" * 32, ("b" * 32,), id="key that is a job id"),
        pytest.param("[x]", ("main/[x]",), id="name that looks like a pattern"),
        pytest.param("other/*", ("other/orders",), id="pattern for keys"),
        pytest.param("*-??", ("main/orders-eu",), id="pattern for names"),
        pytest.param("-eu", ("main/orders-eu",), id="end of a key"),
    ],
)
def test_a_text_means_one_job(text: str, expected: tuple[str, ...]) -> None:
    assert resolve_jobs(KNOWN, text, takes_all=False) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("orders", "fits 2 jobs", id="name in two clusters"),
        pytest.param("*", "fits 5 jobs", id="everything"),
        pytest.param("", "no job ''", id="nothing"),
        pytest.param("Main/orders", "main/orders", id="other case"),
    ],
)
def test_a_text_that_means_none_or_several_is_unclear(text: str, expected: str) -> None:
    with pytest.raises(AmbiguousJobError, match=expected.replace("*", r"\*")):
        resolve_jobs(KNOWN, text, takes_all=False)


def test_of_very_many_jobs_only_some_are_named() -> None:
    known = [KnownJob(f"main/job-{number}") for number in range(500)]

    with pytest.raises(AmbiguousJobError) as caught:
        resolve_jobs(known, "job-*", takes_all=False)

    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (22, "  and 480 more")


def test_without_any_job_it_is_said_when_there_will_be_some() -> None:
    with pytest.raises(AmbiguousJobError, match="first pass"):
        resolve_jobs((), "orders", takes_all=True)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param("main/x", {"names_cluster": True}, id="name"),
        pytest.param("a" * 32, {"names_cluster": False}, id="job id"),
    ],
)
def test_a_new_job_has_a_key_of_the_settings(text: str, arguments: Mapping[str, Any]) -> None:
    assert new_job_key(text, ["main"], **arguments) == text


@pytest.mark.parametrize("text", ["", "x", "mian/x", "main/", "main/\n", "main/" + "x" * 200])
def test_a_key_that_no_job_can_have_is_refused(text: str) -> None:
    with pytest.raises(AmbiguousJobError):
        new_job_key(text, ["main"], names_cluster=True)
