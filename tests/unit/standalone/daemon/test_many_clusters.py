"""Clusters that misbehave beside one that does not, long lists, wide jobs, and names with any characters."""

from __future__ import annotations

import io
import itertools
import re
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.loop import Daemon
from flink_autoscaler.standalone.observability.logs import configure_logging
from testkit.builders.commands import restored_logging
from testkit.fakes.flink import FakeFlink, Fault, chain
from testkit.scenarios.watching import LogLines, Watching, run_passes, soon

INTERVAL = 0.1
HANG = 5.0
"""Timeout of requests to the cluster that hangs."""

PASSES = 100
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
def flinks() -> Iterator[Callable[[], FakeFlink]]:
    with ExitStack() as running:
        yield lambda: running.enter_context(FakeFlink())


@pytest.fixture
def watching(lines: LogLines) -> Iterator[Watching]:
    with Watching(**dict.fromkeys(("fine", "hangs", "refuses", "html", "flaps", "main"), 60.0)) as watching:
        yield watching


def passes(watching: Watching, cluster: str, result: str) -> float:
    return watching.passes(cluster, result)


def further(watching: Watching, cluster: str, result: str) -> None:
    """Wait for one more pass with a result."""
    before = passes(watching, cluster, result)
    soon(f"{cluster}: {result}", lambda: passes(watching, cluster, result) > before)


def starts(flink: FakeFlink) -> list[float]:
    return [request.at for request in flink.requests if request.path == "/jobs/overview"]


def test_four_broken_clusters_delay_no_other_and_are_told_once_per_change(
    flinks: Callable[[], FakeFlink], watching: Watching, lines: LogLines
) -> None:
    clusters = {name: flinks() for name in ("fine", "hangs", "refuses", "html", "flaps")}
    for flink in clusters.values():
        flink.add_job("orders")
    clusters["hangs"].fault("/jobs/overview", Fault.HANG)
    clusters["refuses"].pause()
    clusters["html"].fault("/jobs/overview", Fault.HTML)
    watches = [watching.watch(flink, name, interval=INTERVAL, timeout=HANG) for name, flink in clusters.items()]
    daemon = Daemon(watches, gauges=watching.gauges)

    daemon.start()
    try:
        for _ in range(2):
            further(watching, "flaps", "succeeded")
            clusters["flaps"].fault("/jobs/overview", Fault.RESET)
            further(watching, "flaps", "failed")
            clusters["flaps"].clear_faults()
        further(watching, "flaps", "succeeded")
        soon("a hundred passes", lambda: len(starts(clusters["fine"])) > PASSES)
        soon("the hanging one to time out", lambda: passes(watching, "hangs", "failed") >= 1)
        clusters["hangs"].clear_faults()
        clusters["refuses"].resume()
        clusters["html"].clear_faults()
        for name in ("hangs", "refuses", "html"):
            further(watching, name, "succeeded")
    finally:
        daemon.stop(10.0)

    times = starts(clusters["fine"])
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    p50, p95 = statistics.median(gaps), gaps[int(0.95 * len(gaps))]
    print(f"interval {INTERVAL}: {len(gaps)} passes, p50 {p50:.3f} p95 {p95:.3f} max {gaps[-1]:.3f}")
    assert gaps[-1] < HANG / 2
    assert passes(watching, "fine", "failed") == 0
    for name, changes in {"fine": 0, "hangs": 1, "refuses": 1, "html": 1, "flaps": 2}.items():
        assert len(lines.of("cluster_failed", cluster=name)) == changes, name
        assert len(lines.of("cluster_recovered", cluster=name)) == changes, name


@pytest.mark.parametrize("name", NAMES)
def test_job_is_looked_after_whatever_its_name(
    flinks: Callable[[], FakeFlink], watching: Watching, lines: LogLines, name: str
) -> None:
    flink = flinks()
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
def test_log_line_for_people_stays_one_line_whatever_the_name(
    flinks: Callable[[], FakeFlink], watching: Watching, name: str
) -> None:
    flink, stream = flinks(), io.StringIO()
    vertices = chain()
    vertices[0].name = vertices[1].name = name
    vertices[1].metrics.clear()
    flink.add_job(name, vertices)
    configure_logging(log_format="console", level="debug", stream=stream)

    run_passes(watching.watch(flink), 2)

    written = stream.getvalue()
    assert all(LINE.match(line) for line in written.splitlines()), written
    assert "\x1b[2J" not in written


def test_jobs_of_one_name_are_told_apart(flinks: Callable[[], FakeFlink], watching: Watching) -> None:
    flink = flinks()
    first, *later = (flink.add_job("orders", start_ms=at).job_id for at in (1, 2, 3))

    (report,) = run_passes(watching.watch(flink))

    assert report.reports["main/orders"].outcome.state.job_id == first
    assert report.reports.keys() == {"main/orders", *(f"main/orders#{job_id}" for job_id in later)}
    assert {found.outcome.phase for found in report.reports.values()} == {PassPhase.COLLECTING}


def test_job_whose_id_is_a_path_is_not_followed(
    flinks: Callable[[], FakeFlink], watching: Watching, lines: LogLines
) -> None:
    flink = flinks()
    flink.add_job("orders")
    flink.add_job("bad", job_id="../../jars/upload")

    (report,) = run_passes(watching.watch(flink))

    assert [line["part"] for line in lines.of("list_gap")] == ["entry 2 of the list of jobs"]
    assert report.reports.keys() == {"main/orders"}
    assert not any("jars" in path for path in flink.paths())


def test_list_of_5000_jobs_is_read_and_each_of_them_found_once(
    flinks: Callable[[], FakeFlink], watching: Watching, lines: LogLines
) -> None:
    flink = flinks()
    graph = chain(vertices=1)
    for number in range(5000):
        flink.add_job(f"job {number}", graph)

    reports = run_passes(watching.watch(flink, timeout=10.0, job_defaults={}), 2)

    assert [len(report.reports) for report in reports] == [5000, 5000]
    assert all(report.is_clean for report in reports)
    assert len(lines.of("job_found")) == 5000


def test_job_with_300_vertices_is_evaluated(flinks: Callable[[], FakeFlink], watching: Watching) -> None:
    flink = flinks()
    flink.add_job("wide", chain(sources=20, vertices=300), start_ms=1)

    reports = run_passes(watching.watch(flink, timeout=10.0), 2)

    outcome = reports[-1].reports["main/wide"].outcome
    assert outcome.error is None
    assert outcome.sample is not None
    assert len(outcome.sample.vertices) == 300


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Undo what commands do to the logging of this process."""
    with restored_logging():
        yield
