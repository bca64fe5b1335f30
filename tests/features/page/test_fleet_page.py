"""The fleet in a page: who is in trouble, in which words, and how much of it goes over the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.pipeline.pages.rendering import style
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.web.page.views import ROWS, brief
from testkit.builders.web import WebSite, operated
from testkit.fakes.flink.faults import Fault

LONGEST_LOAD = 100_000


@pytest.fixture
def web() -> Iterator[WebSite]:
    with operated() as web:
        yield web


def health(web: WebSite) -> str:
    (job,) = web.get("/jobs")["jobs"]
    return str(job["health"])


def test_a_job_without_trouble_is_healthy_and_a_paused_one_suspended(web: WebSite) -> None:
    web.run(3)
    before = health(web)
    web.client.post("/api/v1/commands", json={"job_key": "main/orders", "order": "pause", "reason": "x"})

    assert (before, health(web)) == ("healthy", "suspended")


def test_a_job_whose_records_wait_for_longer_than_allowed_is_behind_also_while_it_is_paused(web: WebSite) -> None:
    (job,) = web.flink.jobs.values()
    web.run(3)
    web.client.post("/api/v1/commands", json={"job_key": "main/orders", "order": "pause", "reason": "x"})
    job.vertices[0].metrics["Source__source_0.pendingRecords"] = 100_000.0
    web.run(3)

    assert health(web) == "behind"
    assert "▲" in web.client.get("/").text


def test_a_job_that_cannot_be_read_is_failing(web: WebSite) -> None:
    web.run()
    web.flink.fault(f"/jobs/{next(iter(web.flink.jobs))}", Fault.HTML)
    web.run()

    assert health(web) == "failing"
    assert web.get("/jobs", health="failing")["total"] == 1
    assert web.get("/jobs", health="healthy")["total"] == 0


def test_the_page_of_a_job_whose_options_cannot_be_read_has_no_sliders() -> None:
    with operated() as web:
        web.add("broken", user_config={"job.autoscaler.utilization.target": "much"})
        web.run(2)
        pages = [web.client.get("/job", params={"job": f"main/{name}"}) for name in ("orders", "broken")]

    assert [each.status_code for each in pages] == [200, 200]
    assert ["data-option=" in each.text for each in pages] == [True, False]


def test_a_rescale_is_a_tick_and_counted() -> None:
    with operated(options={"job.autoscaler.utilization.max": "0.8"}) as web:
        (job,) = web.flink.jobs.values()
        job.vertices[1].metrics["busyTimeMsPerSecond"] = 1000.0
        web.run()
        before = web.client.get("/job", params={"job": "main/orders"}).text
        web.decide("orders")
        web.run(2)
        (found,) = web.get("/jobs")["jobs"]
        page, job_page = web.client.get("/").text, web.client.get("/job", params={"job": "main/orders"}).text

    assert [each["is_up"] for each in found["rescales"]] == [True]
    assert "1 up, 0 down" in page
    assert "load lately, 1 rescales" in page
    assert "Takes back " in job_page
    assert "There is no rescale to take back" in before


def test_worst_comes_first_and_labels_are_found(web: WebSite) -> None:
    report = web.run()
    (context,) = report.jobs
    endpoint = Endpoint("http://127.0.0.1:1")
    other = JobAutoScalerContext(
        "main/zebra", "1", JobStatus.RUNNING, {}, endpoint, "zebra", "main", labels={"queue": "nightly"}
    )
    web.fleet.record_pass(PassReport("main", (context, other), report.requests, report.reports))

    assert [each["job_key"] for each in web.get("/jobs")["jobs"]] == ["main/zebra", "main/orders"]
    assert [each["job_key"] for each in web.get("/jobs", search="queue=Night")["jobs"]] == ["main/zebra"]


def test_the_first_load_of_ten_thousand_jobs_is_small(web: WebSite) -> None:
    (context,) = web.run().jobs
    name = "a-name-of-usual-length"
    endpoint = Endpoint("http://127.0.0.1:1")
    jobs = tuple(
        JobAutoScalerContext(f"main/{name}-{n}", f"{n}", JobStatus.RUNNING, {}, endpoint, name, "main")
        for n in range(10_000)
    )
    report = web.run()
    rendered = len(re.findall("<tr>.*?</tr>", web.client.get("/").text, re.DOTALL)[0])
    web.fleet.record_pass(PassReport("main", jobs, report.requests))
    page = web.client.get("/").text
    scripts = sum(len(web.client.get(f"/static/{each}").content) for each in ("theme.js", "page.js"))

    assert context.job_key == "main/orders"
    assert page.count('<th scope="row">') == ROWS
    assert "10000 jobs" in page
    # Rows of jobs that were looked at are longer.
    assert len(page) + ROWS * (rendered + 400) + len(style()) + scripts <= LONGEST_LOAD + len(page) // 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("within bounds", "within bounds", id="short"),
        pytest.param("a b c d e f g h i j", "a b c d e f g h…", id="many words"),
        pytest.param("a b c d e f g: h, i", "a b c d e f g: h…", id="without the comma"),
        pytest.param("x" * 65_000, "x" * 72 + "…", id="a word without an end"),
    ],
)
def test_a_reason_in_one_line_has_eight_words_at_most(text: str, words: str) -> None:
    assert brief(text) == words
