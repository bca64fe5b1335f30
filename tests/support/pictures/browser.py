"""Pages as pictures, taken by Debian's chromium."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from flink_cluster.errors import HarnessError
from flink_cluster.waiting import wait_until

_ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")

# From the top of the first job to the end of its last chart, with a margin.
_FIRST_JOB = """
const job = document.querySelector("section.job");
const top = job.getBoundingClientRect().top + scrollY - 8;
const charts = [...job.querySelectorAll("figure.chart")].map(each => each.getBoundingClientRect().bottom + scrollY);
return {x: 0, y: top, width: document.documentElement.clientWidth, height: Math.max(...charts) - top + 8};
"""


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


def report_picture(page: Path, picture: Path, *, width: int) -> None:
    """Take what a report says about its first job: the figures, and the charts below them.

    Args:
        page: A file that ``flink-autoscaler report`` wrote.
        picture: The PNG file to write.
        width: Pixels that the page is laid out for.
    """
    with chromium() as chrome:
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        chrome.get(page.as_uri())
        charts = chrome.execute_script("return document.querySelectorAll('figure.chart').length")
        for number in range(charts):
            chrome.execute_script("document.querySelectorAll('figure.chart')[arguments[0]].scrollIntoView()", number)
            wait_until(f"chart {number} is drawn", partial(_is_drawn, chrome, number), 20)
        picture.write_bytes(_screenshot(chrome, chrome.execute_script(_FIRST_JOB)))


def _is_drawn(chrome: Chrome, number: int) -> bool:
    found = chrome.execute_script(
        "return document.querySelectorAll('figure.chart')[arguments[0]].dataset.drawn", number
    )
    return bool(found == "yes")


def _screenshot(chrome: Chrome, part: dict[str, float]) -> bytes:
    """Return a part of the page, wherever it is, as PNG."""
    taken = chrome.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {**part, "scale": 1}}
    )
    return base64.b64decode(taken["data"])
