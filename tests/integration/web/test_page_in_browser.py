"""The page of a daemon in a real browser: every view, on a screen and a phone, light and dark, by keyboard alone."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pictures.browser import chromium, text_of
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By

from flink_autoscaler.standalone.web.authorization import AccessRules
from flink_autoscaler.standalone.web.page.views import ROWS
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.history import NOON_MS
from testkit.builders.web import TOKEN, WebSite
from testkit.clusters.flink.waiting import wait_until
from testkit.contracts.axe import findings
from testkit.fakes.flink import chain

pytestmark = pytest.mark.browser

VIEWS = (
    "/",
    "/job?job=main/orders",
    "/job?job=main/orders&range=day",
    "/job?job=main/orders&range=month",
    "/pass?job=main/orders",
    "/what-if?job=main/orders",
    "/cluster?name=main",
    "/events",
    "/configuration",
    "/about",
    "/job?job=main/nobody",
)
SIZES = ((1400, 900), (390, 844))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    access = AccessRules(operator_token=TOKEN, user_header="x-user", operators=frozenset({"ann"}))
    first = int((time.time() * 1000 - NOON_MS) // 60_000) - 2880
    history = a_history(tmp_path_factory.mktemp("history"), job_rows(minutes=2880, first=first))
    with WebSite({"autoscaler.history.path": str(history)}, access) as web:
        web.add("orders")
        web.add("<b>bold</b> & 'quoted'")
        web.decide("orders")
        web.run(2)
        yield web


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)")
    with chromium() as browser:
        browser.execute_cdp_cmd("Network.enable", {})
        yield browser


def complaints_of(page: Any) -> list[str]:
    """Return what the console complains of since this was asked last; that a page is not there is none."""
    return [each["message"] for each in page.get_log("browser") if "status of 404" not in each["message"]]


@pytest.fixture
def page(browser: Chrome, web: WebSite) -> Iterator[Chrome]:
    """A browser behind a proxy that names the operator ann, which has read all messages so far."""
    headers = {"X-User": "ann"}
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": headers})
    browser.get("about:blank")  # else the page of the test before asks on, maybe a site that is gone
    complaints_of(browser)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture(scope="module", autouse=True)
def _trusting(web: WebSite) -> None:
    """The browser is its own proxy."""
    object.__setattr__(web.access, "proxies", frozenset({"127.0.0.1"}))


def shown(page: Chrome, web: WebSite, path: str, size: tuple[int, int], scheme: str) -> None:
    """Open a view in a size and a colour scheme."""
    media = {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    metrics: dict[str, Any] = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.get(web.url + path)
    wait_until("the view", lambda: page.find_elements(By.TAG_NAME, "h1"), 300)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["screen", "phone"])
@pytest.mark.parametrize("path", VIEWS)
def test_every_view_fits_nothing_is_complained_about_and_nothing_keeps_anybody_from_using_it(
    page: Chrome, web: WebSite, path: str, size: tuple[int, int], scheme: str
) -> None:
    shown(page, web, path, size, scheme)
    width = page.execute_script("return document.documentElement.scrollWidth")

    assert complaints_of(page) == []
    assert width <= size[0]
    assert not page.find_elements(By.CSS_SELECTOR, "main b b, h1 b")
    assert findings(page) == []


def test_axe_finds_what_is_there_to_find(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/about", SIZES[0], "light")
    page.execute_script("document.getElementById('main').append(document.createElement('input'))")

    assert "critical label: " in findings(page)[0]


def test_the_fleet_is_kept_up_to_date_without_loading_again(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/", SIZES[0], "light")
    page.execute_script("window.kept = true")
    wait_until("the stream", lambda: "live" in page.find_element(By.ID, "state").text, 300)

    web.add("payments")
    web.run()

    wait_until("the new job", lambda: "main/payments" in page.find_element(By.ID, "main").text, 300)
    assert page.execute_script("return window.kept") is True


def keys_of(page: Chrome) -> list[str]:
    """Return the keys of the jobs that the fleet shows."""
    script = "return [...document.querySelectorAll('.jobs tbody th a')].map(each => each.textContent)"
    return list(page.execute_script(script))


def test_the_fleet_is_filtered_as_one_types_and_the_address_says_by_what(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/", SIZES[0], "light")
    page.find_element(By.TAG_NAME, "body").send_keys("/")
    page.switch_to.active_element.send_keys("orders")
    wait_until("the job alone", lambda: keys_of(page) == ["main/orders"], 300)
    address = page.current_url
    page.get(address)
    again, field = keys_of(page), page.find_element(By.NAME, "search")
    field.send_keys(Keys.ESCAPE)

    wait_until("all jobs", lambda: len(keys_of(page)) > 1, 300)
    assert (address.partition("?")[2], again) == ("search=orders", ["main/orders"])
    assert "?" not in page.current_url
    assert page.switch_to.active_element.tag_name == "body"


def test_keys_lead_along_the_rows_and_to_pages(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/", SIZES[0], "light")
    places = []
    for key in "jjkj":
        page.switch_to.active_element.send_keys(key)
        places.append(page.switch_to.active_element.text)
    second = page.switch_to.active_element.get_attribute("href")
    page.switch_to.active_element.send_keys(Keys.ENTER)
    wait_until("the job", lambda: page.current_url == second, 300)
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    wait_until("the fleet", lambda: page.current_url == f"{web.url}/", 300)
    page.find_element(By.TAG_NAME, "body").send_keys("ge")
    wait_until("the events", lambda: page.current_url.endswith("/events"), 300)

    keys = sorted({*places})
    assert places == [places[0], places[1], places[0], places[1]]
    assert len(keys) == 2


def test_jobs_beyond_the_first_ones_come_when_their_end_is_near(page: Chrome) -> None:
    with WebSite(access=AccessRules()) as many:
        for number in range(ROWS + 15):
            many.add(f"job-{number:03}")
        many.run()
        shown(page, many, "/", SIZES[0], "light")
        page.execute_script("scrollTo(0, document.body.scrollHeight)")
        wait_until("all rows", lambda: len(keys_of(page)) == ROWS + 15, 300)
        wait_until("the stream", lambda: "live" in page.find_element(By.ID, "state").text, 300)
        many.add("one-more")
        many.run()

        wait_until("one more row", lambda: len(set(keys_of(page))) == ROWS + 16, 300)


def canvases(page: Chrome) -> int:
    """Return how many charts the timeline has."""
    return len(page.find_elements(By.CSS_SELECTOR, "#timeline figure canvas"))


def test_the_timeline_is_read_at_one_instant_zoomed_and_led_back_to_the_present(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/job?job=main/orders&range=day", SIZES[0], "light")
    wait_until("the charts", lambda: canvases(page) == 3, 300)
    over = page.find_element(By.CSS_SELECTOR, "#timeline .u-over")
    page.execute_script("arguments[0].scrollIntoView({ block: 'center' })", over)
    ActionChains(page).move_to_element_with_offset(over, 100, 10).perform()
    instants = (
        "return [...document.querySelectorAll('.u-legend tr:first-child .u-value')].map(each => each.textContent)"
    )
    wait_until("values of all charts", lambda: "–" not in page.execute_script(instants), 300)
    read = page.execute_script(instants)
    page.execute_script("window.first = document.querySelector('#timeline figure')")
    ActionChains(page).move_to_element_with_offset(over, -100, 10).click_and_hold().move_by_offset(
        200, 0
    ).release().perform()
    back = page.find_element(By.CSS_SELECTOR, "[data-zoom=back]")
    zoomed = "return !window.first.isConnected && document.querySelectorAll('#timeline canvas').length === 3"
    wait_until("the part", lambda: page.execute_script(zoomed), 300)
    was_zoomed = back.is_displayed()
    back.click()

    wait_until("the present", lambda: not back.is_displayed() and canvases(page) == 3, 300)
    assert len(read) == 3
    assert len(set(read)) == 1
    assert was_zoomed
    assert complaints_of(page) == []


def test_another_range_is_shown_without_loading_again_and_the_address_says_so(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/job?job=main/orders", SIZES[0], "dark")
    wait_until("the charts", lambda: canvases(page) == 3, 300)
    page.execute_script("window.kept = true")
    page.find_element(By.CSS_SELECTOR, "[data-hours='720']").click()

    wait_until("the charts", lambda: canvases(page) == 3, 300)
    assert page.current_url.endswith("range=month")
    assert page.execute_script("return window.kept") is True


def test_a_time_without_a_history_says_what_to_configure(page: Chrome) -> None:
    with WebSite(access=AccessRules()) as bare:
        bare.add("orders")
        bare.run(3)
        shown(page, bare, "/job?job=main/orders&range=week", SIZES[1], "dark")
        output = page.find_element(By.CSS_SELECTOR, "#timeline > output")

        wait_until("what is missing", lambda: "autoscaler.history.enabled: true" in output.text, 300)
        assert canvases(page) == 0
        assert findings(page) == []
        page.get("about:blank")
    complaints_of(page)  # that there is no history is an answer of 409


def test_a_rescale_is_a_mark_that_leads_to_its_explanation(page: Chrome) -> None:
    with WebSite({"job.autoscaler.utilization.max": "0.8"}, AccessRules()) as scaled:
        scaled.add("orders").vertices[1].metrics["busyTimeMsPerSecond"] = 1000.0
        scaled.decide("orders")
        scaled.run(2)
        shown(page, scaled, "/job?job=main/orders", SIZES[0], "light")
        marks = wait_until("the mark", lambda: page.find_elements(By.CSS_SELECTOR, ".marks a"), 300)
        title, address = marks[0].get_attribute("title"), marks[0].get_attribute("href")

        wait_until("its place", lambda: marks[0].location["x"] > SIZES[0][0] / 2, 300)
        assert "work" in str(title)
        assert "/pass?job=main%2Forders&at_ms=" in str(address)
        assert findings(page) == []
        page.get("about:blank")


def test_a_vertex_of_the_graph_opens_its_sizing_also_by_keyboard(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/job?job=main/orders", SIZES[0], "light")
    vertices = ".graph .vertex"
    wait_until("the graph", lambda: len(page.find_elements(By.CSS_SELECTOR, vertices)) == 2, 300)
    places = page.execute_script(
        f"return [...document.querySelectorAll('{vertices} .box')].map(each => each.x.baseVal.value)"
    )
    page.execute_script(f"document.querySelectorAll('{vertices}')[1].focus()")
    page.switch_to.active_element.send_keys(Keys.ENTER)
    wait_until("its sizing", lambda: page.find_elements(By.CSS_SELECTOR, ".detail .eq"), 300)
    terms = page.find_element(By.CSS_SELECTOR, ".detail .eq").text
    link = page.find_element(By.CSS_SELECTOR, ".detail a").get_attribute("href")

    assert places[0] < places[1]
    assert all(words in terms for words in ("input rate", "to catch up", "for a restart", "needed", "decided"))
    assert len(page.find_elements(By.CSS_SELECTOR, ".detail .termbars tr")) == 5
    assert str(link).startswith(f"{web.flink.url}/#/job/running/")
    assert findings(page) == []


@pytest.mark.parametrize("count", [3, 60, 500])
def test_a_graph_of_many_vertices_with_names_of_any_kind_is_drawn_in_its_box(page: Chrome, count: int) -> None:
    with WebSite(access=AccessRules()) as wide:
        wide.flink.add_job("wide", chain(sources=1, vertices=count), start_ms=1, running_at_ms=1)
        job = next(iter(wide.flink.jobs.values()))
        job.vertices[0].name = "<img src=x onerror='document.title=1'>" + "\u202e" + "x" * 3000
        wide.fleet.record_pass(wide.passes.run())
        shown(page, wide, "/job?job=main/wide", SIZES[1], "dark")
        drawn = "#graph .vertex"
        wait_until("the graph", lambda: len(page.find_elements(By.CSS_SELECTOR, drawn)) == count, 300)
        width = page.execute_script("return document.documentElement.scrollWidth")

        assert width <= SIZES[1][0]
        assert not page.find_elements(By.CSS_SELECTOR, "#graph img")
        assert page.title != "1"
        assert complaints_of(page) == []
        page.get("about:blank")


def form_of(page: Chrome, order: str) -> Any:
    return page.find_element(By.CSS_SELECTOR, f"form[data-order={order}]")


def told(page: Chrome, order: str) -> str:
    """Return what the form of an order says now; the view is replaced again and again."""
    script = "return document.querySelector(`form[data-order=${arguments[0]}] output`)?.textContent || ''"
    return str(page.execute_script(script, order))


def give(page: Chrome, order: str) -> None:
    """Give an order by its form, and confirm what it says that it will do."""
    form_of(page, order).find_element(By.TAG_NAME, "button").click()
    box = page.find_element(By.ID, "confirm")
    wait_until("the dialog", box.is_displayed, 300)
    box.find_element(By.CSS_SELECTOR, "[value=yes]").click()


def orders_in_force(page: Chrome) -> str:
    """Return the text of the table of orders."""
    script = (
        "return [...document.querySelectorAll('h2')].find(each => each.textContent === 'Orders')"
        ".nextElementSibling.textContent"
    )
    return str(page.execute_script(script))


def test_an_order_is_shown_at_once_and_not_only_after_the_next_pass(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/job?job=main/orders", SIZES[0], "light")
    form_of(page, "pause").find_element(By.NAME, "reason").send_keys("release 7")
    give(page, "pause")

    wait_until("the answer", lambda: "paused" in told(page, "pause"), 300)
    wait_until("the order in its table", lambda: "release 7" in orders_in_force(page), 300)
    (order,) = web.site.order_book.orders("main").values()
    assert order.pause is not None
    assert (order.pause.signed.who, order.pause.signed.reason) == ("ann", "release 7")

    give(page, "resume")
    wait_until("its end", lambda: "None in force" in orders_in_force(page), 300)

    web.run()
    shown(page, web, "/job?job=main/orders", SIZES[0], "light")
    symbols = "return [...document.querySelectorAll('.marks a')].map(each => each.textContent)"
    wait_until("marks of both commands", lambda: page.execute_script(symbols).count("⚑") >= 2, 300)


def test_what_was_learned_is_forgotten_only_by_who_confirms_it(page: Chrome, web: WebSite) -> None:
    web.run()
    shown(page, web, "/job?job=main/orders", SIZES[0], "light")
    form = form_of(page, "reset")
    form.find_element(By.NAME, "reason").send_keys("another version")
    form.find_element(By.TAG_NAME, "button").click()

    assert page.execute_script("return arguments[0].checkValidity()", form) is False
    assert told(page, "reset") == ""
    assert all(each.reset is None for each in web.site.order_book.orders("main").values())

    form.find_element(By.NAME, "sure").click()
    give(page, "reset")
    wait_until("the answer", lambda: told(page, "reset") not in ("", "…"), 300)
    (order,) = web.site.order_book.orders("main").values()
    assert order.reset is not None
    assert order.reset.reason == "another version"


def faded(page: Chrome, selector: str) -> list[bool]:
    """Tell of all elements whether they are drawn paler than the page's own text."""
    script = (
        "const own = getComputedStyle(document.body).color;"
        "return [...document.querySelectorAll(arguments[0])].map(each => getComputedStyle(each).color !== own)"
    )
    return list(page.execute_script(script, selector))


