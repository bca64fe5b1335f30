"""Pages as pictures, taken by Debian's chromium."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.waiting import wait_until

_ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")

# From the top of a job, or the first one, to the end of its last chart, with a margin.
_JOB = """
const all = [...document.querySelectorAll("section.job")];
const job = all.find(each => each.querySelector("h2").textContent.includes(arguments[0])) ?? all[0];
const top = job.getBoundingClientRect().top + scrollY - 8;
const charts = [...job.querySelectorAll("figure.chart")].map(each => each.getBoundingClientRect().bottom + scrollY);
return {x: 0, y: top, width: document.documentElement.clientWidth, height: Math.max(...charts) - top + 8};
"""

_TIMEOUT = 10.0
"""Seconds for a page to take what is typed."""


@contextmanager
def chromium() -> Iterator[Chrome]:
    """Start a browser without a window.

    Raises:
        HarnessError: Chromium or its driver is not installed.
    """
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        raise HarnessError(f"missing: {' and '.join(missing)}; on Debian: apt-get install -y chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    driver = Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def report_picture(page: Path, picture: Path, *, width: int, job: str = "") -> None:
    """Take what a report says about a job: the figures, and the charts below them.

    Args:
        page: A file that ``flink-autoscaler report`` wrote.
        picture: The PNG file to write.
        width: Pixels that the page is laid out for.
        job: Part of its name; empty takes the first one.
    """
    with chromium() as chrome:
        lay_out(chrome, width)
        chrome.get(page.as_uri())
        picture.write_bytes(_screenshot(chrome, chrome.execute_script(_JOB, job)))


def top_picture(chrome: Chrome, picture: Path, *, width: int, height: int) -> None:
    """Take the top of the page that a browser shows."""
    picture.write_bytes(_screenshot(chrome, {"x": 0, "y": 0, "width": width, "height": height}))


def type_into(chrome: Chrome, selector: str, *keys: str) -> None:
    """Go to a part of a form, and type; again where a page that keeps itself up to date was replaced meanwhile."""

    def has_typed() -> bool:
        try:
            chrome.execute_script("document.querySelector(arguments[0]).focus()", selector)
            chrome.switch_to.active_element.send_keys(*keys)
        except StaleElementReferenceException:
            return False
        return True

    wait_until(f"{selector} takes what is typed", has_typed, _TIMEOUT)


def text_of(chrome: Chrome, selector: str) -> str:
    """Return the text of an element, whether it is seen or not."""
    return str(chrome.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def lay_out(chrome: Chrome, width: int) -> None:
    """Have pages laid out for so many pixels."""
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def _screenshot(chrome: Chrome, part: dict[str, float]) -> bytes:
    """Return a part of the page, wherever it is, as PNG."""
    taken = chrome.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {**part, "scale": 1}}
    )
    return base64.b64decode(taken["data"])
