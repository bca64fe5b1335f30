"""Backtests that are asked for over the API: the last days of a job with other options."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backtest_setup import a_history, job_rows
from history_setup import NOON_MS
from web_setup import OPERATOR, TOKEN, WebSite

from flink_autoscaler.standalone.web.backtests.book import FORGOTTEN_SECONDS, KEPT_SECONDS, Backtests
from flink_autoscaler.standalone.web.rights import Access
from flink_cluster.waiting import wait_until

ASKED = {"job_key": "main/orders", "days": 0.5, "options": {"utilization.target": "0.2", "utilization.max": "0.3"}}
LONG = {**ASKED, "days": 14}


def minute_now() -> int:
    return int((time.time() * 1000 - NOON_MS) // 60_000)


def recorded(folder: Path, minutes: int) -> Path:
    """Write a history of the job that ends now."""
    return a_history(folder, job_rows(minutes=minutes, first=minute_now() - minutes, rate=lambda m: 300 + m % 60))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return recorded(tmp_path / "history", 180)


@pytest.fixture
def web(history: Path) -> Iterator[WebSite]:
    with a_site(history) as web:
        yield web


def a_site(history: Path, **options: str) -> WebSite:
    access = Access(viewer_token="viewers-token", operator_token=TOKEN)
    usual = {"job.autoscaler.metrics.window": "3 min", "autoscaler.history.path": str(history)}
    return _Running({**usual, **options}, access)


class _Running(WebSite):
    """A site with a job that a pass has been over, which is asked by a viewer."""

    def __enter__(self) -> _Running:
        super().__enter__()
        self.client.headers.update({"Authorization": "Bearer viewers-token"})
        self.add("orders")
        self.run()
        return self


def begin(web: WebSite, asked: dict[str, Any] = ASKED) -> dict[str, Any]:
    answer = web.client.post("/api/v1/backtest", json=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ended(web: WebSite, identity: str, timeout: float = 60.0) -> dict[str, Any]:
    """Ask until a backtest has ended."""
    found: dict[str, Any] = wait_until(
        "the backtest",
        lambda: (asked := web.get("/backtest", id=identity))["state"] != "running" and asked,
        timeout,
    )
    return found


def pid_of(web: WebSite) -> int:
    (kept,) = [each for each in web.site.backtests._kept.values() if each.process is not None]
    assert kept.process is not None
    return kept.process.pid


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_options_as_they_are_and_as_changed_are_compared_over_the_last_days(web: WebSite) -> None:
    puts = web.flink.paths("PUT")

    found = ended(web, begin(web)["id"])

    present, changed = found["runs"]
    assert (found["state"], found["progress"], found["problem"]) == ("done", 1.0, None)
    assert (present["configuration"], changed["configuration"]) == ("as it is", "changed")
    assert changed["slot_hours"] > present["slot_hours"] > 0
    assert found["changes"] == ["job.autoscaler.utilization.max: 0.3", "job.autoscaler.utilization.target: 0.2"]
    assert found["simulated_days"] == pytest.approx(180 / 1440, rel=0.05)
    assert "No rescale was recorded: each is taken to last 60 s." in found["notes"]
    assert web.flink.paths("PUT") == puts


def test_a_second_one_is_refused_while_one_runs_and_taken_when_that_is_cancelled(web: WebSite) -> None:
    first = begin(web, LONG)
    pid = pid_of(web)

    refused = web.client.post("/api/v1/backtest", json=ASKED)
    cancelled = web.client.delete("/api/v1/backtest", params={"id": first["id"]}).json()
    second = begin(web)

    assert (refused.status_code, first["id"] in refused.json()["error"]) == (409, True)
    assert (cancelled["state"], cancelled["problem"]) == ("cancelled", "it was cancelled")
    wait_until("the end of the process", lambda: is_gone(pid), 10.0)
    assert ended(web, second["id"])["state"] == "done"
    assert web.get("/backtest", id=first["id"])["state"] == "cancelled"


@pytest.mark.parametrize(
    ("asked", "status", "text"),
    [
        pytest.param({**ASKED, "job_key": "main/nope"}, 404, "no cluster has a job", id="no such job"),
        pytest.param({**ASKED, "options": {"utilisation.target": "1"}}, 400, "did you mean", id="unknown option"),
        pytest.param({**ASKED, "options": {"utilization.target": "x"}}, 400, "utilization.target", id="no number"),
        pytest.param({**ASKED, "options": {"policies": "nope"}}, 400, "nope", id="no such policy"),
        pytest.param({**ASKED, "options": {}}, 400, "none differs", id="nothing changed"),
        pytest.param({**ASKED, "days": 15}, 400, "days:", id="too many days"),
        pytest.param({**ASKED, "days": 0}, 400, "days:", id="no time"),
    ],
)
def test_what_cannot_be_simulated_is_told_and_begins_nothing(
    web: WebSite, asked: dict[str, Any], status: int, text: str
) -> None:
    answer = web.client.post("/api/v1/backtest", json=asked)

    assert (answer.status_code, text in answer.json()["error"]) == (status, True), answer.text
    assert not web.site.backtests._kept


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param({}, "set autoscaler.history.enabled: true and autoscaler.history.path", id="none"),
        pytest.param({"autoscaler.history.path": "hdfs://nn/history"}, "which only Spark reaches", id="elsewhere"),
    ],
)
def test_without_a_history_it_is_said_what_to_configure(options: dict[str, str], text: str) -> None:
    with _Running(options, Access(viewer_token="viewers-token")) as web:
        answer = web.client.post("/api/v1/backtest", json=ASKED)
        page = web.client.get("/what-if", params={"job": "main/orders"}).text

    assert (answer.status_code, text in answer.json()["error"]) == (409, True), answer.text
    assert text in page
    assert 'id="backtest"' not in page


def test_too_little_that_is_recorded_is_told_with_what_to_do(tmp_path: Path) -> None:
    with a_site(recorded(tmp_path / "short", 5)) as web:
        short = ended(web, begin(web)["id"])
    with a_site(tmp_path / "nowhere") as web:
        missing = ended(web, begin(web)["id"])
    with a_site(a_history(tmp_path / "old", job_rows())) as web:
        old = ended(web, begin(web)["id"])

    assert (short["state"], missing["state"], old["state"]) == ("failed", "failed", "failed")
    assert "5 minutes are recorded, and a backtest needs 60: 55 more" in short["problem"]
    assert "there is no such folder" in missing["problem"]
    assert "nothing is recorded of it in the last 0.5 days" in old["problem"]
    assert all("autoscaler.history.enabled is not true" in each["problem"] for each in (short, missing, old))


def test_another_site_cannot_have_a_browser_begin_or_end_one(history: Path) -> None:
    with _Running({"autoscaler.history.path": str(history)}) as web:
        del web.client.headers["Authorization"]
        foreign = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}

        answers = [
            web.client.post("/api/v1/backtest", json=ASKED, headers=foreign),
            web.client.delete("/api/v1/backtest", params={"id": "x"}, headers=foreign),
            web.client.delete("/api/v1/backtest", params={"id": "x"}),
        ]

    assert [each.status_code for each in answers] == [403, 403, 404]


def test_the_stream_of_news_tells_how_far_it_is(tmp_path: Path) -> None:
    with a_site(recorded(tmp_path / "history", 7 * 1440)) as web:
        identity = begin(web, LONG)["id"]
        news = _news(web, identity)

        assert '"state": "running"' in next(news)
        web.client.delete("/api/v1/backtest", params={"id": identity})
        wait_until("the end of it", lambda: '"state": "cancelled"' in next(news), 30.0)


def test_who_comes_back_to_the_news_is_told_what_came_of_it(web: WebSite) -> None:
    identity = begin(web)["id"]
    ended(web, identity)

    assert '"state": "done", "progress": 1.0' in next(_news(web, identity))


def _news(web: WebSite, identity: str) -> Iterator[str]:
    """Yield what is told of a backtest, by one stream after the other, as a browser reads them."""
    for _ in range(6):
        with web.client.stream("GET", "/api/v1/news") as stream:
            yield from (line for line in stream.iter_lines() if identity in line)


def test_no_process_is_left_when_the_site_is_closed_while_one_runs(history: Path) -> None:
    with a_site(history) as web:
        begin(web, LONG)
        pid = pid_of(web)

    wait_until("the end of the process", lambda: is_gone(pid), 10.0)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_that_nobody_asks_for_is_ended_and_old_results_are_forgotten(web: WebSite) -> None:
    clock = _Clock()
    object.__setattr__(web.site, "backtests", Backtests(clock=clock))
    identity = begin(web, LONG)["id"]
    pid = pid_of(web)

    clock.now += FORGOTTEN_SECONDS + 1

    wait_until("the end of the process", lambda: is_gone(pid), 20.0)
    assert web.get("/backtest", id=identity)["problem"] == "nobody asked for it any more"
    clock.now += KEPT_SECONDS + 1
    assert web.client.get("/api/v1/backtest", params={"id": identity}).status_code == 404


def test_the_page_offers_it_and_passes_go_on_meanwhile(web: WebSite) -> None:
    begin(web, LONG)

    report = web.run()
    answers = [web.client.get(path).status_code for path in ("/healthz", "/what-if?job=main/orders")]

    assert report.error is None
    assert answers == [200, 200]
    assert 'id="backtest"' in web.client.get("/what-if?job=main/orders", headers=OPERATOR).text