def test_what_is_known_of_a_cluster_that_is_away_is_greyed(page: Chrome, web: WebSite) -> None:
    rows = "table.jobs tbody tr td:nth-child(4)"
    shown(page, web, "/", SIZES[0], "light")
    assert not any(faded(page, rows))

    web.flink.pause()
    try:
        web.run()
        shown(page, web, "/", SIZES[0], "light")
        assert faded(page, rows)
        assert all(faded(page, rows))
        assert "as of" in text_of(page, "table.jobs")

        shown(page, web, "/job?job=main/orders", SIZES[0], "light")
        assert faded(page, "table.old td.number")
        assert all(faded(page, "main dl.facts dd, table.old td.number"))
        shown(page, web, "/cluster?name=main", SIZES[0], "light")
        assert all(faded(page, "main dl.facts dd:nth-of-type(2)"))
    finally:
        web.flink.resume()
        web.run()


@pytest.mark.parametrize(("hours", "text"), [(3, r"(\d+) s ahead of"), (-48, r"(\d+) s behind"), (0, "")])
def test_a_clock_that_differs_from_that_of_the_daemon_is_told(
    page: Chrome, web: WebSite, hours: int, text: str
) -> None:
    right_ms = web.now_ms - time.time_ns() // 1_000_000
    shift = f"{{ const now = Date.now; Date.now = () => now() + {hours * 3_600_000 + right_ms}; }}"
    added = page.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": shift})
    try:
        shown(page, web, "/job?job=main/orders", SIZES[0], "light")
    finally:
        page.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    state = page.find_element(By.CSS_SELECTOR, "dl.facts time")

    told = page.find_element(By.ID, "clock").text
    seconds = [int(each) for each in re.findall(text, told)] if text else []
    assert seconds == pytest.approx([abs(hours) * 3600.0] if hours else [], abs=30)
    assert page.find_element(By.ID, "clock").is_displayed() is bool(text)
    assert re.fullmatch(r"\d+ s ago|in \d+ s", state.text)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w", str(state.get_attribute("title")))


