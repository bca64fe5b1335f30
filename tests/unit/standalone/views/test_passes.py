"""What a list of jobs and a pass look like for people and programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.cli.output import print_documents
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.views.listing import listing_table
from flink_autoscaler.standalone.views.passes import PASS_COLUMNS, pass_document, pass_rows

Words = Callable[[Mapping[str, str], Sequence[Mapping[str, Any]]], list[list[str]]]

ON_YARN = {"yarn_application_id": "application_1_2", "yarn_queue": "root.a", "yarn_user": "ann"}


def a_job(name: str, **labels: str) -> JobAutoScalerContext:
    endpoint = Endpoint("http://127.0.0.1:1")
    return JobAutoScalerContext(f"c/{name}", "ab" * 16, JobStatus.RUNNING, {}, endpoint, name, "c", labels=labels)


def row(context: JobAutoScalerContext) -> dict[str, Any]:
    (job,) = pass_document([PassReport("c", (context,))])["clusters"][0]["jobs"]
    return {**job, "enabled": True, "parallelism": 2}


@pytest.fixture
def words(capsys: pytest.CaptureFixture[str]) -> Words:
    def printed(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        print_documents("rows", rows, columns)
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    return printed


def test_jobs_outside_yarn_have_no_columns_for_it(words: Words) -> None:
    assert words(*listing_table([row(a_job("orders"))])) == [
        ["JOB", "JOB", "ID", "STATUS", "ENABLED", "PARALLELISM"],
        ["c/orders", "ab" * 16, "RUNNING", "yes", "2"],
    ]


def test_jobs_on_yarn_are_shown_with_application_queue_and_user(words: Words) -> None:
    header, first, second = words(*listing_table([row(a_job("orders", **ON_YARN)), row(a_job("payments"))]))

    assert header[-3:] == ["APPLICATION", "QUEUE", "USER"]
    assert first[-3:] == ["application_1_2", "root.a", "ann"]
    assert second[-3:] == ["-", "-", "-"]


@pytest.mark.parametrize("labels", [pytest.param({}, id="none"), pytest.param(ON_YARN, id="YARN")])
def test_document_of_a_job_has_its_labels(labels: dict[str, str]) -> None:
    assert row(a_job("orders", **labels))["labels"] == labels


def test_gaps_of_a_list_are_shown(words: Words) -> None:
    report = PassReport("c", gaps={"application_1_2": ConnectError("no answer")})

    _, line = words(PASS_COLUMNS, list(pass_rows([report])))

    assert line == ["c:", "application_1_2", "-", "gap", "-", "no", "answer"]
    assert pass_document([report])["clusters"][0]["gaps"] == {"application_1_2": "no answer"}
