"""SIGHUP, as the daemon in a process of its own takes it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner.process import DaemonProcess

SQLITE = {
    "autoscaler__standalone__state-store.type": "JDBC",
    "autoscaler__standalone__event-handler.type": "JDBC",
    "autoscaler__ha__enabled": "true",
    "autoscaler__ha__ttl": "3 s",
    "job__autoscaler__flink__rest-client__timeout": "1 s",
}


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("orders")
        yield fake


@pytest.fixture
def other() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("orders")
        yield fake


def lists(flink: FakeFlink) -> int:
    return flink.paths("GET").count("/jobs/overview")


def test_clusters_come_change_and_go(daemon: DaemonProcess, flink: FakeFlink, other: FakeFlink) -> None:
    daemon.configure({"main": flink.url})
    daemon.start()
    daemon.wait_for("a pass", lambda: daemon.ready_clusters() == {"main"})

    daemon.configure({"main": flink.url, "other": other.url})
    daemon.reload()
    daemon.wait_for("the added one", lambda: daemon.ready_clusters() == {"main", "other"})
    daemon.configure({"main": other.url, "other": other.url})
    daemon.reload()
    before = lists(flink)
    daemon.wait_for("the job at the new place", lambda: len(daemon.lines("job_found")) == 3)
    daemon.configure({"other": other.url})
    daemon.reload()
    daemon.wait_for("the removed one", lambda: 'cluster="main"' not in daemon.page("/metrics"))
    code = daemon.stop()

    assert code == 0
    assert lists(flink) - before <= 1
    assert [(line["added"], line["changed"], line["removed"]) for line in daemon.lines("reloaded")] == [
        (["other"], [], []),
        ([], ["main"], []),
        ([], [], ["main"]),
    ]
    assert daemon.lines("cluster_failed") == daemon.lines("pass_failed") == daemon.lines("close_failed") == []


def test_invalid_file_is_refused_and_everything_goes_on(
    daemon: DaemonProcess, flink: FakeFlink, other: FakeFlink
) -> None:
    daemon.configure({"main": flink.url})
    daemon.start()

    daemon.configure(
        {"main": other.url, "twice": "no url"}, job__autoscaler__utilization__target="7", autoscaler__http__prt="1"
    )
    daemon.reload()
    before = lists(flink)
    daemon.wait_for("passes", lambda: lists(flink) >= before + 3)
    daemon.wait_for("the status", lambda: "refused" in daemon.messages()[-1])

    (line,) = daemon.lines("reload_refused")
    assert len(line["problems"]) == 3
    assert lists(other) == 0
    assert daemon.stop() == 0


def test_service_manager_is_told_about_reloads(daemon: DaemonProcess, flink: FakeFlink) -> None:
    daemon.configure({"main": flink.url})
    daemon.start()

    daemon.configure({"renamed": flink.url})
    daemon.reload()
    daemon.wait_for("readiness", lambda: len(daemon.messages()) == 3)

    started, reloading, ready = daemon.messages()
    assert started.startswith("READY=1\n")
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading)
    assert ready == f"READY=1\nSTATUS=watching 1 cluster: renamed ({flink.url}, inline)"


def test_many_hang_ups_end_with_the_latest_file(daemon: DaemonProcess, flink: FakeFlink, other: FakeFlink) -> None:
    daemon.configure({"main": flink.url})
    daemon.start()
    for number in range(20):
        daemon.configure({"main": flink.url, f"extra-{number}": other.url})
        daemon.send(signal.SIGHUP)
    daemon.wait_for("the last one", lambda: daemon.ready_clusters() == {"main", "extra-19"})

    assert daemon.stop() == 0
    assert daemon.lines("reload_refused") == []
    assert "extra-19 (" in daemon.messages()[-2]


@pytest.mark.parametrize("attempt", range(3))
def test_hang_up_during_the_start_does_not_end_the_daemon(
    daemon: DaemonProcess, flink: FakeFlink, attempt: int
) -> None:
    flink.delay = 0.01 * attempt
    daemon.configure({"main": flink.url})
    daemon.start(wait=False)
    # Before this the program is not ours yet; on a busy machine its start may be over before anybody looks.
    daemon.wait_for("our code", lambda: daemon.is_holding(signal.SIGHUP) or daemon.messages())
    daemon.send(signal.SIGHUP)

    daemon.wait_for("the reload", lambda: daemon.lines("reloaded"))

    assert daemon.stop() == 0


def test_hang_up_during_the_shutdown_changes_nothing(daemon: DaemonProcess, flink: FakeFlink) -> None:
    flink.delay = 0.5
    daemon.configure({"main": flink.url})
    daemon.start()
    daemon.wait_for("a request", lambda: flink.requests)

    daemon.send(signal.SIGTERM)
    daemon.wait_for("the end to begin", lambda: daemon.lines("stopping"))
    for _ in range(5):
        daemon.send(signal.SIGHUP)

    assert daemon.exit_code() == 0
    assert daemon.lines("reloaded") == []
    assert len(daemon.lines("stopped")) == 1


def test_leader_and_standby_reload_and_only_the_leader_acts(tmp_path: Path, flink: FakeFlink, other: FakeFlink) -> None:
    options = {**SQLITE, "autoscaler__standalone__jdbc.url": f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}"}
    with DaemonProcess(tmp_path, "first") as first, DaemonProcess(tmp_path, "second", file=first.file) as second:
        first.configure({"main": flink.url}, **options)
        first.start()
        first.wait_for("the lead", lambda: first.lines("leadership_gained"))
        second.start()
        second.wait_for("standing by", lambda: second.lines("standby"))

        first.configure({"main": flink.url, "other": other.url}, **options)
        first.reload()
        second.reload()
        first.wait_for("the added one", lambda: first.ready_clusters() == {"main", "other"})
        second.wait_for("the added one", lambda: second.ready_clusters() == {"main", "other"})
        told_by_standby = second.lines("job_found")
        first_code = first.stop()
        second.wait_for("the take-over", lambda: len(second.lines("job_found")) == 2)
        second_code = second.stop()

    assert (first_code, second_code) == (0, 0)
    assert told_by_standby == []
    assert {line["job_key"] for line in first.lines("job_found")} == {"main/orders", "other/orders"}


@pytest.mark.spark
def test_engine_that_no_cluster_had_is_started_at_the_reload(daemon: DaemonProcess, flink: FakeFlink) -> None:
    daemon.configure({"main": flink.url})
    daemon.start()

    daemon.configure({"main": flink.url}, autoscaler__clusters__0__engine="spark")
    daemon.reload()
    daemon.wait_for("a start in the background", lambda: daemon.lines("spark_starting"))
    code = daemon.stop()

    assert code == 0
    assert daemon.lines("reloaded")[0]["changed"] == ["main"]
    assert daemon.lines("spark_pass_inline") == []
