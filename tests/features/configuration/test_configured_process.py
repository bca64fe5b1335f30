"""What a daemon in a process of its own makes of its configuration."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import pytest

from flink_autoscaler.standalone.settings.schema.options import daemon_option
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner.process import DaemonProcess

INTERVAL = 1.0
SLOW = 0.3
"""Seconds of every answer; a pass over a cluster without jobs takes two of them, one after the other."""


def starts(flink: FakeFlink) -> list[float]:
    """Return when passes began, by the monotonic clock."""
    return [request.at for request in flink.requests if request.path == "/jobs/overview"]


def test_the_interval_is_from_start_to_start_as_its_description_says(daemon: DaemonProcess, flink: FakeFlink) -> None:
    flink.delay = SLOW
    daemon.configure({"main": flink.url}, **{"autoscaler__standalone__control-loop.interval": f"{INTERVAL:g} s"})
    daemon.start()

    daemon.wait_for("eight passes", lambda: len(starts(flink)) >= 8)
    daemon.stop()

    described = daemon_option("autoscaler.standalone.control-loop.interval")
    assert described is not None
    assert described.description.startswith("Time between the starts of two passes")
    assert median(later - earlier for earlier, later in pairwise(starts(flink))) < INTERVAL + SLOW


@pytest.mark.parametrize(
    ("realizer", "place"),
    [
        pytest.param({}, "autoscaler.realizer = 'rescale-api' (default)", id="default"),
        pytest.param({"autoscaler__realizer": "log-only"}, "autoscaler.realizer = 'log-only'", id="log only"),
    ],
)
def test_a_provider_that_no_realizer_uses_is_refused_with_the_fix(
    daemon: DaemonProcess, flink: FakeFlink, realizer: dict[str, str], place: str
) -> None:
    daemon.configure({"main": flink.url}, **realizer, **{"autoscaler__clusters__0__provider.type": "http"})
    daemon.start(wait=False)

    code = daemon.exit_code()

    assert code == 2
    assert "autoscaler.clusters.0.provider.type = 'http'" in daemon.text()
    assert f"a provider needs autoscaler.realizer: auto, but {place}" in daemon.text()
    assert flink.requests == []


def test_a_provider_with_the_realizer_that_uses_it_is_accepted(daemon: DaemonProcess, flink: FakeFlink) -> None:
    provider = {"type": "http", "url": flink.url}
    options = {f"autoscaler__clusters__0__provider.{key}": value for key, value in provider.items()}
    daemon.configure({"main": flink.url}, autoscaler__realizer="auto", **options)
    daemon.start()

    daemon.wait_for("a pass", lambda: daemon.ready_clusters() == {"main"})

    assert daemon.stop() == 0
