from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from demo.command import verdict
from demo.story import Json, LogReader, Look, Story, parse_line, shortfalls

from flink_autoscaler.standalone.settings.logs import configure_logging
from flink_autoscaler.stores import LoggingEventHandler
from flink_autoscaler.stores.testing.event_handler_contract import a_context, a_report


def decision(at: float, before: int, after: int, capacity: object = 500.0, target: float | None = 1300.0) -> Json:
    vertex = {"name": "work", "current": before, "new": after, "capacity": capacity, "target_rate": target}
    return {"event": "scaling_report", "is_executed": True, "vertices": [vertex], "at": at}


UP = decision(10.0, 1, 4)
DOWN = decision(50.0, 4, 2, 2000.0, 150.0)


def told(*parts: Look | Json) -> Story:
    """A story that starts with parallelism 1 and hears and sees the parts in turn."""
    story = Story({"a": "source", "b": "work"})
    story.add_sample(Look(0.0, {"source": 1, "work": 1}))
    for part in parts:
        if isinstance(part, Look):
            story.add_sample(part)
        else:
            story.add_log_record(part)
    return story


def running(at: float, work: int, lag: float | None = 0.0) -> Look:
    return Look(at, {"source": 1, "work": work}, lag)


def test_rescale_is_confirmed_when_the_job_runs_with_another_parallelism() -> None:
    story = told(UP, Look(11.0), running(13.0, 4))

    (rescale,), (change,) = story.rescales, story.changes
    assert (rescale.at, rescale.vertex, rescale.before, rescale.after) == (13.0, "work", 1, 4)
    assert rescale.change is change
    assert change.confirmed == 3.0
    assert rescale.is_up


def test_a_parallelism_on_the_way_does_not_confirm_a_decision() -> None:
    story = told(UP, running(12.0, 2))

    assert story.changes[0].confirmed is None
    story.add_sample(running(14.0, 4))
    assert story.changes[0].confirmed == 4.0


def test_request_alone_confirms_nothing() -> None:
    story = told(UP, running(11.0, 1))

    story.add_log_record({"event": "job_rescale_requested", "parallelism": {"b": 4}, "at": 10.0})

    assert (story.rescales, story.wanted, story.parallelism["work"]) == ([], {"work": 4}, 1)


def test_a_recommendation_is_no_decision() -> None:
    assert told({**UP, "is_executed": False}).changes == []


def test_rescale_by_somebody_else_has_no_decision() -> None:
    story = told(running(13.0, 4))

    assert [rescale.change for rescale in story.rescales] == [None]


def test_notes_tell_decisions_confirmations_and_warnings_in_order() -> None:
    story = told(UP, running(13.0, 4))

    story.add_log_record({"event": "cluster_failed", "level": "error", "error": "no answer", "at": 14.0})

    assert [text for _, text in story.notes] == [
        "decided: work 1 -> 4 (input 1,300/s, capacity 500/s with 1)",
        "confirmed: work runs with 4, had 1",
        "warning: cluster_failed: no answer",
    ]


def test_reasons_admit_what_is_unknown_and_take_numbers_that_json_does_not_have() -> None:
    story = told(decision(1.0, 2, 1, "Infinity", None))

    assert story.changes[0].reason == "input unknown, capacity inf/s with 2"


def test_phase_is_how_far_the_last_pass_got() -> None:
    story = told()

    story.add_log_record({"event": "job_phase", "level": "debug", "phase": "collecting", "reasons": [], "at": 1.0})
    story.add_log_record({"event": "job_reasons", "phase": "executed", "reasons": ["fine"], "at": 2.0})

    assert (story.phase, story.reasons) == ("executed", ("fine",))


def test_lag_is_the_last_known_one() -> None:
    story = told(running(1.0, 1, 900.0), running(2.0, 1, 30.0), running(3.0, 1, None))

    assert story.lag == 30.0


def test_arrivals_count_what_waits_and_what_was_taken_also_across_a_restart() -> None:
    # 100 records/s arrive; from second 10 to 20 nothing is taken and nothing answered.
    looks = [Look(float(s), None, 0.0, s * 100.0) for s in range(11)]
    looks += [Look(float(s), None) for s in range(11, 20)]
    looks += [Look(20.0, None, 1000.0, 1000.0), Look(21.0, None, 1100.0, 1000.0)]

    arrivals = told(*looks).arrivals()

    assert arrivals[-1][0] == 21.0
    assert [rate for _, rate in arrivals] == pytest.approx([100.0] * len(arrivals))


