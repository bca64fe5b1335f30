from __future__ import annotations

import hashlib
import hmac
import json
import math
from typing import Any

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.notifications.messages import (
    cloud_event,
    encode_body,
    message_lines,
    message_title,
    report_event,
    sign,
)
from flink_autoscaler.stores.testing.event_handler_contract import a_report

JOB = JobAutoScalerContext(
    "main/orders", "0" * 32, JobStatus.RUNNING, {}, Endpoint(""), job_name="orders", cluster="main"
)


def an_event(kind: EventType = EventType.WARNING, reason: str = "RolledBack", message: str = "text") -> dict[str, Any]:
    event = Event(kind, reason, message, figures=(("used", 3.0), ("unknown", math.nan)))
    return dict(cloud_event(JOB, event, event_id="id-1", source="group", at=1_767_614_400.25))


def test_an_event_is_a_cloud_event() -> None:
    assert an_event() == {
        "specversion": "1.0",
        "id": "id-1",
        "source": "/flink-autoscaler/group",
        "type": "flink-autoscaler.event.RolledBack",
        "subject": "main/orders",
        "time": "2026-01-05T12:00:00.250Z",
        "severity": "warning",
        "datacontenttype": "application/json",
        "data": {
            "reason": "RolledBack",
            "severity": "warning",
            "cluster": "main",
            "job": "orders",
            "job_key": "main/orders",
            "message": "text",
            "figures": {"used": 3.0, "unknown": None},
        },
    }


def test_the_type_has_no_blanks() -> None:
    named = an_event(reason="AutoScaler Options Validation")

    assert named["type"] == "flink-autoscaler.event.AutoScalerOptionsValidation"
    assert named["data"]["reason"] == "AutoScaler Options Validation"


def test_secrets_in_messages_are_masked_and_long_ones_cut() -> None:
    text = an_event(message=f"http://me:s3cr3t@host/ failed, password=s3cr3t {'x' * 9000}")["data"]["message"]

    assert "s3cr3t" not in text
    assert len(text) <= 4000


def test_one_event_is_structured_and_several_are_a_batch() -> None:
    one, kind = encode_body([an_event()])
    several, batch_kind = encode_body([an_event(), an_event()])

    assert kind.startswith("application/cloudevents+json")
    assert json.loads(one)["specversion"] == "1.0"
    assert batch_kind.startswith("application/cloudevents-batch+json")
    assert [event["specversion"] for event in json.loads(several)] == ["1.0", "1.0"]


def test_a_body_survives_characters_that_are_none() -> None:
    body, _ = encode_body([an_event(message="half \ud800 東京")])

    assert json.loads(body)["data"]["message"] == r"half \ud800 東京"


def test_the_signature_is_that_of_the_body() -> None:
    expected = hmac.new("kéy".encode(), b"body", hashlib.sha256).hexdigest()

    assert sign(b"body", "kéy") == f"sha256={expected}"


def test_people_get_a_line_per_event() -> None:
    events = [an_event(), an_event(EventType.NORMAL, "RescaleReached", "the job\nruns")]

    assert message_title(events) == "flink-autoscaler: 2 events, 1 of them warning"
    assert message_title(events[:1]) == "flink-autoscaler: RolledBack main/orders"
    assert message_lines(events).splitlines() == [
        "2026-01-05 12:00:00 UTC WARNING main/orders RolledBack: text",
        "2026-01-05 12:00:00 UTC main/orders RescaleReached: the job runs",
    ]


def test_people_get_few_and_short_lines() -> None:
    lines = message_lines([an_event(message="x" * 4000)] * 100).splitlines()

    assert lines[-1] == "and 80 more"
    assert max(map(len, lines)) <= 500
    assert len(lines) == 21


def test_reports_that_are_not_executed_are_repetitions_of_each_other() -> None:
    executed, advice = report_event(a_report(is_executed=True)), report_event(a_report(is_executed=False))

    assert executed.interval is None
    assert (advice.key, advice.interval) == (
        a_report(is_executed=False).parallelism_hash,
        a_report(is_executed=False).interval,
    )
