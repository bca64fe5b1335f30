"""The event handler that has targets told: it returns at once whatever becomes of the targets and the database."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.notifications import Notification
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.standalone.notifications.delivery import Outbox
from flink_autoscaler.standalone.notifications.notifier import Notifier, RoutingRules
from flink_autoscaler.standalone.observability.status_series import NOTIFICATION_SERIES, StatusMetrics
from flink_autoscaler.standalone.settings.schema.clusters import NotificationSettings, RuleSettings, TargetSettings
from flink_autoscaler.stores.outbox import HeapOutbox
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.outbox import SqlOutbox
from flink_autoscaler.stores.sql.tables import NOTIFICATIONS
from flink_autoscaler.stores.testing.event_handler_contract import (
    AutoScalerEventHandlerContract,
    RecordedEvent,
    a_context,
    a_report,
)
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner import LogLines
from testkit.servers.databases import every_database, rows_of

EVERYTHING = (RuleSettings(),)


HALF_AN_HOUR = Duration(1800 * 10**9)


Make = Callable[..., Notifier]


def settings(*urls: str, rules: Sequence[RuleSettings] = EVERYTHING) -> NotificationSettings:
    targets = tuple(TargetSettings(name=f"t{number}", url=url, timeout=2.0) for number, url in enumerate(urls))
    return NotificationSettings(targets=targets, rules=tuple(rules))


def an_event(number: int = 0, interval: Duration | None = None) -> Event:
    return Event(EventType.WARNING, "RolledBack", f"event {number}", f"key {number}", interval)


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Notifier] = []

    def start(wanted: NotificationSettings, outbox: Outbox | None = None, **more: object) -> Notifier:
        options: dict[str, object] = {"source": "group", "first_pause": 0.05, "store_pause": 0.05, **more}
        notifier = Notifier(wanted, outbox or HeapOutbox(), **options)  # type: ignore[arg-type]
        made.append(notifier)
        notifier.start()
        return notifier

    yield start
    for notifier in made:
        notifier.close()


class Remembering(HeapOutbox):
    """Remembers what was added, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def add(self, notices: Sequence[Notification]) -> None:
        super().add(notices)
        self.texts += [notice.text for notice in notices]


class TestNotifier(AutoScalerEventHandlerContract):
    def make_handler(self) -> Notifier:
        self.outbox = Remembering()
        notifier = Notifier(settings("http://127.0.0.1:1"), self.outbox, source="group")
        notifier.start()
        return notifier

    def recorded(self, handler: AutoScalerEventHandler, job_key: JobKey) -> Sequence[RecordedEvent]:
        assert isinstance(handler, Notifier)
        assert handler.flush(10.0)
        told = [json.loads(text) for text in self.outbox.texts]
        data = [event["data"] for event in told if event["subject"] == job_key]
        return [RecordedEvent(each["reason"], each["message"]) for each in data]


def test_events_and_reports_are_told(receiver: Receiver, make: Make) -> None:
    notifier = make(settings(receiver.url))

    notifier.handle_event(a_context("main/a"), an_event())
    notifier.handle_scaling_report(a_context("main/b"), a_report(is_executed=True))

    wait_until("both", lambda: len(receiver.events) == 2, 300)
    assert [(event["subject"], event["data"]["reason"]) for event in receiver.events] == [
        ("main/a", "RolledBack"),
        ("main/b", "ScalingReport"),
    ]


def test_nothing_is_taken_before_the_start_and_after_the_end(receiver: Receiver, make: Make) -> None:
    outbox = HeapOutbox()
    notifier = Notifier(settings(receiver.url), outbox, source="group")
    notifier.handle_event(a_context(), an_event(1))
    notifier.start()
    notifier.handle_event(a_context(), an_event(2))
    receiver.wait_for(1)
    notifier.close()
    notifier.close()
    notifier.handle_event(a_context(), an_event(3))

    assert [event["data"]["message"] for event in receiver.events] == ["event 2"]


def test_a_target_that_hangs_delays_neither_the_caller_nor_another_target(receiver: Receiver, make: Make) -> None:
    with Receiver() as hanging:
        hanging.may_answer.clear()
        notifier = make(settings(hanging.url, receiver.url))
        for number in range(200):
            notifier.handle_event(a_context(), an_event(number))
        wait_until("all of them", lambda: len(receiver.events) == 200, 300, interval=0.01)

        assert len(hanging.received) <= 1


def test_repetitions_within_their_interval_are_told_once(receiver: Receiver, make: Make, database: Database) -> None:
    for _ in range(2):  # a second process knows nothing of the first but what is in the database
        notifier = make(settings(receiver.url), SqlOutbox(database, writer="ours"))
        for number in (1, 1, 2):
            notifier.handle_event(a_context(), an_event(number, HALF_AN_HOUR))
        notifier.handle_event(a_context("main/other"), an_event(1, HALF_AN_HOUR))
        assert notifier.flush(10.0)
        wait_until("they are sent", lambda: all(row["settled_ms"] for row in rows_of(database, NOTIFICATIONS)), 300)
        notifier.close()

    assert sorted((event["subject"], event["data"]["message"]) for event in receiver.events) == [
        ("cluster/orders", "event 1"),
        ("cluster/orders", "event 2"),
        ("main/other", "event 1"),
    ]


