"""The fleet in a page: who is in trouble, in which words, and how much of it goes over the wire."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage
from flink_autoscaler.core.model.value import replace as replace_value
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.pipeline.pages.rendering import style
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.views.clusters import slot_hours_of_day
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


HOUR_MS = 3_600_000


def rescale(vertices: Iterable[str], at_ms: int, before: int, after: int) -> RescaleRecord:
    """Make a rescale of all vertices that was reached at once."""
    vertices = list(vertices)
    sizes = (dict.fromkeys(vertices, before), dict.fromkeys(vertices, after))
    return RescaleRecord(at_ms, at_ms, *sizes, stage=Stage.REACHED, settled_ms=at_ms)


@pytest.mark.parametrize(
    ("rescales", "saved"),
    [
        pytest.param([], None, id="never rescaled"),
        pytest.param([(30, 4, 1)], None, id="before the day"),
        pytest.param([(6, 4, 1)], 6 * 3.0, id="three slots fewer for six hours, of which alone is known"),
        pytest.param([(30, 1, 3), (6, 3, 1)], 6 * 2.0, id="the peak was held for 18 hours"),
        pytest.param([(6, 2, 5), (2, 5, 1)], 2 * 4.0, id="the peak was held for four hours"),
    ],
)
def test_what_rescales_saved_is_against_the_most_slots_of_the_day(
    web: WebSite, rescales: list[tuple[float, int, int]], saved: float | None
) -> None:
    report = web.run().reports["main/orders"]
    topology = report.outcome.observation.topology
    assert topology is not None
    past = tuple(
        rescale(topology.vertices, round(web.now_ms - hours * HOUR_MS), before, after)
        for hours, before, after in rescales
    )
    supervision = replace_value(report.outcome.state.supervision, past=past)
    state = replace(report.outcome.state, supervision=supervision)
    job = web.site.fleet.jobs()[0]
    job = replace(job, report=replace(report, outcome=replace(report.outcome, state=state)))

    usage = slot_hours_of_day(job, web.now_ms)

    assert (None if usage is None else usage.saved_hours) == pytest.approx(saved)


def test_jobs_are_those_of_a_team_by_key_name_or_label() -> None:
    teams = {"a": "main/ord*; yarn_queue=night?", "b": "pay[1]"}
    queues = {"pay[1]": "", "pay1": "", "slow": "nightl", "fast": "night"}
    endpoint = Endpoint("http://127.0.0.1:1")
    with operated(options={f"autoscaler.http.teams.{name}": text for name, text in teams.items()}) as web:
        report = web.run()
        others = tuple(
            JobAutoScalerContext(
                f"main/{name}", name, JobStatus.RUNNING, {}, endpoint, name, "main", labels={"yarn_queue": queue}
            )
            for name, queue in queues.items()
        )
        web.fleet.record_pass(PassReport("main", (*report.jobs, *others), report.requests, report.reports))
        found = {team: {each["name"] for each in web.get("/jobs", team=team)["jobs"]} for team in ("a", "b", "c")}

    assert found == {"a": {"orders", "slow"}, "b": {"pay[1]"}, "c": set()}


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
