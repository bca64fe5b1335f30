"""Commands that go to a running daemon instead of to its database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.cli.main import app
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.web.authorization import AccessRules
from testkit.builders.web import TOKEN, WebSite


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebSite]:
    with WebSite(access=AccessRules(viewer_token="look", operator_token=TOKEN)) as web:
        web.add("orders")
        web.decide("orders")
        monkeypatch.setenv("FLINK_AUTOSCALER_TOKEN", TOKEN)
        yield web


def run(web: WebSite, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--daemon-url", web.url])


def test_explain_asks_the_daemon_which_needs_no_database_for_it(web: WebSite, tmp_path: Path) -> None:
    shown, whole = run(web, "explain", "orders"), run(web, "explain", "main/orders", "--json")
    exported = run(web, "explain", "orders", "--export", str(tmp_path / "pass.json"))
    again = CliRunner().invoke(app, ["replay", "--record", str(tmp_path / "pass.json")])

    assert "main/orders" in shown.output
    assert json.loads(whole.output)["phase"] == "executed"
    assert (exported.exit_code, again.exit_code) == (0, 0), again.output
    assert "the same again" in again.output


def test_orders_go_to_the_daemon_and_come_back_from_it(web: WebSite) -> None:
    given = run(web, "pause", "orders", "--reason", "release 7", "--for", "1h")
    listed = run(web, "commands", "orders")
    web.run()
    ended = run(web, "resume", "orders")

    assert "main/orders: Scaling is paused until" in given.output
    assert "release 7" in listed.output
    assert (ended.exit_code, "Scaling goes on" in ended.output) == (0, True)


def test_a_pin_that_is_refused_ends_with_1(web: WebSite) -> None:
    refused = run(web, "pin", "orders", "wrok=2", "--reason", "test")
    forced = run(web, "pin", "orders", "wrok=2", "--reason", "test", "--force")

    assert (refused.exit_code, forced.exit_code) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(("explain", "nobody"), 1, "no job 'nobody' is known", id="no such job"),
        pytest.param(("pause", "orders", "--reason", "x", "--all"), 2, "--all, --new and --as", id="all"),
        pytest.param(("reset", "orders", "--reason", "x"), 2, "add --yes", id="a reset that is not confirmed"),
    ],
)
def test_what_cannot_be_meant_is_told(web: WebSite, arguments: tuple[str, ...], code: int, text: str) -> None:
    ran = run(web, *arguments)

    assert (ran.exit_code, text in ran.output) == (code, True), ran.output


def test_a_viewer_may_not_order(web: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_AUTOSCALER_TOKEN", "look")

    ran = run(web, "resume", "orders")

    assert (ran.exit_code, "the daemon refuses (403)" in ran.output) == (1, True), ran.output


@pytest.mark.parametrize(
    ("url", "code"), [("http://127.0.0.1:9", 1), ("ftp://host", 2), ("http://me:secret@host", 2), ("nothing", 2)]
)
def test_a_daemon_that_is_not_there_and_a_url_that_is_none_are_told(url: str, code: int) -> None:
    ran = CliRunner().invoke(app, ["jobs", "--daemon-url", url])

    assert ran.exit_code == code
    assert "secret" not in ran.output
    assert "Traceback" not in ran.output


def test_a_job_is_looked_after_also_when_its_last_pass_failed(web: WebSite) -> None:
    report = web.run()
    web.fleet.record_pass(replace(report, reports={}, requests={}, failures={"main/orders": ConnectError("away")}))

    shown = run(web, "jobs")

    (line,) = (each for each in shown.output.splitlines() if "main/orders" in each)
    assert line.split()[3] == "yes"


def test_jobs_beyond_the_first_page_are_listed_and_take_orders(web: WebSite) -> None:
    """The daemon answers with a thousand jobs at a time."""
    endpoint = Endpoint(web.flink.url)
    jobs = [
        JobAutoScalerContext(f"main/job-{number:04}", "1", JobStatus.RUNNING, {}, endpoint, f"job-{number:04}", "main")
        for number in range(1002)
    ]
    web.fleet.record_pass(PassReport("main", tuple(jobs)))

    listed = json.loads(run(web, "jobs", "--json").output)["jobs"]
    paused = run(web, "pause", "job-1001", "--reason", "release 7")

    assert [job["job_key"] for job in listed] == [job.job_key for job in jobs]
    assert (paused.exit_code, "main/job-1001: Scaling is paused" in paused.output) == (0, True), paused.output
