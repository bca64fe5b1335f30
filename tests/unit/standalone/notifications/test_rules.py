from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.notifications.notifier import RoutingRules
from flink_autoscaler.standalone.settings.schema.clusters import NotificationSettings, RuleSettings, TargetSettings

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