@every_database
def test_two_on_one_database_send_an_event_once(receiver: Receiver, make: Make, database: Database) -> None:
    notifiers = [make(settings(receiver.url), SqlOutbox(database, writer="ours")) for _ in range(2)]

    for number in range(30):
        notifiers[number % 2].handle_event(a_context(), an_event(number))
    assert all(notifier.flush(20.0) for notifier in notifiers)
    wait_until("all are sent", lambda: _is_all_settled(database, 30), 300)

    assert sorted(event["data"]["message"] for event in receiver.events) == sorted(f"event {n}" for n in range(30))


def _is_all_settled(database: Database, count: int) -> bool:
    rows = rows_of(database, NOTIFICATIONS)
    return len(rows) == count and all(row["settled_ms"] for row in rows)


class Away(HeapOutbox):
    """Takes nothing until it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.is_back = threading.Event()
        self.tries = 0

    def add(self, notices: Sequence[Notification]) -> None:
        self.tries += 1
        if not self.is_back.is_set():
            raise StoreError("the database is away; password=s3cr3t")
        super().add(notices)


def test_events_wait_in_memory_while_the_database_is_away_and_too_many_are_counted(
    receiver: Receiver, make: Make
) -> None:
    outbox = Away()
    with LogLines() as lines:
        notifier = make(settings(receiver.url), outbox, max_queued=5)
        notifier.handle_event(a_context(), an_event())
        wait_until("several tries", lambda: outbox.tries > 3, 300, interval=0.01)
        for number in range(1, 20):
            notifier.handle_event(a_context(), an_event(number))
        outbox.is_back.set()
        wait_until("they are told", lambda: len(receiver.events) >= 5, 300, interval=0.01)
        wait_until("it is logged", lambda: lines.of("notifications_dropped"), 300, interval=0.01)

    dropped = sum(line["events"] for line in lines.of("notifications_dropped"))
    assert dropped + len(receiver.events) == 20
    assert notifier.status()["t0"].dropped == dropped >= 14
    (told,) = lines.of("notifications_not_saved")
    assert "s3cr3t" not in str(told)
    assert len(lines.of("notifications_saving_recovered")) == 1


def test_targets_and_rules_can_change_meanwhile(receiver: Receiver, make: Make) -> None:
    with Receiver() as second:
        notifier = make(settings(receiver.url))
        notifier.handle_event(a_context(), an_event(1))
        receiver.wait_for(1)
        notifier.update_settings(settings(second.url, rules=[RuleSettings(reasons=("RolledBack",))]))
        notifier.handle_event(a_context(), an_event(2))
        notifier.handle_event(a_context(), Event(EventType.WARNING, "Other", "text"))
        second.wait_for(1)
        notifier.update_settings(settings())
        notifier.handle_event(a_context(), an_event(3))
        notifier.update_settings(settings(second.url))
        notifier.handle_event(a_context(), an_event(4))
        second.wait_for(2)

        assert [event["data"]["message"] for event in second.events] == ["event 2", "event 4"]
    assert len(receiver.events) == 1


def test_without_targets_nothing_is_kept(make: Make, database: Database) -> None:
    notifier = make(settings(), SqlOutbox(database, writer="ours"))

    notifier.handle_event(a_context(), an_event())

    assert notifier.flush(10.0)
    assert rows_of(database, NOTIFICATIONS) == []


def test_its_end_does_not_wait_for_a_target_that_hangs(make: Make) -> None:
    with Receiver() as hanging:
        hanging.may_answer.clear()
        target = TargetSettings(name="slow", url=hanging.url, timeout=300.0)
        notifier = make(NotificationSettings(targets=(target,), rules=EVERYTHING))
        notifier.handle_event(a_context(), an_event())
        hanging.wait_for(1)
        begun = time.monotonic()

        notifier.close()

        assert time.monotonic() - begun < 200


def test_what_came_of_events_is_told_to_prometheus_by_the_name_of_the_target(receiver: Receiver, make: Make) -> None:
    receiver.answers = [503, 503]
    notifier = make(settings(f"{receiver.url}/s3cr3t", "http://127.0.0.1:1/t0k3n"))
    before = series(notifier)
    notifier.handle_event(a_context(), an_event())
    wait_until("it is told", lambda: notifier.status()["t0"].sent, 300, interval=0.01)
    wait_until("it waits no more", lambda: notifier.status()["t0"].waiting == 0, 300, interval=0.01)
    wait_until("the other fails", lambda: notifier.status()["t1"].failing, 300, interval=0.01)
    after = series(notifier)

    assert 'flink_autoscaler_notifications_sent_total{target="t0"} 0.0' in before
    assert {
        'flink_autoscaler_notifications_sent_total{target="t0"} 1.0',
        'flink_autoscaler_notifications_failed_total{target="t0"} 2.0',
        'flink_autoscaler_notifications_retried_total{target="t0"} 2.0',
        'flink_autoscaler_notifications_waiting{target="t0"} 0.0',
        'flink_autoscaler_notifications_failing{target="t0"} 0.0',
        'flink_autoscaler_notifications_waiting{target="t1"} 1.0',
        'flink_autoscaler_notifications_failing{target="t1"} 1.0',
        'flink_autoscaler_notifications_dropped_total{target="t1"} 0.0',
    } <= after
    assert not [line for line in after if "s3cr3t" in line or "t0k3n" in line or "127.0.0.1" in line]


def test_series_follow_the_targets_of_a_reload(receiver: Receiver, make: Make) -> None:
    notifier = make(settings(receiver.url))
    notifier.handle_event(a_context(), an_event())
    wait_until("it is told", lambda: notifier.status()["t0"].sent, 300, interval=0.01)

    notifier.update_settings(settings(receiver.url, receiver.url))
    kept = {name: status.sent for name, status in notifier.status().items()}
    notifier.update_settings(settings())

    assert (kept, dict(notifier.status())) == ({"t0": 1, "t1": 0}, {})


def series(notifier: Notifier) -> set[str]:
    registry = CollectorRegistry()
    registry.register(StatusMetrics(NOTIFICATION_SERIES, notifier.status))
    return set(generate_latest(registry).decode().splitlines())


JOB = JobAutoScalerContext(
    "prod-eu/orders-v2", "0" * 32, JobStatus.RUNNING, {}, Endpoint(""), job_name="orders-v2", cluster="prod-eu"
)


DAEMON = JobAutoScalerContext("flink-autoscaler", None, JobStatus.UNKNOWN, {}, Endpoint(""))


WARNING = Event(EventType.WARNING, "RolledBack", "text")


NORMAL = Event(EventType.NORMAL, "RescaleReached", "text")


TARGETS = (TargetSettings(name="chat"), TargetSettings(name="audit"))


def told(*rules: RuleSettings, job: JobAutoScalerContext = JOB, event: Event = WARNING) -> str:
    settings = NotificationSettings(targets=TARGETS, rules=rules)
    return " ".join(RoutingRules(settings).targets(job, event))


def test_without_rules_every_warning_is_told_to_all() -> None:
    assert told() == "chat audit"
    assert told(event=NORMAL) == ""


def test_without_targets_nobody_is_told() -> None:
    assert RoutingRules(NotificationSettings()).targets(JOB, WARNING) == ()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(RuleSettings(), "chat audit", id="an empty rule: everything to all"),
        pytest.param(RuleSettings(targets=("audit",)), "audit", id="one target"),
        pytest.param(RuleSettings(reasons=("rolledback",)), "chat audit", id="a reason, whatever its case"),
        pytest.param(RuleSettings(reasons=("Roll*",)), "chat audit", id="a pattern of reasons"),
        pytest.param(RuleSettings(reasons=("Rescale*",)), "", id="another reason"),
        pytest.param(RuleSettings(severities=("warning",)), "chat audit", id="the severity"),
        pytest.param(RuleSettings(severities=("normal",)), "", id="another severity"),
        pytest.param(RuleSettings(jobs=("orders-*",)), "chat audit", id="a name"),
        pytest.param(RuleSettings(jobs=("prod-*/orders-v?",)), "chat audit", id="a key"),
        pytest.param(RuleSettings(jobs=("payments",)), "", id="another job"),
        pytest.param(RuleSettings(clusters=("prod-*",)), "chat audit", id="a cluster"),
        pytest.param(RuleSettings(clusters=("test",)), "", id="another cluster"),
        pytest.param(RuleSettings(clusters=("prod-*",), severities=("normal",)), "", id="all parts have to fit"),
    ],
)
def test_an_event_is_told_where_a_rule_fits(rule: RuleSettings, expected: str) -> None:
    assert told(rule) == expected


def test_several_rules_tell_a_target_once_in_the_order_of_the_targets() -> None:
    assert told(RuleSettings(targets=("audit",)), RuleSettings(), RuleSettings(targets=("chat",))) == "chat audit"


def test_what_is_told_about_the_daemon_is_of_no_cluster() -> None:
    assert told(RuleSettings(), job=DAEMON) == "chat audit"
    assert told(RuleSettings(clusters=("prod-*",)), job=DAEMON) == ""


def test_a_job_without_a_name_is_known_by_its_key() -> None:
    assert told(RuleSettings(jobs=("orders-v2",)), job=replace(JOB, job_name="")) == ""
    assert told(RuleSettings(jobs=("*/orders-v2",)), job=replace(JOB, job_name="")) == "chat audit"
