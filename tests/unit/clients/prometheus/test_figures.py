"""Answers about many jobs: the same figures, however they are written and in whatever pieces they come."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from flink_autoscaler.clients.prometheus import vectors
from flink_autoscaler.clients.prometheus.figures import FigureReader, JobFigures
from flink_autoscaler.clients.prometheus.questions import Questions
from flink_autoscaler.clients.prometheus.vectors import TooManySeriesError
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
    JOB: JobFigures(1700000000.25, {"v1": {"subtasks": 4.0, "busy_max": 0.5}, "v2": {"source_in Source:_a": 12.0}}),
    OTHER: JobFigures(None, {"v1": {"subtasks": 3.0}}),
}


def read(series: list[object], separators: tuple[str, str], size: int = 1 << 16, **labels: str) -> FigureReader:
    answer = {"status": "success", "data": {"resultType": "vector", "result": series}}
    body = json.dumps(answer, separators=separators).encode()
    source = PrometheusSource(Endpoint("http://127.0.0.1:1"), labels=tuple(labels.items()))
    reader = FigureReader(Questions(source), [JOB, OTHER])
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

    assert reader.found == {JOB: JobFigures(None, {"v1": {"subtasks": 4.0}})}


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
    assert len(reader.vector().strange) == 1


def test_infinity_and_nan_are_numbers() -> None:
    series = [a_series(text, figure=text, job_id=JOB, task_id="v1") for text in ("NaN", "+Inf", "NaN")]

    figures = read([*series], COMPACT).found[JOB].vertices["v1"]

    assert math.isnan(figures["NaN"])
    assert figures["+Inf"] == math.inf


def test_an_answer_with_too_many_series_is_refused() -> None:
    many = [SERIES[1]] * (vectors.MOST_SERIES + 1)

    with pytest.raises(TooManySeriesError):
        read([*many], COMPACT)


def test_a_number_that_is_written_by_escapes_is_the_same_number() -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": SERIES}}, separators=COMPACT)
    reader = FigureReader(Questions(PrometheusSource(Endpoint("http://127.0.0.1:1"))), [JOB, OTHER])

    reader.take(body.replace('"12"', '"\\u0031\\u0032"').encode())
    reader.vector()

    assert reader.found == EXPECTED
