from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.notifications.rules import Rules
from flink_autoscaler.standalone.settings.schema.notifications import (
    NotificationSettings,
    RuleSettings,
    TargetSettings,
    parse_quiet_hours,
)

JOB = JobAutoScalerContext(
    "prod-eu/orders-v2", "0" * 32, JobStatus.RUNNING, {}, Endpoint(""), job_name="orders-v2", cluster="prod-eu"
)
DAEMON = JobAutoScalerContext("flink-autoscaler", None, JobStatus.UNKNOWN, {}, Endpoint(""))
WARNING = Event(EventType.WARNING, "RolledBack", "text")
NORMAL = Event(EventType.NORMAL, "RescaleReached", "text")
TARGETS = (TargetSettings(name="chat"), TargetSettings(name="audit"))
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def told(*rules: RuleSettings, job: JobAutoScalerContext = JOB, event: Event = WARNING, hour: float = 12.0) -> str:
    settings = NotificationSettings(targets=TARGETS, rules=rules)
    return " ".join(Rules(settings).targets(job, event, MONDAY.timestamp() + hour * 3600))


def test_without_rules_every_warning_is_told_to_all() -> None:
    assert told() == "chat audit"
    assert told(event=NORMAL) == ""


def test_without_targets_nobody_is_told() -> None:
    assert Rules(NotificationSettings()).targets(JOB, WARNING, 0.0) == ()


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


@pytest.mark.parametrize(
    ("hour", "expected"),
    [
        pytest.param(21.9, "chat audit", id="before"),
        pytest.param(22.0, "", id="at their beginning"),
        pytest.param(23.9999, "", id="before midnight"),
        pytest.param(24.0, "", id="at midnight"),
        pytest.param(29.9, "", id="after midnight"),
        pytest.param(30.1, "chat audit", id="after"),
    ],
)
def test_quiet_hours_reach_over_midnight(hour: float, expected: str) -> None:
    rule = RuleSettings(quiet_hours=parse_quiet_hours("22:00-6:00"))

    assert told(rule, hour=hour) == expected


def test_quiet_hours_are_those_of_their_time_zone() -> None:
    rule = RuleSettings(quiet_hours=parse_quiet_hours("12:00-13:00"), timezone="Asia/Tokyo")

    assert [told(rule, hour=hour) for hour in (3.5, 12.5)] == ["", "chat audit"]


def test_quiet_hours_may_be_of_some_days() -> None:
    rule = RuleSettings(quiet_hours=parse_quiet_hours("22:00-6:00 && * * * ? * SAT,SUN"))
    weekend = RuleSettings(quiet_hours=parse_quiet_hours("* * * ? * MON"))

    assert told(rule, hour=23) == "chat audit"
    assert told(rule, hour=5 * 24 + 23) == ""
    assert [told(weekend, hour=hour) for hour in (23, 25)] == ["", "chat audit"]


def test_another_rule_tells_in_the_quiet_hours_of_one() -> None:
    quiet = RuleSettings(quiet_hours=parse_quiet_hours("0:00-23:59"))

    assert told(quiet, RuleSettings(targets=("chat",), severities=("warning",))) == "chat"


@pytest.mark.parametrize("text", ["25:00-26:00", "noon", "* * *", "1:00-2:00 && 3:00-4:00"])
def test_what_are_no_times_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|joins|time of day"):
        parse_quiet_hours(text)
