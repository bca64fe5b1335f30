"""Notifications of a daemon as the settings wire it: one message for an event, whatever happens to daemons."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink
from testkit.fakes.flink.load import keep_counting, overloaded, working
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.runner.wired import settings_on, started

TARGET = "autoscaler.notifications.targets.0."
QUICK = {
    "job.autoscaler.metrics.window": "300 ms",
    "job.autoscaler.stabilization.interval": "0 s",
    "autoscaler.standalone.control-loop.interval": "100 ms",
    "autoscaler.notifications.rules.0.reasons": "ScalingReport",
    f"{TARGET}name": "audit",
}


def is_rescaled(report: PassReport) -> bool:
    realization = report.reports["main/orders"].realization
    return realization is not None and bool(realization.requested)


def run_until_rescaled(flink: FakeFlink, options: Mapping[str, str], receiver: Receiver) -> None:
    """Do passes until one rescales and that is told."""
    job = overloaded(flink)
    with started(settings_on(flink.url, {**QUICK, **options})) as (_, passes):

        def look() -> bool:
            keep_counting(job)
            return is_rescaled(passes.run())

        wait_until("a rescale", look, 300, interval=0.05)
        receiver.wait_for(1)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"autoscaler.standalone.state-store.type": "MEMORY"}, id="in memory"),
        pytest.param({"autoscaler.standalone.state-store.type": "JDBC"}, id="in a database"),
    ],
)
def test_an_event_of_a_pass_is_one_message(
    flink: FakeFlink, receiver: Receiver, tmp_path: Path, state: dict[str, str]
) -> None:
    database = {"autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}
    options = {f"{TARGET}url": receiver.url, **state, **database}

    run_until_rescaled(flink, options, receiver)

    (event,) = receiver.events
    assert (event["subject"], event["data"]["reason"]) == ("main/orders", "ScalingReport")
    assert event["source"] == "/flink-autoscaler/flink-autoscaler"
    assert "Parallelism 2 -> " in event["data"]["message"]


def configure(daemon: DaemonProcess, flink: FakeFlink, **more: str) -> None:
    """Write the configuration; further options by the end of their key after ``notifications.``."""
    options = QUICK | {
        f"autoscaler.notifications.{key}": value for key, value in more.items() if "autoscaler" not in key
    }
    options |= {key: value for key, value in more.items() if "autoscaler" in key}
    daemon.configure({"main": flink.url}, **{key.replace(".", "__"): value for key, value in options.items()})


def notices(folder: Path) -> list[tuple[str, int]]:
    """Return id and instant of sending of what the daemon has to tell, from its own database."""
    for file in folder.rglob("*.db"):
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            try:
                return list(connection.execute("SELECT notice_id, settled_ms FROM fa_notification"))
            except sqlite3.OperationalError:
                return []
    return []


def test_what_was_not_sent_before_a_kill_is_sent_once_after_the_start(
    flink: FakeFlink, receiver: Receiver, tmp_path: Path
) -> None:
    with ExitStack() as parts, working(overloaded(flink)):
        daemon = parts.enter_context(DaemonProcess(tmp_path))
        configure(daemon, flink, **{"targets.0.url": "http://127.0.0.1:1"})
        daemon.start()
        daemon.wait_for("an event to tell", lambda: notices(tmp_path))
        daemon.send(signal.SIGKILL)
        daemon.exit_code()
        waiting = {notice_id for notice_id, _ in notices(tmp_path)}
        assert receiver.received == []

        again = parts.enter_context(DaemonProcess(tmp_path, "again", file=daemon.file))
        again.take_state_of(daemon)
        configure(again, flink, **{"targets.0.url": receiver.url})
        again.start()
        again.wait_for("it is noted", lambda: all(settled for _, settled in notices(tmp_path)))
        again.stop()

    told = Counter(event["id"] for event in receiver.events)
    assert waiting <= told.keys()
    assert set(told.values()) == {1}


def test_two_daemons_tell_an_event_once_also_when_the_one_that_leads_is_killed(
    flink: FakeFlink, receiver: Receiver, tmp_path: Path
) -> None:
    shared = {
        "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{tmp_path / 'shared.db'}",
        "autoscaler.standalone.state-store.type": "JDBC",
        "autoscaler.ha.enabled": "true",
        "autoscaler.ha.ttl": "3 s",
        "autoscaler.clusters.0.timeout": "1 s",
        "rules.0.reasons": "*",
    }
    with ExitStack() as parts, working(overloaded(flink)):
        first = parts.enter_context(DaemonProcess(tmp_path, "first"))
        configure(first, flink, **{"targets.0.url": receiver.url}, **shared)
        first.start()
        first.wait_for("leadership", lambda: first.lines("leadership_gained"))
        second = parts.enter_context(DaemonProcess(tmp_path, "second", file=first.file))
        second.start(wait=False)
        second.wait_for("a standby", lambda: second.lines("standby"))
        receiver.wait_for(1)
        first.kill()
        unsure = {notice_id for notice_id, settled in notices(tmp_path) if not settled}  # it may have been sending them
        second.wait_for("leadership", lambda: second.lines("leadership_gained"))
        second.wait_for("a report", lambda: "ScalingReport" in [event["data"]["reason"] for event in receiver.events])
        second.wait_for("nothing waits", lambda: all(settled or each in unsure for each, settled in notices(tmp_path)))
        second.stop()

    told = Counter(event["id"] for event in receiver.events)
    assert all(count == 1 or (count == 2 and notice_id in unsure) for notice_id, count in told.items())
    reports = {e["id"]: e["data"]["message"] for e in receiver.events if e["data"]["reason"] == "ScalingReport"}
    assert len(reports) == len(set(reports.values())) >= 1


def test_a_reload_changes_who_is_told_and_a_wrong_one_changes_nothing(
    flink: FakeFlink, receiver: Receiver, tmp_path: Path
) -> None:
    with Receiver() as other, DaemonProcess(tmp_path) as daemon:
        configure(daemon, flink, **{"targets.0.url": receiver.url})
        daemon.start()
        configure(daemon, flink, **{"targets.0.url": other.url, "rules.0.targets": "nobody"})
        daemon.reload()
        configure(daemon, flink, **{"targets.0.url": other.url})
        daemon.reload()
        with working(overloaded(flink)):
            daemon.wait_for("a message", lambda: other.received)
        daemon.stop()

        assert "there is no target 'nobody'" in str(daemon.lines("reload_refused"))
        assert daemon.lines("restart_needed") == []
    assert receiver.received == []


def failed_targets(daemon: DaemonProcess) -> set[str]:
    return {line["target"] for line in daemon.lines("notification_not_sent")}


def test_no_secret_of_a_target_is_ever_logged(flink: FakeFlink, receiver: Receiver, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cr3tKey")
    chat = {"targets.1.name": "chat", "targets.1.type": "apprise", "targets.1.url": "json://127.0.0.1:1/s3cr3tChat"}
    receiver.answers, receiver.text = [500] * 3, b"unknown hook s3cr3tPath"
    audit = {"targets.0.url": f"{receiver.url}/s3cr3tPath?token=s3cr3tToken", "targets.0.key-file": str(key)}
    with DaemonProcess(tmp_path) as daemon, working(overloaded(flink)):
        configure(daemon, flink, **audit, **chat, **{"autoscaler.log.level": "debug"})
        daemon.start()
        daemon.wait_for("both to fail", lambda: len(failed_targets(daemon)) == 2)
        daemon.stop()

    assert "s3cr3t" not in daemon.text()
    assert receiver.received[0].headers["x-flink-autoscaler-signature"].startswith("sha256=")
