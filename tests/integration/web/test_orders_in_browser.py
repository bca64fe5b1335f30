"""Orders on the page of a started daemon: what they will do is said in figures before, and they are undone after."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pictures.browser import chromium, text_of, type_into
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.axe import findings
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.browser

TOKEN = "operators-token"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("orders")
    token: Path = folder / "token"
    token.write_text(f"{TOKEN}\n")
    with FakeFlink() as flink, DaemonProcess(folder) as daemon:
        flink.taskmanagers = [{"id": "tm", "slotsNumber": 32, "freeSlots": 24}]
        job = flink.add_job("orders", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1)
        job.vertices[1].name = "work"
        options = {
            "autoscaler__http__operator-token-file": str(token),
            "autoscaler__standalone__control-loop__interval": "1 s",
        }
        daemon.configure({"main": flink.url}, **options)
        daemon.start()
        yield str(daemon.lines("http_listening")[0]["url"])


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, timeout=60, trust_env=False, headers=headers) as client:
        wait_until("the job", lambda: "work" in client.get("/api/v1/job?job=main/orders").text, 60)
        yield client


@pytest.fixture
def page(url: str, client: httpx.Client) -> Iterator[Chrome]:
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)")
    proof = base64.b64encode(f"ann:{TOKEN}".encode()).decode()
    with chromium() as page:
        page.execute_cdp_cmd("Network.enable", {})
        page.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Authorization": f"Basic {proof}"}})
        page.get(f"{url}/job?job=main/orders")
        yield page


def told(page: Chrome) -> str:
    """Return what the dialog says, once it is open."""
    box = page.find_element(By.ID, "confirm")
    wait_until("the dialog", box.is_displayed, 60)
    return str(box.text)


def ordered(client: httpx.Client) -> list[str]:
    return [each["order"] for each in client.get("/api/v1/commands?job=main/orders").json()["commands"]]


def test_a_pin_says_how_many_slots_the_job_has_then_and_is_given_only_when_confirmed(
    page: Chrome, client: httpx.Client
) -> None:
    page.execute_script("document.querySelector('form[data-order=pin] [name=vertex]').value = 'work'")
    type_into(page, "form[data-order=pin] [name=reason]", "release 7")
    type_into(page, "form[data-order=pin] [name=parallelism]", "4", Keys.ENTER)
    text, problems = told(page), findings(page)
    type_into(page, "#confirm [value=no]", Keys.ENTER)
    wait_until("its end", lambda: not page.find_element(By.ID, "confirm").is_displayed(), 60)

    assert "1 → 4" in text
    assert "by ann, until unpinned (release 7)" in text
    assert problems == []
    assert ordered(client) == []


def test_a_pause_says_until_when_it_holds_and_is_undone_where_it_is_listed(page: Chrome, client: httpx.Client) -> None:
    type_into(page, "form[data-order=pause] [name=reason]", "release 7")
    type_into(page, "form[data-order=pause] [name=minutes]", "30", Keys.ENTER)
    text = told(page)
    type_into(page, "#confirm [value=yes]", Keys.ENTER)
    wait_until("the order", lambda: ordered(client) == ["pause (both)"], 60)
    wait_until("it in its table", lambda: "release 7" in text_of(page, "#orders tbody"), 60)
    row = text_of(page, "#orders tbody")
    type_into(page, "#orders tbody form[data-order=resume] button", Keys.ENTER)
    after = told(page)
    type_into(page, "#confirm [value=yes]", Keys.ENTER)

    wait_until("its end", lambda: ordered(client) == [], 60)
    assert "1, as now" in text
    assert "pause (both), by ann, until 20" in text
    assert "ann" in row
    assert "Undo the pause" in row
    assert "nothing" in after


def test_what_cannot_be_done_is_refused_in_the_dialog(page: Chrome, client: httpx.Client) -> None:
    type_into(page, "form[data-order=rollback] [name=reason]", "release 7", Keys.ENTER)
    text = told(page)
    button = page.find_element(By.CSS_SELECTOR, "#confirm [value=yes]").is_displayed()

    assert "No rollback" in text
    assert button is False
    assert ordered(client) == []
