"""Clusters that misbehave beside one that does not, long lists, wide jobs, and names with any characters."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.service.loop import Daemon
from flink_autoscaler.standalone.settings.logs import configure_logging
from testkit.fakes.flink import FakeFlink, Fault, chain
from testkit.scenarios.runner import LogLines, Watching, run_passes, soon

INTERVAL = 0.1
HANG = 300.0
"""Timeout of requests to the cluster that hangs."""
KEY = re.compile(r"main/[^\x00-\x1f\x7f]*")
PATH = re.compile(r"(/jobs/[0-9a-f]{32}(/vertices/[0-9a-f]{32}/subtasks)?|/jobmanager|/taskmanagers)?(/[a-z]+){0,2}")

LINE = re.compile(r"\d{4}-\d\d-\d\dT|    [a-z_]+: |     +\S")
"""A line of the log for people, or a fact below it with what continues that: a line end of a name makes neither."""

NAMES = [
    pytest.param("line\nfeed\r\x1b[2J\x07", id="control characters"),
    pytest.param("🚀 orders 订单", id="emoji"),
    pytest.param('it\'s "quoted" `x` ${y} {z} %s', id="quotes and placeholders"),
    pytest.param("../../etc/passwd", id="slashes"),
    pytest.param("?get=x&a=b#c", id="signs of URLs"),
    pytest.param("n" * 10_000, id="10,000 characters"),
    pytest.param("\u202egnp.exe\u202c \u2066x", id="marks for right to left"),
    pytest.param("a\u2028b\u2029c\x85d\x0be", id="unusual line ends"),
    pytest.param("[bold]x[/bold]", id="markup"),
    pytest.param("", id="nothing"),
    pytest.param("half \ud83d", id="half of a surrogate pair"),
]


@pytest.fixture
def watching(lines: LogLines) -> Iterator[Watching]:
    with Watching(**dict.fromkeys(("fine", "hangs", "refuses", "html", "flaps", "main"), 60.0)) as watching:
        yield watching


def test_four_broken_clusters_delay_no_other_and_are_told_once_per_change(watching: Watching, lines: LogLines) -> None:
    def further(cluster: str, result: str, count: int = 1) -> None:
        """Wait for more passes with a result."""
        wanted = watching.passes(cluster, result) + count
        soon(f"{cluster}: {result}", lambda: watching.passes(cluster, result) >= wanted)

    with ExitStack() as parts:
        names = ("fine", "hangs", "refuses", "html", "flaps")
        clusters = {name: parts.enter_context(FakeFlink()) for name in names}
        for flink in clusters.values():
            flink.add_job("orders")
        clusters["hangs"].fault("/jobs/overview", Fault.HANG)
        clusters["refuses"].pause()
        clusters["html"].fault("/jobs/overview", Fault.HTML)
        watches = [watching.watch(flink, name, interval=INTERVAL, timeout=HANG) for name, flink in clusters.items()]
        daemon = Daemon(watches, gauges=watching.gauges)
        parts.callback(daemon.stop, 10.0)
        daemon.start()
        for _ in range(2):
            further("flaps", "succeeded")
            clusters["flaps"].fault("/jobs/overview", Fault.RESET)
            further("flaps", "failed")
            clusters["flaps"].clear_faults()
        further("flaps", "succeeded")
        further("fine", "succeeded", 20)
        hung_meanwhile = watching.passes("hangs", "failed") == 0
        clusters["hangs"].clear_faults()
        clusters["hangs"].pause()  # ends the request that hangs
        further("hangs", "failed")
        for mend in (clusters["hangs"].resume, clusters["refuses"].resume, clusters["html"].clear_faults):
            mend()
        for name in ("hangs", "refuses", "html"):
            further(name, "succeeded")

    assert hung_meanwhile
    assert watching.passes("fine", "failed") == 0
    for name, changes in {"fine": 0, "hangs": 1, "refuses": 1, "html": 1, "flaps": 2}.items():
        assert len(lines.of("cluster_failed", cluster=name)) == changes, name
        assert len(lines.of("cluster_recovered", cluster=name)) == changes, name


@pytest.mark.parametrize("name", NAMES)
def test_job_is_looked_after_whatever_its_name(
    flink: FakeFlink, watching: Watching, lines: LogLines, name: str
) -> None:
    vertices = chain()
    vertices[1].name = name
    flink.add_job(name, vertices)

    (report,) = run_passes(watching.watch(flink))

    ((job_key, found),) = report.reports.items()
    assert report.is_clean
    assert found.outcome.phase is PassPhase.COLLECTING
    assert KEY.fullmatch(job_key)
    assert len(job_key) <= 191
    assert len(lines.of("job_found", job_key=job_key)) == 1
    assert [path for path in flink.paths() if not PATH.fullmatch(path)] == []


@pytest.mark.parametrize("name", NAMES)
def test_log_line_for_people_stays_one_line_whatever_the_name(flink: FakeFlink, watching: Watching, name: str) -> None:
    stream = io.StringIO()
    vertices = chain()
    vertices[0].name = vertices[1].name = name
    vertices[1].metrics.clear()
    flink.add_job(name, vertices)
    configure_logging(log_format="console", level="debug", stream=stream)

    run_passes(watching.watch(flink), 2)

    written = stream.getvalue()
    assert all(LINE.match(line) for line in written.splitlines()), written
    assert "\x1b[2J" not in written


def test_list_of_5000_jobs_is_read_and_each_of_them_found_once(
    flink: FakeFlink, watching: Watching, lines: LogLines
) -> None:
    graph = chain(vertices=1)
    for number in range(5000):
        flink.add_job(f"job {number}", graph)

    reports = run_passes(watching.watch(flink, timeout=10.0, job_defaults={}), 2)

    assert [len(report.reports) for report in reports] == [5000, 5000]
    assert all(report.is_clean for report in reports)
    assert len(lines.of("job_found")) == 5000


def test_job_with_300_vertices_is_evaluated(flink: FakeFlink, watching: Watching) -> None:
    flink.add_job("wide", chain(sources=20, vertices=300), start_ms=1)

    reports = run_passes(watching.watch(flink, timeout=10.0), 2)

    outcome = reports[-1].reports["main/wide"].outcome
    assert outcome.error is None
    assert outcome.observation.sample is not None
    assert len(outcome.observation.sample.vertices) == 300
