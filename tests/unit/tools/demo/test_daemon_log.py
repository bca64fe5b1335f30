from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from demo.daemon_log import Change, Considered, Decision, Fact, Listening, LogReader, Requested, Trouble, parse_line

from flink_autoscaler.standalone.observability.logs import configure_logging
from flink_autoscaler.stores import LoggingEventHandler
from flink_autoscaler.stores.testing.event_handler_contract import a_context, a_report

AT = "2026-01-01T00:00:10.500000Z"
EPOCH = 1767225610.5


def line(event: str, level: str = "info", **facts: object) -> str:
    return json.dumps({**facts, "event": event, "level": level, "timestamp": AT})


VERTEX = {"vertex_id": "b", "name": "work", "current": 1, "new": 5, "capacity": 450.5, "target_rate": 1338.0}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        pytest.param(
            line("scaling_report", is_executed=True, vertices=[VERTEX]),
            Decision(EPOCH, (Change("work", 1, 5, 450.5, 1338.0),)),
            id="a decision",
        ),
        pytest.param(
            line(
                "scaling_report", is_executed=True, vertices=[{**VERTEX, "capacity": "Infinity", "target_rate": None}]
            ),
            Decision(EPOCH, (Change("work", 1, 5, float("inf"), None),)),
            id="a decision with numbers that JSON does not have",
        ),
        pytest.param(line("scaling_report", is_executed=False, vertices=[VERTEX]), None, id="only a recommendation"),
        pytest.param(
            line("job_rescale_requested", parallelism={"b": 5}), Requested(EPOCH, {"b": 5}), id="an accepted request"
        ),
        pytest.param(
            line("job_phase", "debug", phase="window_filling", reasons=["not full yet"]),
            Considered(EPOCH, "window_filling", ("not full yet",)),
            id="what a pass came to",
        ),
        pytest.param(
            line("http_listening", url="http://127.0.0.1:1"), Listening(EPOCH, "http://127.0.0.1:1"), id="the address"
        ),
        pytest.param(
            line("job_failed", "warning", error="no answer"), Trouble(EPOCH, "job_failed: no answer"), id="a warning"
        ),
        pytest.param(
            line("autoscaler_event", "warning", reason="ScalingLimited", text="to 4"),
            Trouble(EPOCH, "autoscaler_event: ScalingLimited: to 4"),
            id="a warning event",
        ),
        pytest.param(line("FutureWarning", "warning", logger="py.warnings"), None, id="a warning of a library"),
        pytest.param(line("pass_finished", "debug", jobs=1), None, id="an event of no interest"),
        pytest.param("Picked up JAVA_TOOL_OPTIONS", None, id="not JSON"),
        pytest.param('"text"', None, id="JSON, but no record"),
        pytest.param('{"event": "job_phase"}', None, id="a record without an instant"),
    ],
)
def test_parse_line_takes_what_is_of_interest(text: str, fact: Fact | None) -> None:
    assert parse_line(text) == fact


@pytest.fixture
def log_of_the_daemon() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handlers = logging.getLogger().handlers
    configure_logging(log_format="json", stream=written)
    yield written
    logging.getLogger().handlers = handlers
    structlog.reset_defaults()


def test_parse_line_reads_what_the_event_handler_of_the_daemon_writes(log_of_the_daemon: io.StringIO) -> None:
    report = a_report(is_executed=True)

    LoggingEventHandler().handle_scaling_report(a_context("demo/orders"), report)

    decision = parse_line(log_of_the_daemon.getvalue().splitlines()[0])
    assert isinstance(decision, Decision)
    assert [(change.vertex, change.before, change.after) for change in decision.changes] == [
        (vertex.name, vertex.current, vertex.new) for vertex in report.vertices.values()
    ]


def test_change_tells_its_reason_in_one_line() -> None:
    assert Change("work", 1, 5, 450.5, 1338.0).reason == "input 1,338/s, capacity 450/s with 1"
    assert Change("work", 2, 1, None, None).reason == "input unknown, capacity unknown with 2"


def test_log_reader_gives_every_fact_once_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    reader = LogReader(file)
    whole = line("http_listening", url="http://127.0.0.1:1")

    before = reader.new_facts()
    file.write_text(f"noise\n{whole}\n{whole[:20]}")
    first = reader.new_facts()
    with file.open("a") as log:
        log.write(whole[20:] + "\n")
    second = reader.new_facts()

    assert (before, len(first), len(second), reader.new_facts()) == ([], 1, 1, [])
