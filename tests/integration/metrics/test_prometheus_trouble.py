"""A real Prometheus that has series of replicas and of another cluster, and one that is restarted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.flink.driving import drive
from testkit.scenarios.runner.wired import settings_of
from testkit.servers.prometheus import Prometheus, require

RATE, TICK, TIMEOUT = 40.0, 0.3, 90.0
"""Records/s of a job of four subtasks that do 100 each: it has too many."""
KEY = "main/orders"
CHANGE = "recommended parallelism change"
"""What a daemon says that would rescale a job, and may not."""


@dataclass
class Site:
    """A cluster, its Prometheus, and what load arrives at both clusters."""

    flink: FakeFlink
    prometheus: Prometheus
    jobs: list[FakeJob]

    def one_pass(self, passes: ClusterPass) -> PassOutcome:
        for job in self.jobs:
            drive(job, RATE, TICK)
        return passes.run().reports[KEY].outcome

    def passes_until(self, what: str, passes: ClusterPass, claim: str) -> list[PassOutcome]:
        """Do passes until one has a reason or an error with some words; return all of them."""
        seen: list[PassOutcome] = []

        def is_said() -> bool:
            seen.append(self.one_pass(passes))
            return claim in said(seen[-1])

        wait_until(what, is_said, TIMEOUT, interval=TICK, context=lambda: said(seen[-1]))
        return seen


def said(outcome: PassOutcome) -> str:
    return " ".join([*(reason.text for reason in outcome.decision.reasons), str(outcome.error or "")])


@contextmanager
def a_daemon(site: Site, **options: str) -> Iterator[ClusterPass]:
    section = "autoscaler.clusters.0.metrics."
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": site.flink.url,
        f"{section}source": "prometheus",
        f"{section}prometheus.url": site.prometheus.url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.dry-run": "true",
        "autoscaler.standalone.state-store.type": "heap",
        "autoscaler.standalone.control-loop.interval": "500 ms",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.metrics.window": "3 s",
        "job.autoscaler.scale-down.interval": "0 s",
        **{f"{section}prometheus.{key}": text for key, text in options.items()},
    }
    settings = settings_of(values)
    with Wiring(settings) as wiring:
        yield wiring.cluster_pass(settings.effective_clusters()[0])


@contextmanager
def a_site(folder: Path) -> Iterator[Site]:
    """Two replicas' series of one cluster, and those of a job of the same name on another one."""
    require()
    began_ms = time.time_ns() // 1_000_000 - 3_600_000
    with ExitStack() as open_:
        flink, elsewhere = (open_.enter_context(FakeFlink()) for _ in range(2))
        jobs = [
            each.add_job("orders", chain(vertices=2, parallelism=4), start_ms=began_ms) for each in (flink, elsewhere)
        ]
        place, other = (each.url.removeprefix("http://") for each in (flink, elsewhere))
        more = [(place, {"replica": "b"}), (other, {"cluster": "other"})]
        rules: dict[str, list[str]] = {"groups": []}
        prometheus = open_.enter_context(Prometheus(folder, target=place, rules=rules, more=more))
        yield Site(flink, prometheus, jobs)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with a_site(tmp_path_factory.mktemp("trouble")) as opened:
        yield opened


def test_what_two_servers_scraped_counts_once_and_a_job_of_the_same_name_elsewhere_not_at_all(site: Site) -> None:
    with a_daemon(site) as passes:
        outcome = site.passes_until("the job is scaled down", passes, CHANGE)[-1]

    assert outcome.metrics is not None
    source = site.jobs[0].vertices[0].vertex_id
    target = outcome.metrics.vertices[source][ScalingMetric.TARGET_DATA_RATE].average
    assert target < 4 * RATE  # all series together have six times as many


def test_series_of_a_replica_that_nobody_named_are_told_and_nothing_is_scaled(site: Site) -> None:
    with a_daemon(site, **{"replica-labels": "prometheus_replica"}) as passes:
        seen = site.passes_until("told", passes, "is another cluster or replica among them?")

    assert not [outcome for outcome in seen if CHANGE in said(outcome)]


def test_a_prometheus_that_is_restarted_holds_its_jobs_until_it_has_scraped_them(
    tmp_path: Path,
) -> None:
    with a_site(tmp_path) as site, a_daemon(site) as passes:
        site.passes_until("the job is measured", passes, CHANGE)
        site.prometheus.stop()
        away = site.passes_until("told", passes, site.prometheus.url)
        site.prometheus.restart()
        back = site.passes_until("the job is measured again", passes, CHANGE)

    assert CHANGE not in said(away[-1])
    assert away[-1].observation.sample is None
    samples = [sample for outcome in back if (sample := outcome.observation.sample) is not None]
    rates = [sample.vertices[v][ScalingMetric.NUM_RECORDS_OUT] for sample in samples for v in list(sample.vertices)[:1]]
    assert rates == sorted(rates)
