"""The decision about a job on the page of a started daemon: why, the equation of what changes, the rest folded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from pictures.browser import chromium, text_of
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.axe import findings
from testkit.fakes.flink import FakeFlink
from testkit.fakes.flink.load import overloaded, working
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.browser

EQUATION = "#why > .story .eq"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a daemon whose job is asked to grow and does not get there."""
    with FakeFlink() as flink, DaemonProcess(tmp_path_factory.mktemp("decision")) as daemon:
        flink.taskmanagers = [{"id": "tm", "slotsNumber": 32, "freeSlots": 24}]
        with working(overloaded(flink)):
            options = {
                "job__autoscaler__metrics__window": "2 s",
                "job__autoscaler__stabilization__interval": "0 s",
                "autoscaler__standalone__control-loop__interval": "1 s",
            }
            daemon.configure({"main": flink.url}, **options)
            daemon.start()
            yield str(daemon.lines("http_listening")[0]["url"])


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Chrome]:
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)")
    with chromium() as page:

        def is_decided() -> bool:
            page.get(f"{url}/job?job=main/orders")
            return "Decided " in text_of(page, "main") and bool(page.find_elements(By.CSS_SELECTOR, EQUATION))

        wait_until("the rescale that is under way", is_decided, 120)
        yield page


def test_a_job_says_why_with_the_equation_of_the_vertex_that_changes_and_folds_the_rest(page: Chrome) -> None:
    """The rescale is under way: the pass that began it is explained, and not the one that waits for it."""
    seen = """
        const all = [...document.querySelectorAll("#rest li, #rest .story")];
        const visible = () => all.map(each => each.checkVisibility());
        const before = visible();
        document.querySelector("#rest").open = true;
        return [before, visible()];
    """
    before, after = page.execute_script(seen)
    why, heads, terms = (text_of(page, each) for each in ("#why .why", "#why > .story h3", EQUATION))

    assert "Decided " in why
    assert "work goes from 2 to " in why
    assert heads.startswith("work: 2 → ")
    assert all(words in terms for words in ("input rate", "to catch up", "for a restart", "needed", "decided"))
    assert before
    assert not any(before)
    assert all(after)
    assert findings(page) == []


def test_what_is_unfolded_stays_so_while_passes_go_on(page: Chrome) -> None:
    page.execute_script("document.querySelector('#rest').open = true; document.querySelector('#why').id = 'old-why'")
    wait_until("a later pass", lambda: page.find_elements(By.ID, "why"), 60)

    assert page.execute_script("return document.querySelector('#rest').open") is True


def test_the_page_of_a_pass_has_the_same_order(page: Chrome) -> None:
    page.find_element(By.CSS_SELECTOR, "#title nav a").click()
    wait_until("the pass", lambda: "/pass" in page.current_url and page.find_elements(By.ID, "rest"), 60)

    assert text_of(page, ".why").startswith(("rescale: ", "no change"))
    assert page.execute_script("return document.querySelector('#rest').open") is False
    assert findings(page) == []
