"""The pages in a real browser: no errors, charts with data, readable on a phone and on a screen, light and dark."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from flink_autoscaler.pipeline.reports.pages import backtest_page, fleet_page
from testkit.builders.reports.values import a_comparison, a_report

pytestmark = pytest.mark.browser

PHONE, SCREEN = (390, 844), (1280, 900)
LEAST_CONTRAST = 4.5
"""For texts of usual size: WCAG 2.2, 1.4.3."""

# The least contrast of all visible texts with what is behind them, and where it is.
CONTRAST = """
const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
const behind = element => {
  for (let each = element; each; each = each.parentElement) {
    const color = rgb(getComputedStyle(each).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const ratio = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
let least = [99, ""];
for (const element of document.body.querySelectorAll("*")) {
  const hasText = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  if (!hasText || !element.checkVisibility() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName)) continue;
  const found = ratio(rgb(getComputedStyle(element).color), behind(element));
  if (found < least[0]) least = [found, element.outerHTML.slice(0, 200)];
}
return least;
"""
# How many lines of a length are in every chart.
LINES = """
return [...document.querySelectorAll("figure.chart svg")].map(chart =>
  [...chart.querySelectorAll("path:not(.mark, .grid, .band)")].filter(path => path.getTotalLength() > 100).length);
"""
# The element in the middle of the first chart, and what it tells to a mouse.
COLUMN = """
const chart = document.querySelector("figure.chart svg");
chart.scrollIntoView({block: "center"});
const box = chart.getBoundingClientRect();
const found = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
return [found.getAttribute("class"), found.querySelector("title").textContent];
"""


def browser_problem() -> str | None:
    """Return why pages cannot be tried out here."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)" if missing else None


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    if problem := browser_problem():
        pytest.skip(problem)
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module", params=["fleet", "backtest"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a page on this disk."""
    file: Path = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(fleet_page(a_report()) if request.param == "fleet" else backtest_page(a_comparison()))
    return file.as_uri()


def look(chrome: Chrome, address: str, size: tuple[int, int], scheme: str) -> None:
    """Load the page with all its details."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    problems_of(chrome)
    chrome.get(address)
    chrome.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")


def problems_of(chrome: Any) -> list[str]:
    """Return what the console complains of since this was asked for the last time."""
    return [entry["message"] for entry in chrome.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def ask(chrome: Chrome, script: str) -> Any:
    return chrome.execute_script(script)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [pytest.param(PHONE, id="phone"), pytest.param(SCREEN, id="screen")])
def test_the_page_is_readable(chrome: Chrome, address: str, size: tuple[int, int], scheme: str) -> None:
    look(chrome, address, size, scheme)

    assert problems_of(chrome) == []
    assert ask(chrome, "return document.title").startswith(("Fleet", "Backtest"))
    assert ask(chrome, "return document.documentElement.scrollWidth") <= size[0]
    least, where = ask(chrome, CONTRAST)
    assert least >= LEAST_CONTRAST, where
    assert min(ask(chrome, LINES)) >= 1


def test_charts_tell_their_values_to_a_mouse(chrome: Chrome, address: str) -> None:
    look(chrome, address, SCREEN, "light")

    kind, text = ask(chrome, COLUMN)
    assert kind == "column"
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC\n.+: ", text)
