"""``python -m pictures.page``: the views of the page, in ``docs/guide/``, after two hours on a fake cluster."""

from __future__ import annotations

import logging
import math
import sys
from pathlib import Path
from typing import Final

import structlog
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from flink_autoscaler.core.model.orders import AuditStamp, PauseScope
from flink_autoscaler.core.rescale import operator_commands
from pictures.browser import chromium, lay_out, top_picture
from testkit.builders.web import WebSite
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeJob, chain
from testkit.fakes.flink.driving import drive

PICTURES: Final = Path(__file__).parents[2] / "docs" / "guide"
WIDTH: Final = 1400
MAX_BYTES: Final = 150_000
_SLOTS: Final = 40
_MINUTES: Final = 126
_NAMES: Final = ("Source: events", "decode", "enrich", "Sink: lake")
_OPTIONS: Final = {
    "autoscaler.standalone.control-loop.interval": "1 min",
    "job.autoscaler.metrics.window": "10 min",
    "job.autoscaler.scale-down.interval": "20 min",
    "job.autoscaler.vertex.max-parallelism": "12",
    "autoscaler.log.level": "error",
}
_LOADS: Final = {"orders": (190.0, 0.55), "payments": (130.0, 0.3), "clicks": (240.0, 0.4), "fraud": (45.0, 0.2)}
"""Records/s on average and by which share they swing."""

_VIEWS: Final = {
    "page-fleet": ("/", 620),
    "page-job": ("/job?job=main/orders", 1050),
    "page-pass": ("/pass?job=main/orders", 700),
    "page-cluster": ("/cluster?name=main", 900),
}


class Day(WebSite):
    """A cluster on which two hours go by in some seconds."""

    def __init__(self) -> None:
        super().__init__(_OPTIONS, step_ms=60_000)
        self._begun_ms = self.now_ms = self.now_ms - 60_000 * _MINUTES

    def fill(self) -> None:
        """Start the jobs and let the time go by."""
        for name in _LOADS:
            job = self.flink.add_job(
                name, chain(sources=1, vertices=4, parallelism=2), start_ms=1, running_at_ms=1, obeys=True
            )
            for vertex, text in zip(job.vertices, _NAMES, strict=True):
                vertex.name = text
                vertex.waited_ms = 0.0
        for _ in range(_MINUTES):
            self.run()
        recorder = self.wiring.storage.recorder
        assert recorder is not None
        assert recorder.flush(30.0)

    def pause(self, job_key: str) -> None:
        """Pause a job, as a person does."""
        signed = AuditStamp("ann", "release 7", self.now_ms)
        self.site.order_book.change(
            job_key,
            lambda orders, _: operator_commands.pause_order(orders, signed, direction=PauseScope.BOTH, lasts_ms=None),
        )

    def _work(self, job: FakeJob) -> None:
        if job.running_at_ms > self.now_ms:  # it was rescaled, at an instant of the real clock
            job.running_at_ms = self.now_ms - 30_000
        mean, swing = _LOADS[job.name]
        minutes = (self.now_ms - self._begun_ms) / 60_000
        drive(job, mean * (1 + swing * math.sin(minutes / 18 + len(job.name))), 60.0)
        for vertex in job.vertices:
            busy = float(vertex.metrics["busyTimeMsPerSecond"])  # type: ignore[arg-type]
            vertex.busy_ms = float(vertex.busy_ms or 0.0) + 60 * busy * vertex.parallelism
            vertex.waited_ms = (vertex.waited_ms or 0.0) + 60 * (1000 - busy) * vertex.parallelism
        used = sum(max(vertex.parallelism for vertex in each.vertices) for each in self.flink.jobs.values())
        self.flink.taskmanagers = [
            {"id": f"tm-{number}", "slotsNumber": 4, "freeSlots": max(0, min(4, _SLOTS - used - 4 * number))}
            for number in range(_SLOTS // 4)
        ]


def take(day: Day, chrome: Chrome) -> None:
    """Take a picture of every view.

    Raises:
        HarnessError: One of them is larger than it may be.
    """
    lay_out(chrome, WIDTH)
    chrome.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    for name, (path, height) in _VIEWS.items():
        chrome.get(day.url + path)
        wait_until("the view", lambda: chrome.find_elements(By.TAG_NAME, "h1"), 10.0)
        _save_screenshot(chrome, name, height)
    chrome.get(f"{day.url}/what-if?job=main/orders")
    field = chrome.find_element(By.NAME, "options")
    field.clear()
    field.send_keys("utilization.target: 0.5")
    chrome.find_element(By.CSS_SELECTOR, "#what-if button").click()
    wait_until("the answer", lambda: chrome.find_elements(By.CSS_SELECTOR, "#answer table"), 10.0)
    _save_screenshot(chrome, "page-what-if", 760)


def _save_screenshot(chrome: Chrome, name: str, height: int) -> None:
    picture = PICTURES / f"{name}.png"
    top_picture(chrome, picture, width=WIDTH, height=height)
    size = picture.stat().st_size
    if size > MAX_BYTES:
        raise HarnessError(f"{picture} has {size} bytes, and may have {MAX_BYTES}")
    print(f"pictures: {picture} has {size / 1000:.0f} kB")


def main() -> int:
    """Make all pictures; return the exit status."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        with Day() as day, chromium() as chrome:
            day.fill()
            day.pause("main/fraud")
            day.run()
            take(day, chrome)
    except HarnessError as error:
        print(f"pictures: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
