from __future__ import annotations

import io
import json
import logging
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from flink_autoscaler.standalone.settings.logs import configure_logging
from flink_autoscaler.standalone.settings.secrets import mask_secrets


def logging_to(log_format: str, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    configure_logging(log_format=log_format, level=level, stream=stream)
    return stream


def _line(stream: io.StringIO) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(stream.getvalue())
    return line


def test_json_line_has_event_level_facts_and_utc_time() -> None:
    stream = logging_to("auto")

    structlog.get_logger().info("job_rescaled", vertex_id="ab", parallelism_after=6)

    line = _line(stream)
    instant = datetime.fromisoformat(line.pop("timestamp"))
    assert instant.utcoffset() == timedelta(0)
    assert line == {"event": "job_rescaled", "level": "info", "vertex_id": "ab", "parallelism_after": 6}


def test_bound_cluster_and_job_key_are_in_every_line() -> None:
    stream = logging_to("json")

    with structlog.contextvars.bound_contextvars(cluster="main", job_key="main/orders"):
        structlog.get_logger().info("something")

    assert _line(stream)["cluster"] == "main"
    assert _line(stream)["job_key"] == "main/orders"


def test_console_line_fits_the_terminal_and_has_its_details_below() -> None:
    stream = logging_to("console")
    reasons = [
        f"vertex {number}: needs 1232.0 records/s, has 472.326 at parallelism 1: factor 2.61" for number in "123"
    ]

    structlog.get_logger().info(
        "job_reasons",
        cluster="production",
        job_key="production/orders",
        phase="executed",
        decision="hold",
        reasons=[*reasons, "because " * 40],
        codes=[{"code": "SIZED", "target_rate": 1.0}],
    )

    head, *below = stream.getvalue().splitlines()
    assert max(map(len, (head, *below))) <= 120
    assert ("job_reasons" in head, "decision=hold" in head, "job_key=production/orders" in head) == (True, True, True)
    assert [line.strip() for line in below[:3]] == [f"reasons: {reasons[0]}", *reasons[1:]]
    assert "SIZED" not in stream.getvalue()


@pytest.mark.parametrize("name", ["a_fact", "changes"])
def test_console_keeps_a_fact_that_does_not_fit_the_line(name: str) -> None:
    stream = logging_to("console")

    structlog.get_logger().warning("something", **{name: "word " * 60})

    assert stream.getvalue().count("word") == 60


def test_level_hides_what_is_below() -> None:
    stream = logging_to("json", "warning")

    structlog.get_logger().info("hidden")

    assert stream.getvalue() == ""


@pytest.mark.parametrize("name", ["httpx", "py4j", "uvicorn.error"])
def test_library_lines_appear_from_warning_on(name: str) -> None:
    stream = logging_to("json", "debug")

    logging.getLogger(name).info("noise")
    logging.getLogger(name).warning("something %s", "odd")

    assert _line(stream)["event"] == "something odd"
    assert _line(stream)["logger"] == name


def test_scheduler_lines_appear_from_error_on() -> None:
    stream = logging_to("json", "debug")

    logging.getLogger("apscheduler.scheduler").warning("skipped")
    logging.getLogger("apscheduler.scheduler").error("broken")

    assert _line(stream)["event"] == "broken"


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secrets_do_not_reach_the_log(log_format: str) -> None:
    stream = logging_to(log_format)

    structlog.get_logger().info(
        "connecting",
        url="https://flink:hunter2@jobmanager:8081/",
        options={"security.ssl.key-password": "hunter2", "nested": [{"api_key": "hunter2"}]},
        token="hunter2",
    )
    logging.getLogger("httpx").warning("GET https://flink:hunter2@host failed, Authorization: Bearer hunter2")

    assert "connecting" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_traceback_shows_no_local_variables(log_format: str) -> None:
    stream = logging_to(log_format)

    def fail() -> None:
        local = "hunter" + "2"
        raise ValueError(f"{len(local)} characters")

    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("job_failed")

    assert "7 characters" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("plain", "plain", id="text"),
        pytest.param("http://u:p@h/x", "http://******@h/x", id="credentials in a URL"),
        pytest.param("http://h/x?mail=a@b", "http://h/x?mail=a@b", id="an at sign elsewhere"),
        pytest.param("Basic dXNlcjpwYXNz", "Basic ******", id="credentials in a header"),
        pytest.param({"password": "x", "user": "u"}, {"password": "******", "user": "u"}, id="mapping"),
        pytest.param({"api_key": "x", "job_key": "k"}, {"api_key": "******", "job_key": "k"}, id="Python names"),
        pytest.param({"Authorization": "x"}, {"Authorization": "******"}, id="request headers"),
        pytest.param(("a", 1, None), ["a", 1, None], id="sequence"),
    ],
)
def test_masked(value: object, expected: object) -> None:
    assert mask_secrets(value) == expected
