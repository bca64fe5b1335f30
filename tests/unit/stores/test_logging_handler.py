from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import structlog

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.syntax import parse_duration
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.stores import LoggingEventHandler
from flink_autoscaler.stores.testing.event_handler_contract import (
    AutoScalerEventHandlerContract,
    RecordedEvent,
    a_context,
    a_report,
)

Line = MutableMapping[str, Any]


class _Log:
    """A structlog logger whose lines stay in memory."""

    def __init__(self) -> None:
        self.capture = structlog.testing.LogCapture()
        self.logger = structlog.wrap_logger(None, processors=[self.capture])

    @property
    def lines(self) -> Sequence[Line]:
        return self.capture.entries


class TestLoggingEventHandler(AutoScalerEventHandlerContract):
    def make_handler(self) -> AutoScalerEventHandler:
        self.log = _Log()
        return LoggingEventHandler(self.log.logger)

    def recorded(self, handler: AutoScalerEventHandler, job_key: JobKey) -> Sequence[RecordedEvent]:
        lines = [line for line in self.log.lines if line["job_key"] == job_key and line["event"] == "autoscaler_event"]
        return [RecordedEvent(line["reason"], line["text"]) for line in lines]


def test_an_event_is_one_line_with_all_its_facts() -> None:
    log = _Log()
    event = Event(EventType.NORMAL, "MemoryPressure", "Heap is full.", "heapUsage", parse_duration("1500 ms"))

    LoggingEventHandler(log.logger).handle_event(a_context("a/orders"), event)

    assert list(log.lines) == [
        {
            "event": "autoscaler_event",
            "log_level": "info",
            "cluster": "",
            "job_key": "a/orders",
            "event_type": "Normal",
            "reason": "MemoryPressure",
            "text": "Heap is full.",
            "event_key": "heapUsage",
            "interval": 1.5,
        }
    ]


@pytest.mark.parametrize(("event_type", "level"), [(EventType.NORMAL, "info"), (EventType.WARNING, "warning")])
def test_only_warnings_are_logged_as_warnings(event_type: EventType, level: str) -> None:
    log = _Log()

    LoggingEventHandler(log.logger).handle_event(a_context(), Event(event_type, "Reason", "Text."))

    assert [line["log_level"] for line in log.lines] == [level]


@pytest.mark.parametrize(
    ("seconds", "level"),
    [pytest.param(59.0, "debug", id="within the interval"), pytest.param(60.0, "warning", id="after it")],
)
def test_a_repetition_is_written_for_debugging(seconds: float, level: str) -> None:
    log, now = _Log(), [100.0]
    handler = LoggingEventHandler(log.logger, clock=lambda: now[0])
    event = Event(EventType.WARNING, "Reason", "Text.", "key", parse_duration("1 min"))

    handler.handle_event(a_context(), event)
    now[0] += seconds
    handler.handle_event(a_context(), event)

    assert [line["log_level"] for line in log.lines] == ["warning", level]


def test_a_recommendation_is_repeated_for_debugging_until_it_changes() -> None:
    log = _Log()
    handler = LoggingEventHandler(log.logger)

    for new in (4, 4, 5):
        handler.handle_scaling_report(a_context(), a_report(is_executed=False, new=new))

    assert [line["log_level"] for line in log.lines if line["event"] == "scaling_report"] == ["info", "debug", "info"]


def test_a_report_is_one_line_for_programs_and_one_for_people() -> None:
    log = _Log()
    report = a_report(is_executed=True, new=4)

    LoggingEventHandler(log.logger).handle_scaling_report(a_context(), report)

    structured, readable = log.lines
    assert structured["event"] == "scaling_report"
    assert structured["is_executed"] is True
    assert structured["vertices"] == [
        {
            "vertex_id": "a6b7102b8d3e3a9564998c1ffeb5e2b7",
            "name": "Source: orders",
            "current": 2,
            "new": 4,
            "capacity": 100.0,
            "expected_capacity": "Infinity",
            "target_rate": None,
        }
    ]
    assert (readable["event"], readable["reason"], readable["text"]) == (
        "autoscaler_event",
        "ScalingReport",
        report.text,
    )


def test_a_report_renders_as_json_that_every_parser_reads() -> None:
    log = _Log()

    LoggingEventHandler(log.logger).handle_scaling_report(a_context(), a_report(is_executed=False))

    texts = [json.dumps(line, allow_nan=False) for line in log.lines]
    assert [json.loads(text)["event"] for text in texts] == ["scaling_report", "autoscaler_event"]


def test_lines_pass_through_the_logging_of_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    to_extra = structlog.stdlib.render_to_log_kwargs
    logger = structlog.wrap_logger(logging.getLogger("events"), processors=[to_extra])

    LoggingEventHandler(logger).handle_event(a_context(), Event(EventType.WARNING, "Reason", "Text."))

    assert [(record.getMessage(), record.__dict__["reason"]) for record in caplog.records] == [
        ("autoscaler_event", "Reason")
    ]


def test_labels_of_a_job_are_facts_of_its_lines() -> None:
    log = _Log()
    handler = LoggingEventHandler(log.logger)
    context = replace(a_context(), labels={"yarn_application_id": "application_1_2", "yarn_queue": "root.a"})

    handler.handle_event(context, Event(EventType.NORMAL, "Reason", "Text."))
    handler.handle_scaling_report(context, a_report(is_executed=True))

    assert [(line["yarn_application_id"], line["yarn_queue"]) for line in log.lines] == [
        ("application_1_2", "root.a")
    ] * 3