def test_arrivals_are_not_thrown_off_by_numbers_of_before_a_restart() -> None:
    looks = [Look(float(s), None, 0.0, s * 100.0) for s in range(11)]
    stale = Look(11.0, None, 0.0, 300.0)

    assert told(*looks, stale).arrivals() == told(*looks).arrivals()


@pytest.mark.parametrize(
    ("story", "missing"),
    [
        pytest.param(told(UP, running(13.0, 4), DOWN, running(53.0, 2)), [], id="up, down and drained"),
        pytest.param(told(UP, DOWN), ["scale-up", "scale-down", "did not tell the lag"], id="decided, never confirmed"),
        pytest.param(told(UP, running(13.0, 4)), ["scale-down"], id="only up"),
        pytest.param(told(running(13.0, 4), running(53.0, 2)), ["scale-up", "scale-down"], id="not by the daemon"),
        pytest.param(
            told(UP, running(13.0, 4), DOWN, running(53.0, 2, 301.0)), ["301 records wait"], id="lag not drained"
        ),
        pytest.param(
            told(UP, running(13.0, 4), DOWN, running(53.0, 2, 301.0), running(54.0, 2, 0.0)),
            ["301 records wait"],
            id="a lag of 0 that has not lasted",
        ),
        pytest.param(
            told(UP, running(13.0, 4), DOWN, running(53.0, 2, 301.0), running(63.0, 2, 300.0)), [], id="drained at last"
        ),
    ],
)
def test_shortfalls_name_what_is_missing(story: Story, missing: list[str]) -> None:
    found = shortfalls(story, drained_lag=300.0)

    assert len(found) == len(missing)
    assert all(part in text for part, text in zip(missing, found, strict=True))


def test_verdict_counts_what_was_confirmed_or_says_what_is_missing() -> None:
    story = told(UP, running(12.0, 4), DOWN, running(53.0, 2))

    assert verdict(story, []) == "PASSED: Flink confirmed 1 scale-up and 1 scale-down, and the lag drained"
    assert verdict(story, ["no scale-down", "no lag"]) == "FAILED: no scale-down; no lag"


AT = "2026-01-01T00:00:10.500000Z"


def line(event: str, **facts: object) -> str:
    return json.dumps({**facts, "event": event, "level": "info", "timestamp": AT})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(line("FutureWarning", logger="py.warnings"), id="a warning of a library"),
        pytest.param("Picked up JAVA_TOOL_OPTIONS", id="not JSON"),
        pytest.param('"text"', id="JSON, but no record"),
        pytest.param('{"event": "job_phase"}', id="a record without an instant"),
    ],
)
def test_lines_that_the_daemon_has_not_written_are_left_out(text: str) -> None:
    assert parse_line(text) is None


@pytest.fixture
def log_of_the_daemon() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handlers = logging.getLogger().handlers
    configure_logging(log_format="json", stream=written)
    yield written
    logging.getLogger().handlers = handlers
    structlog.reset_defaults()


def test_story_hears_what_the_event_handler_of_the_daemon_writes(log_of_the_daemon: io.StringIO) -> None:
    report = a_report(is_executed=True)
    LoggingEventHandler().handle_scaling_report(a_context("demo/orders"), report)
    record: Any = parse_line(log_of_the_daemon.getvalue().splitlines()[0])

    story = told(record)

    assert [(change.vertex, change.before, change.after) for change in story.changes] == [
        (vertex.name, vertex.current, vertex.new) for vertex in report.vertices.values()
    ]


def test_log_reader_gives_every_record_once_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    reader = LogReader(file)
    whole = line("http_listening", url="http://127.0.0.1:1")

    before = reader.new_records()
    file.write_text(f"noise\n{whole}\n{whole[:20]}")
    first = reader.new_records()
    with file.open("a") as log:
        log.write(whole[20:] + "\n")
    second = reader.new_records()

    assert before == reader.new_records() == []
    assert [each["at"] for each in (*first, *second)] == [1767225610.5, 1767225610.5]
