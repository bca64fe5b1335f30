"""Answers about many jobs: the same figures, however they are written and in whatever pieces they come."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.clients.prometheus import vectors
from flink_autoscaler.clients.prometheus.queries import NAMES, PUSHED_AT, QueryBuilder
from flink_autoscaler.clients.prometheus.samples import JobSamples, SampleReader
from flink_autoscaler.clients.prometheus.vectors import (
    LONGEST_SERIES,
    MAX_SERIES,
    TooManySeriesError,
    Vector,
    VectorReader,
)
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.job import Endpoint, PrometheusSource

JOB, OTHER = "a" * 32, "b" * 32
COMPACT = (",", ":")
SPACED = (", ", ": ")


def a_series(value: object = "7", **labels: object) -> dict[str, Any]:
    return {"metric": dict(sorted(labels.items())), "value": [1700000000.5, value]}


SERIES = [
    a_series("1700000000.25", figure="at", job_id=JOB),
    a_series("4", figure="subtasks", job_id=JOB, task_id="v1"),
    a_series("0.5", figure="busy_max", job_id=JOB, task_id="v1"),
    a_series("12", figure="source_in", job_id=JOB, operator_name="Source:_a", task_id="v2"),
    a_series("3", figure="subtasks", job_id=OTHER, task_id="v1"),
]
EXPECTED = {
    JOB: JobSamples(1700000000.25, {"v1": {"subtasks": 4.0, "busy_max": 0.5}, "v2": {"source_in Source:_a": 12.0}}),
    OTHER: JobSamples(None, {"v1": {"subtasks": 3.0}}),
}


def read(series: list[object], separators: tuple[str, str], size: int = 1 << 16, **labels: str) -> SampleReader:
    answer = {"status": "success", "data": {"resultType": "vector", "result": series}}
    body = json.dumps(answer, separators=separators).encode()
    source = PrometheusSource(Endpoint("http://127.0.0.1:1"), labels=tuple(labels.items()))
    reader = SampleReader(QueryBuilder(source), [JOB, OTHER])
    for start in range(0, len(body), size):
        reader.take(body[start : start + size])
    reader.vector()
    return reader


@pytest.mark.parametrize("separators", [COMPACT, SPACED], ids=["as Prometheus writes", "with blanks"])
@pytest.mark.parametrize("size", [1, 7, 100, 300, 1 << 16])
def test_figures_are_sorted_by_job_and_vertex(separators: tuple[str, str], size: int) -> None:
    assert read([*SERIES], separators, size).found == EXPECTED


def test_the_oldest_instant_of_a_job_counts() -> None:
    later = a_series("1700000009", figure="at", job_id=JOB)

    assert read([later, *SERIES, later], COMPACT).found == EXPECTED


def test_jobs_that_were_not_asked_about_are_left_out() -> None:
    foreign = a_series("9", figure="subtasks", job_id="c" * 32, task_id="v1")

    assert read([foreign, *SERIES, foreign], COMPACT).found == EXPECTED


def test_labels_have_the_names_of_the_source() -> None:
    mapped = [a_series("4", figure="subtasks", flink_job=JOB, a_vertex="v1") for _ in range(3)]

    reader = read([*mapped], COMPACT, job_id="flink_job", task_id="a_vertex")

    assert reader.found == {JOB: JobSamples(None, {"v1": {"subtasks": 4.0}})}


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(a_series("5", figure="subtasks", job_id=JOB, task_id="v9", zone="x"), id="another label"),
        pytest.param(a_series("5", figure="subtasks", job_id=JOB, task_id='"},{"'), id="text like structure"),
        pytest.param(a_series("5", figure="subtasks", job_id=JOB, task_id="},{"), id="braces"),
        pytest.param({"value": [1, "5"], "metric": {"figure": "x", "job_id": JOB}}, id="value first"),
    ],
)
def test_odd_series_count_like_plain_ones(odd: dict[str, Any]) -> None:
    plain, spaced = (read([*SERIES, odd, *SERIES], separators).found for separators in (COMPACT, SPACED))

    assert plain == spaced
    assert 5.0 in [value for figures in plain[JOB].vertices.values() for value in figures.values()]


@pytest.mark.parametrize("wrong", [a_series("seven", figure="x", job_id=JOB), 5, None, [1], {"metric": {"a": 1}}])
def test_what_is_no_series_is_told_and_the_others_count(wrong: object) -> None:
    reader = read([*SERIES, wrong, *SERIES], COMPACT)

    assert reader.found == EXPECTED
    assert len(reader.vector().skipped) == 1


def test_an_answer_with_too_many_series_is_refused() -> None:
    many = [SERIES[1]] * (vectors.MAX_SERIES + 1)

    with pytest.raises(TooManySeriesError):
        read([*many], COMPACT)


def test_a_number_that_is_written_by_escapes_is_the_same_number() -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": SERIES}}, separators=COMPACT)
    reader = SampleReader(QueryBuilder(PrometheusSource(Endpoint("http://127.0.0.1:1"))), [JOB, OTHER])

    reader.take(body.replace('"12"', '"\\u0031\\u0032"').encode())
    reader.vector()

    assert reader.found == EXPECTED


ONE = {"metric": {"job_id": "a", "task_id": "b"}, "value": [1.5, "7"]}


def an_answer(*series: object, **more: object) -> bytes:
    fields: dict[str, Any] = {"status": "success", "data": {"resultType": "vector", "result": list(series)}, **more}
    return json.dumps(fields).encode()


def decoded(body: bytes, size: int = 1 << 16) -> Vector:
    reader = VectorReader()
    for start in range(0, len(body), size):
        reader.take(body[start : start + size])
    return reader.vector()


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1 << 16])
def test_pieces_of_any_size_give_the_same(size: int) -> None:
    odd = {"metric": {"operator_name": 'Source:_"]}, {ä'}, "value": [1, "2.5"]}

    vector = decoded(an_answer(ONE, odd, warnings=["some"]), size)

    assert [(dict(each.labels), each.value) for each in vector.series] == [
        ({"job_id": "a", "task_id": "b"}, 7.0),
        ({"operator_name": 'Source:_"]}, {ä'}, 2.5),
    ]
    assert vector.warnings == ("some",)


def test_nan_and_infinity_are_numbers() -> None:
    texts = ("NaN", "+Inf", "-Inf")

    values = [each.value for each in decoded(an_answer(*({"metric": {}, "value": [1, x]} for x in texts))).series]

    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"metric": {}, "value": [1, "many"]}, id="text"),
        pytest.param({"metric": {}, "value": [1, None]}, id="null"),
        pytest.param({"metric": {}, "value": [1]}, id="no value"),
        pytest.param({"metric": [], "value": [1, "1"]}, id="labels that are none"),
        pytest.param({"metric": {"a": 1}, "value": [1, "1"]}, id="a label that is no text"),
        pytest.param({"metric": {}, "values": [[1, "1"]]}, id="a range"),
        pytest.param("7", id="a scalar"),
    ],
)
def test_a_series_that_is_none_is_told_and_left_out(entry: object) -> None:
    vector = decoded(an_answer(ONE, entry))

    assert len(vector.series) == 1
    assert len(vector.skipped) == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html>", id="a page"),
        pytest.param(an_answer(ONE)[:-20], id="cut off"),
        pytest.param(an_answer(ONE)[:-1], id="without its end"),
        pytest.param(b'{"status":"success","data":{"resultType":"matrix","result":[]}}', id="a matrix"),
        pytest.param(b'{"status":"error","errorType":"timeout","error":"too slow"}', id="an error"),
        pytest.param(b'{"status":"success"}', id="no data"),
        pytest.param(b"[" * 100_000, id="brackets"),
        pytest.param(b'{"status":"success","data":{"resultType":"vector","result":["', id="a text without an end"),
    ],
)
def test_what_is_no_vector_is_refused(body: bytes) -> None:
    with pytest.raises(ResponseError):
        decoded(body)


def test_more_series_than_are_taken_are_refused() -> None:
    head = b'{"status":"success","data":{"resultType":"vector","result":['

    with pytest.raises(TooManySeriesError):
        decoded(head + b'{"metric":{},"value":[1,"1"]},' * (MAX_SERIES + 1))


def test_a_series_without_end_is_refused() -> None:
    head = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"'

    with pytest.raises(ResponseError, match="too long"):
        decoded(head + b"x" * 3 * LONGEST_SERIES, 1 << 10)


GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "prometheus-source.md"


@pytest.fixture(scope="module")
def kept() -> re.Pattern[str]:
    found = re.search(r"^ *regex: (.+)$", GUIDE.read_text(), re.MULTILINE)
    assert found is not None
    return re.compile(found[1])


@pytest.mark.parametrize("name", sorted(NAMES - {PUSHED_AT}))
def test_every_metric_that_is_asked_for_is_kept(kept: re.Pattern[str], name: str) -> None:
    assert kept.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["flink_taskmanager_job_task_checkpointAlignmentTime", "flink_jobmanager_job_uptime", "up"]
)
def test_what_nobody_asks_for_is_not(kept: re.Pattern[str], name: str) -> None:
    assert not kept.fullmatch(name)
