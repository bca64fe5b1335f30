"""The page of daemons in processes of their own: a leader and one that stands by, a reload, and a browser."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pictures.browser import chromium, text_of, type_into
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, chain
from testkit.fakes.flink.load import overloaded, working
from testkit.scenarios.runner.process import DaemonProcess

TOKEN = "operators-token"
LINK_TO_JOB = "return [...document.links].find(each => each.textContent === 'main/orders')?.href"
OPTIONS = {
    "job__autoscaler__metrics__window": "300 ms",
    "job__autoscaler__stabilization__interval": "0 s",
    "job__autoscaler__scale-down__interval": "1 h",
}
SHARED = {
    "autoscaler__standalone__state-store__type": "JDBC",
    "autoscaler__standalone__event-handler__type": "JDBC",
    "autoscaler__ha__enabled": "true",
    "autoscaler__ha__ttl": "3 s",
    "job__autoscaler__flink__rest-client__timeout": "1 s",
}


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as flink:
        flink.taskmanagers = [{"id": "tm", "slotsNumber": 32, "freeSlots": 24}]
        yield flink


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


def url_of(daemon: DaemonProcess) -> str:
    (line,) = daemon.lines("http_listening")
    return str(line["url"])


def client_of(daemon: DaemonProcess, token: str = TOKEN) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url_of(daemon), timeout=60, trust_env=False, headers=headers)


@pytest.fixture
def pair(tmp_path: Path, flink: FakeFlink, token: Path) -> Iterator[tuple[DaemonProcess, DaemonProcess]]:
    """A daemon that leads and one that stands by, on one database."""
    database = {"autoscaler__standalone__jdbc__url": f"jdbc:sqlite:{tmp_path / 'shared.db'}"}
    with DaemonProcess(tmp_path, "leader") as leader, DaemonProcess(tmp_path, "standby", file=leader.file) as standby:
        leader.configure(
            {"main": flink.url},
            **OPTIONS,
            **SHARED,
            **database,
            **{"autoscaler__http__operator-token-file": str(token)},
        )
        leader.start()
        leader.wait_for("leadership", lambda: leader.lines("leadership_gained"))
        standby.start(wait=False)
        standby.wait_for("a standby", lambda: standby.lines("standby") and standby.lines("http_listening"))
        yield leader, standby


def test_a_standby_shows_the_page_says_that_it_looks_on_and_hands_orders_to_the_leader(
    pair: tuple[DaemonProcess, DaemonProcess], flink: FakeFlink
) -> None:
    leader, standby = pair
    job = flink.add_job("orders", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True)
    job.vertices[1].name = "work"
    pin = {"job_key": "main/orders", "order": "pin", "reason": "release 7", "vertices": {"work": 3}, "force": True}
    with client_of(leader) as acting, client_of(standby) as looking:
        wait_until("the job", lambda: "main/orders" in looking.get("/").text, 300)
        pages = acting.get("/").text, looking.get("/").text
        abouts = acting.get("/api/v1/about").json(), looking.get("/api/v1/about").json()
        given = looking.post("/api/v1/commands", json=pin)
        wait_until("the pin", lambda: job.requirements[job.vertices[1].vertex_id][1] == 3, 300)
        (order,) = acting.get("/api/v1/commands").json()["commands"]

    assert given.json()["is_refused"] is False
    assert ["looks on; another one leads" in page for page in pages] == [False, True]
    assert [each["is_leader"] for each in abouts] == [True, False]
    assert (order["by"], order["reason"]) == ("api", "release 7")
    leader.wait_for("the rescale in the log", lambda: leader.lines("job_rescale_requested"), timeout=300)
    assert standby.lines("job_rescale_requested") == []


def test_a_standby_that_becomes_the_leader_says_so_no_more(
    pair: tuple[DaemonProcess, DaemonProcess], flink: FakeFlink
) -> None:
    leader, standby = pair
    flink.add_job("orders")
    leader.stop()
    standby.wait_for("leadership", lambda: standby.lines("leadership_gained"))

    with client_of(standby) as client:
        wait_until("it leads", lambda: "looks on" not in client.get("/").text, 300)


def test_without_its_database_the_page_says_so_and_shows_what_it_has(
    tmp_path: Path, flink: FakeFlink, token: Path
) -> None:
    flink.add_job("orders", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1)
    database, aside = tmp_path / "state.db", tmp_path / "aside"
    rights = {"autoscaler__http__operator-token-file": str(token)}
    state = {key: value for key, value in SHARED.items() if "__ha__" not in key}
    with DaemonProcess(tmp_path) as daemon:
        daemon.configure(
            {"main": flink.url}, **state, **rights, autoscaler__standalone__jdbc__url=f"jdbc:sqlite:{database}"
        )
        daemon.start()
        with client_of(daemon) as client:
            wait_until("the job", lambda: "main/orders" in client.get("/").text, 300)
            database.rename(aside)
            wait_until("the notice", lambda: "database does not answer" in client.get("/").text, 300)
            views = {path: client.get(path) for path in ("/", "/job?job=main/orders", "/events", "/about")}
            explained = client.get("/pass?job=main/orders")
            order = {"job_key": "main/orders", "order": "pause", "reason": "release 7"}
            refused = client.post("/api/v1/commands", json=order)
            aside.rename(database)
            wait_until("the end", lambda: "database does not answer" not in client.get("/").text, 300)
            wait_until("its orders", lambda: client.get("/api/v1/commands").json()["commands"] == [], 300)

    assert {path: each.status_code for path, each in views.items()} == dict.fromkeys(views, 200)
    assert all("database does not answer" in each.text for each in views.values())
    assert "main/orders" in views["/job?job=main/orders"].text
    assert (explained.status_code, "main/orders" in explained.text) == (200, True)
    assert refused.status_code == 503


def test_a_reload_takes_another_token_and_other_hosts_and_keeps_both_where_one_is_missing(
    tmp_path: Path, flink: FakeFlink, token: Path
) -> None:
    def configure(hosts: str, file: Path = token) -> None:
        options = {"autoscaler__http__operator-token-file": str(file), "autoscaler__http__allowed-hosts": hosts}
        daemon.configure({"main": flink.url}, **options)

    def statuses() -> tuple[int, ...]:
        answers = []
        for shown in (TOKEN, "another-token"):
            for host in ("one.example", "two.example"):
                with client_of(daemon, shown) as client:
                    answers.append(client.get("/api/v1/about", headers={"Host": host}).status_code)
        return tuple(answers)

    with DaemonProcess(tmp_path) as daemon:
        configure("one.example")
        daemon.start()
        before = statuses()
        token.write_text("another-token\n")
        configure("two.example")
        daemon.reload()
        after = statuses()
        configure("one.example", tmp_path / "nowhere")
        daemon.reload()
        refused = statuses()

    assert before == (200, 421, 401, 421)
    assert after == (421, 401, 421, 200)
    assert refused == after
    assert "operator-token-file" in str(daemon.lines("reload_refused")[0]["problems"])
    assert daemon.lines("restart_needed") == []
    assert "another-token" not in daemon.text()


def complaints_of(page: Any) -> list[str]:
    return [each["message"] for each in page.get_log("browser")]


@pytest.mark.browser
def test_a_pause_from_the_page_of_a_started_daemon_stops_its_next_rescale(
    tmp_path: Path, flink: FakeFlink, token: Path
) -> None:
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)")
    job = overloaded(flink)
    job.vertices[1].metrics["busyTimeMsPerSecond"] = 700.0  # right as it is, until the pause was given
    proof = base64.b64encode(f"ann:{TOKEN}".encode()).decode()
    with DaemonProcess(tmp_path) as daemon, chromium() as page, working(job):
        # The cluster has the slots for what is wanted.
        options = {
            **OPTIONS,
            "job__autoscaler__metrics__window": "8 s",
            "job__autoscaler__vertex__max-parallelism": "20",
        }
        daemon.configure({"main": flink.url}, **options, **{"autoscaler__http__operator-token-file": str(token)})
        daemon.start()
        page.execute_cdp_cmd("Network.enable", {})
        page.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Authorization": f"Basic {proof}"}})
        page.get(url_of(daemon))
        # In one script: the page keeps itself up to date, and an element of it may be another one a moment later.
        page.get(wait_until("the job", lambda: page.execute_script(LINK_TO_JOB), 300))
        type_into(page, "form[data-order=pause] [name=reason]", "release 7", Keys.ENTER)
        wait_until("the dialog", lambda: page.find_element(By.ID, "confirm").is_displayed(), 300)
        type_into(page, "#confirm [value=yes]", Keys.ENTER)
        wait_until("the answer", lambda: "paused" in text_of(page, "form[data-order=pause] output"), 300)
        job.vertices[1].metrics["busyTimeMsPerSecond"] = 1000.0
        with client_of(daemon) as client:
            decided = {"job": "main/orders"}
            wait_until("a pass with a full window", lambda: _is_held_by_pause(client, decided), 300)
            while_paused = flink.paths("PUT")
            type_into(page, "form[data-order=resume] button", Keys.ENTER)
            wait_until("the dialog", lambda: page.find_element(By.ID, "confirm").is_displayed(), 300)
            type_into(page, "#confirm [value=yes]", Keys.ENTER)
            wait_until("the rescale", lambda: flink.paths("PUT"), 300)
        complaints = complaints_of(page)
        title = text_of(page, "h1")

    assert (while_paused, complaints, title) == ([], [], "main/orders")


def _is_held_by_pause(client: httpx.Client, job: dict[str, str]) -> bool:
    found = client.get("/api/v1/job", params=job).json()
    return "PAUSED" in str([reason["code"] for reason in found["reasons"]])
