"""A real Prometheus scrapes Flink's metrics as its reporter exports them, and a daemon scales by what it knows.

The cluster is the fake one, whose page ``/metrics`` has the names and labels of Flink 1.20 and 2.3.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId, VertexMetrics
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.scenarios.runner.wired import passes_of
from testkit.servers.prometheus import Prometheus, require

JOBS = 40
RATE = 1000.0
TIMEOUT = 60.0
INTERVAL = "2s"
"""Time enough for a scrape of all jobs on a busy machine: one that takes longer makes all of them unknown."""
BUSY = "flink_taskmanager_job_task_busyTimeMsPerSecond"
OWN_PATH = "/metrics"


class Load(threading.Thread):
    """Lets all counters grow by a steady rate, whoever looks."""

    def __init__(self, jobs: list[FakeJob]) -> None:
        super().__init__(daemon=True)
        self._jobs = jobs
        self._ended = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(0.02):
            passed = time.monotonic() - began
            for vertex in (vertex for job in self._jobs for vertex in job.vertices):
                vertex.records_in = vertex.records_out = round(RATE * passed)
                vertex.busy_ms = 500.0 * passed * vertex.parallelism
                vertex.waited_ms = 500.0 * passed * vertex.parallelism

    def end(self) -> None:
        self._ended.set()
        self.join()


@dataclass
class Scraped:
    """A cluster, the Prometheus that scrapes it, and passes over it by Prometheus."""

    flink: FakeFlink
    prometheus: Prometheus
    passes: ClusterPass

    def one_pass(self) -> dict[str, PassOutcome]:
        self.flink.requests.clear()
        return {name: report.outcome for name, report in self.passes.run().reports.items()}

    @property
    def asked(self) -> list[str]:
        return [path for path in self.flink.paths() if path != OWN_PATH]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    require()
    with FakeFlink() as flink:
        began_ms = time.time_ns() // 1_000_000 - 3_600_000
        jobs = [
            flink.add_job(f"job {each}", chain(vertices=4, parallelism=2), start_ms=began_ms) for each in range(JOBS)
        ]
        load = Load(jobs)
        load.start()
        folder = tmp_path_factory.mktemp("metrics")
        target = flink.url.removeprefix("http://")
        with Prometheus(folder, target=target, rules={"groups": []}, interval=INTERVAL) as prometheus:
            wait_until("twice scraped", lambda: _scrapes(prometheus) >= 2, TIMEOUT)
            section = "autoscaler.clusters.0.metrics."
            source = {f"{section}source": "prometheus", f"{section}prometheus.url": prometheus.url}
            with passes_of(flink, **source) as passes:
                yield Scraped(flink, prometheus, passes)
        load.end()


def _scrapes(prometheus: Prometheus) -> float:
    found = prometheus.query(f"min(count_over_time({BUSY}[1m]))")
    return float(found[0]["value"][1]) if found else 0


def test_all_jobs_are_read_with_a_handful_of_queries_and_no_request_for_a_job(site: Scraped) -> None:
    site.one_pass()
    before = site.prometheus.queries_served()

    outcomes = site.one_pass()

    assert {
        reason.text for each in outcomes.values() if each.observation.sample is None for reason in each.decision.reasons
    } == set()
    assert {outcome.error for outcome in outcomes.values()} == {None}
    assert len(outcomes) == JOBS
    assert sorted(site.asked) == ["/jobs/overview", "/taskmanagers"]
    assert len(site.asked) + site.prometheus.queries_served() - before <= 15


def test_rates_are_exact_wherever_the_passes_lie_between_the_scrapes(site: Scraped) -> None:
    samples = []
    for pause in (0.0, 0.3, 1.75, 4.1):
        threading.Event().wait(pause)
        outcome = site.one_pass()["main/job 3"]
        assert outcome.observation.sample is not None
        samples.append(outcome.observation.sample)
    first, last = samples[0], samples[-1]
    for vertex_id, metrics in last.vertices.items():
        grown = metrics[ScalingMetric.NUM_RECORDS_OUT] - first.vertices[vertex_id][ScalingMetric.NUM_RECORDS_OUT]
        # The page is not made in no time, which on a busy machine is half a second in the six.
        assert 1000 * grown / (last.at_ms - first.at_ms) == pytest.approx(RATE, rel=0.15)


def test_a_reading_has_what_one_over_rest_has(site: Scraped) -> None:
    with passes_of(site.flink) as by_rest:
        told = {name: report.outcome for name, report in by_rest.run().reports.items()}
    known = site.one_pass()

    for name, outcome in told.items():
        assert outcome.observation.sample is not None
        other = known[name].observation.sample
        assert other is not None
        assert {v: _shape(metrics) for v, metrics in outcome.observation.sample.vertices.items()} == {
            v: _shape(metrics) for v, metrics in other.vertices.items()
        }
        assert outcome.observation.sample.globals_ == other.globals_
        assert outcome.memory.partitions == known[name].memory.partitions
        assert outcome.memory.topics == known[name].memory.topics != {}


def _shape(metrics: VertexMetrics) -> dict[str, float]:
    """Return the metrics that are there, and the values of those that stand still."""
    moving = (
        ScalingMetric.NUM_RECORDS_IN,
        ScalingMetric.NUM_RECORDS_OUT,
        ScalingMetric.ACCUMULATED_BUSY_TIME,
        ScalingMetric.OBSERVED_TPR,
    )
    return {str(metric): 0.0 if metric in moving else value for metric, value in metrics.items()}


def test_a_job_that_is_rescaled_is_unknown_until_it_is_scraped_and_then_read_anew(site: Scraped) -> None:
    job = next(job for job in site.flink.jobs.values() if job.name == "job 7")
    site.one_pass()
    source: VertexId = job.vertices[0].vertex_id
    job.rescale({source: 3})

    first = site.one_pass()["main/job 7"]

    assert first.observation.sample is None or first.observation.sample.at_ms >= job.running_at_ms

    def is_measured() -> bool:
        outcome = site.one_pass()["main/job 7"]
        return outcome.observation.sample is not None and outcome.error is None

    wait_until("the rescaled job is measured", is_measured, TIMEOUT)
