"""The timeline of a started daemon in a real browser: the time of a vertex, what the address says, keys, a month."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pictures.browser import chromium
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By

from testkit.builders.backtests import SOURCE, WORK, a_history, job_rows
from testkit.builders.history import NOON_MS
from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.axe import findings
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.flink.load import keep_counting, repeated
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.browser

DAYS = 30
JOB = "/job?job=main/orders"


def work(job: FakeJob) -> None:
    """Let a job work, its vertices busy for 3 of 5 milliseconds and held up for one."""
    keep_counting(job)
    for vertex in job.vertices:
        passed = vertex.counters.get("accumulated-idle-time", 0)
        assert isinstance(passed, int)
        times = {"idle": passed + 10, "backpressured": passed + 10, "busy": 3 * (passed + 10)}
        vertex.counters = {f"accumulated-{name}-time": spent for name, spent in times.items()}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a daemon that has kept a history of its job for a month."""
    folder, first = tmp_path_factory.mktemp("timeline"), int((time.time() * 1000 - NOON_MS) // 60_000) - DAYS * 1440
    days = (job_rows(minutes=1440, first=first + 1440 * day) for day in range(DAYS))
    history = a_history(folder / "history", *days)
    with FakeFlink() as flink, DaemonProcess(folder) as daemon:
        source, worker = chain(sources=1, vertices=2)
        source.vertex_id, worker.vertex_id, worker.name = SOURCE, WORK, "work"
        worker.inputs = dict.fromkeys([SOURCE], *worker.inputs.values())
        job = flink.add_job("orders", [source, worker], start_ms=1, running_at_ms=1)
        with repeated(lambda: work(job), 0.05):
            # Every pass has the page asked for again: one in a second is enough.
            options = {
                "autoscaler__history__path": str(history),
                "autoscaler__standalone__control-loop__interval": "1 s",
                "job__autoscaler__metrics__window": "4 s",
            }
            daemon.configure({"main": flink.url}, **options)
            daemon.start()
            yield str(daemon.lines("http_listening")[0]["url"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)")
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser: Chrome, url: str) -> Callable[[str, int], Chrome]:
    """Open a view and wait until it has so many charts."""
    wait_until("the job", lambda: "main/orders" in _source(browser, url), 60)

    def open_view(path: str, charts: int = 3) -> Chrome:
        browser.get(url + path)
        await_charts(browser, charts)
        return browser

    return open_view


def _source(page: Chrome, address: str) -> str:
    page.get(address)
    return page.page_source


def charts_of(page: Chrome) -> list[str]:
    """Return what the charts say, for who does not see them."""
    script = "return [...document.querySelectorAll('#timeline canvas')].map(each => each.getAttribute('aria-label'))"
    return list(page.execute_script(script))


def await_charts(page: Chrome, count: int) -> None:
    wait_until("the charts", lambda: len(charts_of(page)) == count, 60)


def asked(page: Chrome) -> dict[str, str]:
    """Return what the address asks for, beside the job."""
    found = {name: values[0] for name, values in parse_qs(urlsplit(page.current_url).query).items()}
    found.pop("job")
    return found


def vertices_of(page: Chrome) -> list[str]:
    script = "return [...document.querySelectorAll('#graph .vertex')].map(each => each.dataset.vertex)"
    return list(wait_until("the graph", lambda: page.execute_script(script), 60))


def press(page: Chrome, *keys: str) -> None:
    page.switch_to.active_element.send_keys(*keys)


def press_in_charts(page: Chrome, key: str, *held: str) -> None:
    """Press a key while the charts have the focus, and others are held."""
    page.execute_script("document.querySelector('#timeline .charts').focus()")
    keys = ActionChains(page)
    for each in held:
        keys.key_down(each)
    keys.send_keys(key)
    for each in held:
        keys.key_up(each)
    keys.perform()


def await_change(page: Chrome, before: dict[str, str]) -> dict[str, str]:
    """Wait until the address asks for something else; return what."""
    wait_until("another address", lambda: asked(page) != before, 60)
    return asked(page)


def test_the_chosen_vertex_has_its_time_as_a_track_and_the_back_button_takes_it_away(
    opened: Callable[..., Chrome],
) -> None:
    page = opened(JOB)
    second = vertices_of(page)[1]
    press(page, "vv")
    await_charts(page, 4)
    wait_until("its time", lambda: "busy 60 %" in charts_of(page)[3], 60)
    told, chosen = charts_of(page)[3], asked(page)
    pressed = page.find_element(By.CSS_SELECTOR, f"#graph [data-vertex='{second}']").get_attribute("aria-pressed")
    problems = findings(page)
    page.back()
    page.back()
    await_charts(page, 3)

    assert "Time of work" in told
    assert all(each in told for each in ("backpressured 20 %", "idle 20 %"))
    assert (chosen, pressed, asked(page), problems) == ({"vertex": second}, "true", {}, [])


def test_a_vertex_is_chosen_in_the_graph_with_the_pointer_and_by_keyboard(opened: Callable[..., Chrome]) -> None:
    page = opened(JOB)
    first, second = vertices_of(page)
    page.find_element(By.CSS_SELECTOR, f"#graph [data-vertex='{first}'] .box").click()
    await_charts(page, 4)
    clicked = asked(page)
    page.execute_script("document.querySelector(arguments[0]).focus()", f"#graph [data-vertex='{second}']")
    press(page, Keys.ENTER)
    wait_until("the other one", lambda: asked(page) != clicked, 60)

    assert (clicked, asked(page)) == ({"vertex": first}, {"vertex": second})


def test_how_busy_a_vertex_was_comes_from_the_history(opened: Callable[..., Chrome]) -> None:
    page = opened(f"{JOB}&range=week&vertex={WORK}", 4)

    assert "busy 75 %" in charts_of(page)[3]
    assert "idle not known" in charts_of(page)[3]


def test_a_part_of_time_is_in_the_address_and_the_back_button_leads_to_the_present(
    opened: Callable[..., Chrome],
) -> None:
    page = opened(f"{JOB}&range=day")
    page.execute_script("window.kept = true")
    over = page.find_element(By.CSS_SELECTOR, "#timeline .u-over")
    page.execute_script("arguments[0].scrollIntoView({ block: 'center' })", over)
    ActionChains(page).move_to_element_with_offset(over, -100, 10).click_and_hold().move_by_offset(
        150, 0
    ).release().perform()
    wait_until("the part", lambda: "from_ms" in asked(page), 60)
    part, address = asked(page), page.current_url
    page.back()
    back = page.find_element(By.CSS_SELECTOR, "[data-zoom=back]")
    wait_until("the present", lambda: not back.is_displayed(), 60)
    kept, following = page.execute_script("return window.kept"), asked(page)
    page.get(address)
    await_charts(page, 3)

    assert (kept, following) == (True, {"range": "day"})
    assert int(part["from_ms"]) < int(part["to_ms"])
    assert page.find_element(By.CSS_SELECTOR, "[data-zoom=back]").is_displayed()
    assert asked(page) == part


def test_an_instant_is_chosen_and_leads_to_its_pass(opened: Callable[..., Chrome]) -> None:
    page = opened(f"{JOB}&range=day")
    over = page.find_element(By.CSS_SELECTOR, "#timeline .u-over")
    page.execute_script("arguments[0].scrollIntoView({ block: 'center' })", over)
    ActionChains(page).move_to_element_with_offset(over, -100, 10).click().perform()
    wait_until("the instant", lambda: "at_ms" in asked(page), 60)
    at_ms = asked(page)["at_ms"]
    page.get(page.current_url)
    await_charts(page, 3)
    link = wait_until("its pass", lambda: page.find_elements(By.CSS_SELECTOR, ".chosen a"), 60)[0]

    assert str(link.get_attribute("href")).endswith(f"/pass?job=main%2Forders&at_ms={at_ms}")


def test_charts_are_moved_by_keys(opened: Callable[..., Chrome]) -> None:
    page = opened(f"{JOB}&range=day")
    seen: list[tuple[int, int]] = []
    for key in ("+", Keys.ARROW_LEFT, "-"):
        before = asked(page)
        press_in_charts(page, key)
        part = await_change(page, before)
        seen.append((int(part["from_ms"]), int(part["to_ms"])))
        await_charts(page, 3)
    (near, end), (earlier, before_end), (wide, later) = seen
    press_in_charts(page, Keys.ARROW_LEFT, Keys.SHIFT)
    wait_until("an instant", lambda: "at_ms" in asked(page), 60)
    press_in_charts(page, Keys.HOME)
    wait_until("the present", lambda: asked(page) == {"range": "day"}, 60)

    assert end - near == pytest.approx(12 * 3_600_000, rel=0.01)
    assert near - earlier == end - before_end == pytest.approx(3 * 3_600_000, rel=0.01)
    assert later - wide == pytest.approx(24 * 3_600_000, rel=0.01)


def test_a_question_mark_lists_the_keys(opened: Callable[..., Chrome]) -> None:
    page = opened(JOB)
    press(page, "?")
    box = page.find_element(By.ID, "keys")
    shown, text, problems = box.is_displayed(), box.text, findings(page)
    press(page, Keys.ESCAPE)

    assert shown
    assert all(key in text for key in ("/", "j k", "g f", "Esc", "← →", "+ -", "Home", "v V"))
    assert problems == []
    assert not box.is_displayed()
    assert urlsplit(page.current_url).path == "/job"


def test_a_month_is_thinned_to_what_a_chart_can_show(opened: Callable[..., Chrome]) -> None:
    page = opened(f"{JOB}&range=day")
    script = """
        const done = arguments[arguments.length - 1];
        const from = Date.now() - 30 * 86400000;
        fetch(`/api/v1/series?job=main/orders&points=400&from_ms=${from}`).then(each => each.json()).then(done);
    """
    series: dict[str, Any] = page.execute_async_script(script)
    page.find_element(By.CSS_SELECTOR, "[data-hours='720']").click()
    wait_until("the month", lambda: asked(page) == {"range": "month"}, 60)
    await_charts(page, 3)

    assert series["source"] == "history"
    assert 350 <= len(series["points"]) <= 400
    assert series["until_ms"] - series["points"][0]["at_ms"] > (DAYS - 1) * 86_400_000
