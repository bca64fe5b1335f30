"""What a list of jobs and a pass look like for people and programs."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.cli.jobs import job_document, job_table
from flink_autoscaler.standalone.cli.output import Rows, table_of
from flink_autoscaler.standalone.cli.run import pass_document, pass_table
from flink_autoscaler.standalone.daemon.cluster_pass import PassReport

ON_YARN = {"yarn_application_id": "application_1_2", "yarn_queue": "root.a", "yarn_user": "ann"}


def a_job(name: str, **labels: str) -> JobAutoScalerContext:
    endpoint = Endpoint("http://127.0.0.1:1")
    return JobAutoScalerContext(f"c/{name}", "ab" * 16, JobStatus.RUNNING, {}, endpoint, name, "c", labels=labels)


def row(context: JobAutoScalerContext) -> dict[str, Any]:
    return {**job_document(context), "enabled": True, "parallelism": 2}


def words(table: Rows) -> list[list[str]]:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(table_of(*table))
    return [line.split() for line in capture.get().splitlines()]


def test_jobs_outside_yarn_have_no_columns_for_it() -> None:
    assert words(job_table([row(a_job("orders"))])) == [
        ["JOB", "JOB", "ID", "STATUS", "ENABLED", "PARALLELISM"],
        ["c/orders", "ab" * 16, "RUNNING", "yes", "2"],
    ]


def test_jobs_on_yarn_are_shown_with_application_queue_and_user() -> None:
    header, first, second = words(job_table([row(a_job("orders", **ON_YARN)), row(a_job("payments"))]))

    assert header[-3:] == ["APPLICATION", "QUEUE", "USER"]
    assert first[-3:] == ["application_1_2", "root.a", "ann"]
    assert second[-3:] == ["-", "-", "-"]


@pytest.mark.parametrize("labels", [pytest.param({}, id="none"), pytest.param(ON_YARN, id="YARN")])
def test_document_of_a_job_has_its_labels(labels: dict[str, str]) -> None:
    assert job_document(a_job("orders", **labels))["labels"] == labels


def test_gaps_of_a_list_are_shown() -> None:
    report = PassReport("c", gaps={"application_1_2": ConnectError("no answer")})

    _, line = words(pass_table([report]))

    assert line == ["c:", "application_1_2", "-", "gap", "-", "no", "answer"]
    assert pass_document([report])["clusters"][0]["gaps"] == {"application_1_2": "no answer"}
