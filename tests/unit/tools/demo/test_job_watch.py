from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from demo.job_watch import running_parallelism, source_progress

FIXTURES = Path(__file__).parents[3] / "fixtures" / "flink-2.3"
PREFIX = "Source__orders.KafkaSourceReader.topic.orders.partition"


def job_details() -> dict[str, Any]:
    details: dict[str, Any] = json.loads((FIXTURES / "job_details.json").read_text())
    return details


def rows(offsets: list[float], lag: float | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"id": f"{PREFIX}.{split}.currentOffset", "max": offset, "sum": 2 * offset}
        for split, offset in enumerate(offsets)
    ]
    return found if lag is None else [*found, {"id": "Source__orders.pendingRecords", "sum": lag, "max": lag / 2}]


def test_parallelism_is_known_while_every_subtask_runs() -> None:
    details = job_details()

    parallelism = running_parallelism(details)

    assert parallelism == {vertex["name"]: vertex["parallelism"] for vertex in details["vertices"]}


def test_parallelism_is_unknown_while_a_subtask_is_not_running() -> None:
    details = job_details()
    details["vertices"][-1]["tasks"]["RUNNING"] -= 1

    assert running_parallelism(details) is None


def test_parallelism_is_unknown_while_the_job_restarts() -> None:
    assert running_parallelism({**job_details(), "state": "RESTARTING"}) is None


@pytest.mark.parametrize(
    ("answer", "progress"),
    [
        pytest.param(rows([9.0] * 8, 40.0), (40.0, 80.0), id="lags add up, offsets are the greatest of the subtasks"),
        pytest.param(rows([-1.0] * 8, 0.0), (0.0, 0.0), id="before the first record"),
        pytest.param(rows([9.0] * 7, 40.0), (40.0, None), id="a partition did not tell"),
        pytest.param(rows([9.0] * 8, None), (None, 80.0), id="no lag told"),
        pytest.param([], (None, None), id="nothing told"),
    ],
)
def test_source_progress_is_what_waits_and_what_was_taken(
    answer: list[dict[str, Any]], progress: tuple[float | None, float | None]
) -> None:
    assert source_progress(answer) == progress