def test_a_view_that_nobody_sees_is_not_asked_for_again(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/", SIZES[0], "light")
    wait_until("the stream", lambda: "live" in page.find_element(By.ID, "state").text, 300)
    page.execute_script("""
        window.asked = 0;
        const fetching = window.fetch;
        window.fetch = (...given) => { window.asked += 1; return fetching(...given); };
        window.isHidden = true;
        Object.defineProperty(document, "hidden", { get: () => window.isHidden });
    """)

    web.add("refunds")
    web.run(3)
    stream = "return fetch('/api/v1/about').then(answer => answer.ok)"  # what came before it over the stream is handled
    assert page.execute_script(stream) is True
    while_hidden = page.execute_script("return window.asked") - 1
    page.execute_script("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")

    wait_until("the new job", lambda: "main/refunds" in page.find_element(By.ID, "main").text, 300)
    assert while_hidden == 0


def test_a_what_if_shows_what_would_be_and_the_lines_to_copy(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/what-if?job=main/orders", SIZES[0], "light")
    field = page.find_element(By.NAME, "options")
    field.clear()
    field.send_keys("utilization.target: 0.1")
    page.find_element(By.CSS_SELECTOR, "#what-if button").click()

    answer = wait_until("the answer", lambda: page.find_elements(By.CSS_SELECTOR, "#answer table"), 300)

    assert "work" in answer[0].text
    assert "job.autoscaler.utilization.target: 0.1" in page.find_element(By.CSS_SELECTOR, "#answer pre").text


def test_sliders_ask_in_place_and_give_the_line_to_copy(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/job?job=main/orders", SIZES[1], "dark")
    page.find_element(By.CSS_SELECTOR, "#ask summary").click()
    slider = page.find_element(By.CSS_SELECTOR, "#ask [data-option='utilization.target']")
    slider.send_keys(Keys.ARROW_LEFT * 3)
    lines = "return document.querySelector('#answer pre')?.textContent || ''"
    wait_until("the line", lambda: page.execute_script(lines) == "job.autoscaler.utilization.target: 0.55", 300)

    assert page.find_element(By.CSS_SELECTOR, "#answer table").is_displayed()
    assert findings(page) == []


def test_the_commands_of_a_backtest_are_shown_with_the_lines_as_words_of_the_shell(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/what-if?job=main/orders", SIZES[0], "light")
    field = page.find_element(By.NAME, "options")
    field.clear()
    field.send_keys("utilization.target: 0.2\njob.autoscaler.metrics.window: 5 min; touch 'x'")
    page.find_element(By.CSS_SELECTOR, "#backtest button[type=submit]").click()

    text = wait_until("the commands", lambda: page.find_element(By.ID, "commands").text, 300)

    present, changed = text.replace("\\\n", " ").split("\n", 1)
    common = ["flink-autoscaler", "backtest", "--config", "autoscaler.yaml", "--since", "3 d", "--jobs", "main/orders"]
    lines = ["job.autoscaler.utilization.target=0.2", "job.autoscaler.metrics.window=5 min; touch 'x'"]
    assert shlex.split(present) == common
    assert shlex.split(changed) == [*common, *(word for line in lines for word in ("--set", line))]
    assert complaints_of(page) == []


def test_the_colour_scheme_can_be_switched_and_stays_so(page: Chrome, web: WebSite) -> None:
    dark = "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    shown(page, web, "/", SIZES[0], "light")
    light = page.execute_script(dark)
    page.find_element(By.ID, "theme").click()
    switched = page.execute_script(dark)
    shown(page, web, "/about", SIZES[0], "light")
    try:
        assert switched != light
        assert page.execute_script(dark) == switched
        assert findings(page) == []
    finally:
        page.find_element(By.ID, "theme").click()
    assert page.execute_script(dark) == light
    assert page.execute_script("return localStorage.length") == 0


def test_what_is_printed_is_light_and_has_no_forms(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/job?job=main/orders", SIZES[0], "dark")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    shown_forms = [each for each in page.find_elements(By.CSS_SELECTOR, "form, header.top") if each.is_displayed()]

    assert shown_forms == []
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_all_of_it_can_be_reached_by_keyboard(page: Chrome, web: WebSite) -> None:
    shown(page, web, "/", SIZES[0], "light")
    reached = []
    for _ in range(40):
        page.switch_to.active_element.send_keys(Keys.TAB)
        element = page.switch_to.active_element
        reached.append(element.get_attribute("href") or element.get_attribute("name") or element.tag_name)

    texts = " ".join(map(str, reached))
    assert "#main" in str(reached[0])
    assert all(wanted in texts for wanted in ("/events", "search", "health", "sort", "job=main%2Forders"))
