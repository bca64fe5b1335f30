"""Answers to instant queries: decoded piece by piece, with bounds."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from flink_autoscaler.clients.prometheus.vectors import (
    LONGEST_SERIES,
    MOST_SERIES,
    TooManySeriesError,
    Vector,
    VectorReader,
)
from flink_autoscaler.core.errors import ResponseError

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


def test_an_answer_without_series_is_one() -> None:
    assert decoded(an_answer()) == Vector([], (), ())


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
    assert len(vector.strange) == 1


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
        decoded(head + b'{"metric":{},"value":[1,"1"]},' * (MOST_SERIES + 1))


def test_a_series_without_end_is_refused() -> None:
    head = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"'

    with pytest.raises(ResponseError, match="too long"):
        decoded(head + b"x" * 3 * LONGEST_SERIES, 1 << 10)


@pytest.mark.parametrize("text", ["PromQL info: metric might not be a counter", "PromQL info: x"])
def test_hints_about_the_query_are_no_warnings(text: str) -> None:
    assert decoded(an_answer(ONE, warnings=[text, "a store did not answer"])).warnings == ("a store did not answer",)
