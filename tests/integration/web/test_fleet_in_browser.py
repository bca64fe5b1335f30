"""The page of a started daemon in a real browser: what was saved, teams; bad names, clusters and streams."""

from __future__ import annotations

import base64
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from pictures.browser import chromium, text_of
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.axe import findings
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.browser

TOKEN = "operators-token"
MARKUP = "<img src=x onerror='document.title=1'><script>document.title=1</script>"
NAMES = {
    "markup": MARKUP,
    "from right to left": "תשלומים \u202e\u2066 مدفوعات",
    "65,000 characters": "x" * 65_000,
    "usual": "orders",
}
WIDTHS = (390, 1400, 2560)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A daemon with jobs of such names, a cluster without jobs, and one that is away."""
    folder = tmp_path_factory.mktemp("fleet")
    token: Path = folder / "token"
    token.write_text(f"{TOKEN}\n")
    viewers: Path = folder / "viewers"
    viewers.write_text("viewers-token\n")
    with FakeFlink() as flink, FakeFlink() as empty, socket.socket() as nobody, DaemonProcess(folder) as daemon:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        for name in NAMES.values():
            job = flink.add_job(name, chain(sources=1, vertices=2), start_ms=1, running_at_ms=1)
            job.vertices[1].name = "x" * 65_000 if name == "orders" else name
        options = {
            "autoscaler__http__operator-token-file": str(token),
            "autoscaler__http__viewer-token-file": str(viewers),
            "autoscaler__http__teams__checkout": "main/ord*; pay*",
            "autoscaler__standalone__control-loop__interval": "1 s",
        }
        away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        daemon.configure({"main": flink.url, "empty": empty.url, "away": away}, **options)
        daemon.start()
        yield daemon


@pytest.fixture(scope="module")
def url(daemon: DaemonProcess) -> str:
    return str(daemon.lines("http_listening")[0]["url"])


@pytest.fixture(scope="module")
def keys(url: str) -> list[str]:
    """Return the keys of the jobs, once all of them were looked at and the cluster is known to be away."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, timeout=60, trust_env=False, headers=headers) as client:

        def jobs() -> list[str]:
            found = client.get("/api/v1/jobs").json()["jobs"]
            # The one whose name is too long is not looked at, and fails.
            return [each["job_key"] for each in found if each["phase"] or each["health"] == "failing"]

        wait_until("the jobs", lambda: len(jobs()) == len(NAMES), 60)
        wait_until("that a cluster is away", lambda: "does not answer" in client.get("/").text, 60)
        return jobs()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)")
    with chromium() as browser:
        browser.execute_cdp_cmd("Network.enable", {})
        yield browser


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, url: str, keys: list[str]) -> Open:
    """Open a view in a width, as an operator unless said otherwise."""
    assert keys

    def open_view(path: str, width: int = 1400, token: str = TOKEN, scheme: str = "light") -> Any:
        proof = base64.b64encode(f"ann:{token}".encode()).decode()
        headers = {"headers": {"Authorization": f"Basic {proof}"}}
        metrics: dict[str, Any] = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        media = {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", headers)
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(url + path)
        wait_until("the view", lambda: browser.find_elements(By.TAG_NAME, "h1"), 60)
        return browser

    return open_view


def width_of(page: Chrome) -> int:
    """Return how wide the page is, also beyond what is seen of it."""
    return int(page.execute_script("return document.documentElement.scrollWidth"))


def complaints_of(page: Any) -> list[str]:
    return [each["message"] for each in page.get_log("browser") if "status of 4" not in each["message"]]


def names_of(page: Chrome) -> list[str]:
    """Return the jobs that the fleet shows."""
    script = "return [...document.querySelectorAll('.jobs tbody th a')].map(each => each.textContent)"
    return list(page.execute_script(script))


def test_the_fleet_says_what_was_saved_and_against_what(opened: Open) -> None:
    page = opened("/")

    assert text_of(page, "#saved b") == "0 slot-hours"
    assert "as many slots all the time as each job held at most" in text_of(page, "#saved p")


def test_jobs_are_filtered_by_team_and_the_address_says_so(opened: Open) -> None:
    page = opened("/")
    before = names_of(page)
    page.find_element(By.NAME, "team").send_keys("checkout")
    wait_until("the jobs of the team", lambda: names_of(page) == ["main/orders"], 60)
    query = page.current_url.partition("?")[2]
    again = opened(f"/?{query}")

    assert len(before) == len(NAMES)
    assert query == "team=checkout"
    assert names_of(again) == ["main/orders"]
    assert findings(again) == []


def assert_harmless(page: Any, width: int) -> None:
    assert width_of(page) <= width
    assert page.title != "1"
    assert not page.find_elements(By.CSS_SELECTOR, "main img, header img, main script")
    assert complaints_of(page) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", ["/", "/cluster?name=main"])
def test_lists_of_names_of_any_kind_hold_the_layout_and_run_no_script(opened: Open, path: str, width: int) -> None:
    page = opened(path, width)

    assert "orders" in text_of(page, "#main")
    assert_harmless(page, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_views_of_a_job_of_any_name_hold_the_layout_and_run_no_script(
    opened: Open, keys: list[str], name: str, width: int
) -> None:
    (key,) = (each for each in keys if each.startswith(f"main/{NAMES[name][:8]}"))
    page = opened(f"/job?job={quote(key)}", width)
    wait_until("the graph", lambda: page.find_elements(By.CSS_SELECTOR, "#graph .drawing > *"), 60)
    assert_harmless(page, width)

    for path in ("/pass", "/what-if"):
        assert_harmless(opened(f"{path}?job={quote(key)}", width), width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_cluster_that_is_away_and_one_without_jobs_are_said_to_be_so(opened: Open, width: int, scheme: str) -> None:
    page = opened("/?cluster=empty", width, scheme=scheme)
    fleet, fleet_width, problems = text_of(page, "#main"), width_of(page), findings(page)
    page = opened("/cluster?name=away", width, scheme=scheme)

    assert "Cluster away does not answer" in fleet
    assert "No job fits" in fleet
    assert "It does not answer" in text_of(page, "#main")
    assert (fleet_width, width_of(page)) == (width, width)
    assert (problems, findings(page)) == ([], [])


@pytest.mark.parametrize("width", WIDTHS)
def test_who_may_only_look_is_told_how_orders_are_given_and_has_no_forms_for_them(opened: Open, width: int) -> None:
    page = opened("/job?job=main/orders", width, "viewers-token")

    assert "Orders need the role operator" in text_of(page, "#orders")
    assert not page.find_elements(By.CSS_SELECTOR, "form.order")
    assert width_of(page) <= width
    assert findings(page) == []


def test_without_any_job_the_fleet_says_so(browser: Chrome, tmp_path: Path) -> None:
    with FakeFlink() as flink, DaemonProcess(tmp_path) as lonely:
        lonely.configure({"main": flink.url})
        lonely.start()
        address = str(lonely.lines("http_listening")[0]["url"])
        browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {}})
        texts = []
        for width in WIDTHS:
            metrics: dict[str, Any] = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.get(address)
            texts.append(text_of(browser, "#main"))
            assert width_of(browser) <= width

        assert all("No job yet: the first pass over each cluster shows what runs" in text for text in texts)
        assert findings(browser) == []
        browser.get("about:blank")


def test_a_stream_that_breaks_is_said_with_since_when_what_is_shown_is_old(opened: Open, daemon: DaemonProcess) -> None:
    """The last test: it ends the daemon."""
    page = opened("/")
    state = page.find_element(By.ID, "state")
    wait_until("the stream", lambda: "live" in state.text, 60)
    daemon.kill()

    wait_until("that it is stale", lambda: "stale since" in state.text, 60)
    assert names_of(page)
    assert "operator, not connected: stale since " in state.text
    assert findings(page) == []
