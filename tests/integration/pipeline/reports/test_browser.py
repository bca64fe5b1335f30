"""The pages in a real browser: no errors, charts with data, readable on a phone and on a screen, light and dark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from report_setup.values import a_comparison, a_report
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from flink_autoscaler.pipeline.reports.backtest import backtest_page
from flink_autoscaler.pipeline.reports.fleet import fleet_page
from flink_cluster.waiting import wait_until

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
# The same of the texts that are painted: labels of axes and legends.
CHART_CONTRAST = (
    CONTRAST.split("let least", maxsplit=1)[0]
    + """
const hex = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16));
const found = [];
for (const doc of Bokeh.documents) {
  const back = hex([...doc.roots()][0].background_fill_color);
  for (const model of doc.all_models) {
    for (const name of ["major_label_text_color", "label_text_color"]) {
      const color = model.attributes?.[name] ?? model[name];
      const text = color?.value ?? color;
      if (typeof text === "string" && text[0] === "#") found.push(ratio(hex(text), back));
    }
  }
}
return found;
"""
)
# Whether every chart has axes, and tells values where a mouse is.
FURNISHED = """
return Bokeh.documents.map(doc => {
  const types = new Set([...doc.all_models].map(model => model.type));
  return ["DatetimeAxis", "LinearAxis", "HoverTool"].every(type => types.has(type));
});
"""
# How many values the lines of every chart have.
POINTS = """
return Bokeh.documents.map(doc => Math.max(...[...doc.all_models]
  .filter(model => model.type === "ColumnDataSource")
  .map(source => [...(source.get_column("y0") ?? [])].filter(Number.isFinite).length)));
"""
# How many colors are in the canvas of every chart that has the most.
INK = """
const colors = (canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const found = new Set();
  for (let at = 0; at < pixels.length; at += 4) found.add(pixels.slice(at, at + 3).join());
  return found.size;
};
const canvases = root => [...root.querySelectorAll("*")].flatMap(element =>
  element.tagName === "CANVAS" ? [element] : element.shadowRoot ? canvases(element.shadowRoot) : []);
return [...document.querySelectorAll(".plot")].map(plot => Math.max(...canvases(plot).map(colors)));
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
    """Load the page, scroll through it, and wait until all charts are drawn."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    set_scheme(chrome, scheme)
    problems_of(chrome)
    chrome.get(address)
    chrome.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
    charts = chrome.execute_script("return document.querySelectorAll('figure.chart').length")
    for number in range(charts):
        chrome.execute_script("document.querySelectorAll('figure.chart')[arguments[0]].scrollIntoView()", number)
        wait_until(f"chart {number} is drawn", partial(_is_drawn, chrome, number), 300)


def problems_of(chrome: Any) -> list[str]:
    """Return what the console complains of since this was asked for the last time."""
    return [entry["message"] for entry in chrome.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def _is_drawn(chrome: Chrome, number: int) -> bool:
    found = ask(chrome, f"return document.querySelectorAll('figure.chart')[{number}].dataset.drawn")
    return bool(found == "yes")


def set_scheme(chrome: Chrome, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


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
    ratios = ask(chrome, CHART_CONTRAST)
    assert len(ratios) >= 9
    assert min(ratios) >= LEAST_CONTRAST
    assert min(ask(chrome, POINTS)) > 100
    assert all(ask(chrome, FURNISHED))


def test_charts_follow_when_the_scheme_changes(chrome: Chrome, address: str) -> None:
    look(chrome, address, SCREEN, "light")

    set_scheme(chrome, "dark")

    dark = ask(chrome, "return getComputedStyle(document.documentElement).getPropertyValue('--back').trim()")
    backs = "return Bokeh.documents.map(doc => doc.roots()[0].background_fill_color)"
    wait_until("all charts are dark", lambda: set(map(str, ask(chrome, backs))) == {dark}, 300)


def test_charts_are_painted(chrome: Chrome, address: str) -> None:
    look(chrome, address, SCREEN, "light")

    assert min(ask(chrome, INK)) > 10


def test_texts_of_hovers_are_texts(chrome: Chrome, address: str) -> None:
    look(chrome, address, SCREEN, "light")
    box = ask(
        chrome,
        "const plot = document.querySelector('section.job, details').querySelectorAll('.plot')[1];"
        "plot.scrollIntoView({block: 'center'}); const box = plot.getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]",
    )
    for step in range(3):
        where = {"type": "mouseMoved", "x": box[0] + step, "y": box[1], "button": "none"}
        chrome.execute_cdp_cmd("Input.dispatchMouseEvent", where)

    shown = (
        "const texts = []; const search = root => root.querySelectorAll('*').forEach(each => {"
        "if (each.shadowRoot) { texts.push(each.shadowRoot.textContent); search(each.shadowRoot); } });"
        "search(document); return texts.join(' ')"
    )
    wait_until("a hover shows the name of the vertex or configuration", lambda: "onerror" in ask(chrome, shown), 300)
    assert ask(chrome, "return document.title").startswith(("Fleet", "Backtest"))
    assert problems_of(chrome) == []
