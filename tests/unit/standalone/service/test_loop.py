"""The loop over real sockets: schedules, independence, overruns, stopping."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.service.loop import ClusterSchedule, Daemon
from testkit.fakes.flink import FakeFlink, Fault
from testkit.scenarios.runner import LogLines, Watching, soon

StartDaemon = Callable[..., Daemon]


@pytest.fixture
def start_daemon(watching: Watching) -> Iterator[StartDaemon]:
    with ExitStack() as running:

        def start(*watches: ClusterSchedule) -> Daemon:
            daemon = Daemon(watches, gauges=watching.gauges)
            daemon.start()
            running.callback(daemon.stop, 10.0)
            return daemon

        yield start


def passes(watching: Watching, cluster: str = "main", result: str = "succeeded") -> float:
    return watching.passes(cluster, result)


def test_what_stays_from_pass_to_pass_is_put_aside_for_the_collector_of_garbage(
    flink: FakeFlink, watching: Watching, start_daemon: StartDaemon
) -> None:
    before, kept = gc.get_freeze_count(), [[number] for number in range(50_000)]

    start_daemon(watching.watch(flink, interval=0.05))

    soon("what was kept is put aside", lambda: gc.get_freeze_count() >= before + len(kept))
    gc.unfreeze()


def test_pass_that_overruns_is_told_once_and_counted(
    flink: FakeFlink, watching: Watching, start_daemon: StartDaemon, lines: LogLines
) -> None:
    flink.delay = 0.4
    start_daemon(watching.watch(flink, interval=0.1))
    soon("overruns", lambda: (watching.sample("pass_overruns_total", cluster="main") or 0) >= 3)

    flink.delay = 0.0
    soon("recovery", lambda: lines.of("pass_overrun_recovered"))

    assert len(lines.of("pass_overran", cluster="main")) == 1
    assert {line.get("logger") for line in lines.all()} == {None}, "the scheduler adds no lines of its own"


def test_stop_waits_for_the_running_pass(flink: FakeFlink, watching: Watching) -> None:
    flink.delay = 0.3
    daemon = Daemon([watching.watch(flink, interval=3600)], gauges=watching.gauges)
    daemon.start()
    soon("the first request", lambda: flink.requests)

    is_idle = daemon.stop(10.0)

    assert is_idle
    assert passes(watching) == 1


def test_stop_gives_up_after_the_grace(flink: FakeFlink, watching: Watching) -> None:
    flink.fault("/jobs/overview", Fault.HANG)
    daemon = Daemon([watching.watch(flink, interval=3600, timeout=300.0)], gauges=watching.gauges)
    daemon.start()
    soon("the first request", lambda: flink.requests)

    is_idle = daemon.stop(0.1)

    assert not is_idle


class BrokenFetcher:
    """A plug-in that breaks its contract."""

    def __init__(self) -> None:
        self.calls = 0

    def fetch(self) -> JobList:
        self.calls += 1
        raise SystemError("out of luck")

    def close(self) -> None:
        pass


def test_broken_plugin_does_not_end_the_schedule(
    flink: FakeFlink, watching: Watching, start_daemon: StartDaemon, lines: LogLines
) -> None:
    fetcher = BrokenFetcher()
    start_daemon(watching.watch(flink, "other", interval=0.05, fetcher=fetcher))

    soon("three attempts", lambda: fetcher.calls >= 3)

    (line,) = lines.of("cluster_failed", cluster="other")
    assert line["error"] == "SystemError: out of luck"
    assert "Traceback" in line["exception"]
