"""Passes that the daemon has before they are due, since a policy suspects an overload."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import pairwise
from pathlib import Path

import anxious_policy
import pytest
from core_builders import RecordingEvents, RecordingRealizer, RecordingStore
from fake_flink import FakeFlink, chain
from watching import LogLines
from watching.wired import settings_of

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.early import LookAgain
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies, PassReport
from flink_autoscaler.standalone.daemon.loop import Daemon, Watch
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.standalone.observability.announcer import Announcer
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from flink_cluster.waiting import wait_until

JOB = "main/orders"
LONG = 3600.0


def soon(description: str, probe: Callable[[], object]) -> None:
    wait_until(description, probe, timeout=30, interval=0.01)


class Lists:
    """A fetcher of one job."""

    def fetch(self) -> JobList:
        endpoint = Endpoint("http://127.0.0.1:1")
        return JobList((JobAutoScalerContext(JOB, "cd" * 16, JobStatus.RUNNING, {}, endpoint, "orders", "main"),))

    def close(self) -> None:
        pass


class Wishing:
    """An engine that asks in every pass for another one, so many milliseconds later; keeps when each began."""

    def __init__(self, after_ms: int, per_hour: int) -> None:
        self.after_ms, self.per_hour = after_ms, per_hour
        self.passes: list[tuple[float, str]] = []

    @property
    def early(self) -> int:
        """How many passes were early."""
        return sum(bool(early) for _, early in self.passes)

    def start(self) -> None:
        pass

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        (request,) = requests
        self.passes.append((time.monotonic(), request.early))
        wish = LookAgain(time.time_ns() // 1_000_000 + self.after_ms, "eager", self.per_hour)
        hold = Hold.because("TEST", "nothing to change")
        return [PassOutcome(JOB, PassPhase.EXECUTED, hold, look_again=wish)]

    def close(self) -> None:
        pass


class StandsBy(Leadership):
    """Never leads."""

    def term(self) -> int | None:
        return None

    def acting(self, term: int) -> AbstractContextManager[None]:
        return nullcontext()

    def may_act(self, seconds: float = 0.0) -> bool:
        return False


@pytest.fixture
def parts() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def watch_of(passes: ClusterPass, gauges: Gauges, interval: float) -> Watch:
    health = Health({passes.cluster: LONG})
    return Watch(passes, Announcer(gauges=gauges, health=health), interval)


def run_with(engine: Wishing, parts: ExitStack, interval: float, leadership: Leadership | None = None) -> Daemon:
    """Start a daemon whose one cluster has an engine."""
    gauges = Gauges()
    autoscaler = JobAutoScaler(store=RecordingStore(), realizer=RecordingRealizer(), event_handler=RecordingEvents())
    passes = ClusterPass(
        "main",
        fetcher=Lists(),
        engine=engine,
        autoscaler=autoscaler,
        parallelism=1,
        deadline=10.0,
        dependencies=PassDependencies(leadership or Leadership()),
    )
    parts.callback(passes.close)
    daemon = Daemon([watch_of(passes, gauges, interval)], gauges=gauges)
    daemon.start()
    parts.callback(daemon.stop, 10.0)
    return daemon


def test_a_pass_is_brought_forward_once_and_says_for_whom(parts: ExitStack) -> None:
    engine = Wishing(50, 12)
    with LogLines() as lines:
        run_with(engine, parts, LONG)
        soon("an early pass", lambda: len(engine.passes) == 2)

    (first, due), (second, early) = engine.passes
    (line,) = lines.of("pass_brought_forward")
    assert (due, early) == ("", f"eager of {JOB}")
    assert second - first < 20.0
    assert line["asked_by"] == f"eager of {JOB}"
    assert LONG - 30 < line["seconds"] < LONG


def test_what_is_due_stays_due_and_of_two_passes_in_a_row_one_is_early_at_most(parts: ExitStack) -> None:
    engine = Wishing(100, 1000)
    run_with(engine, parts, 0.5)

    soon("nine passes", lambda: len(engine.passes) >= 9)

    passes = engine.passes[:9]
    assert engine.early >= 1
    assert not any(one and other for (_, one), (_, other) in pairwise(passes))
    due = [at for at, early in passes if not early]
    assert due[-1] - due[0] == pytest.approx(0.5 * (len(due) - 1), abs=0.3)


def test_a_job_has_no_more_of_them_than_its_options_say(parts: ExitStack) -> None:
    engine = Wishing(20, 2)
    run_with(engine, parts, 0.2)

    soon("ten passes", lambda: len(engine.passes) >= 10)

    assert engine.early == 2


def test_a_daemon_that_stands_by_has_none(parts: ExitStack) -> None:
    engine = Wishing(20, 1000)
    run_with(engine, parts, 0.2, StandsBy())

    soon("six passes", lambda: len(engine.passes) >= 6)

    assert engine.early == 0


def test_a_cluster_that_has_gone_has_no_early_pass(parts: ExitStack) -> None:
    engine = Wishing(300, 12)
    with LogLines() as lines:
        daemon = run_with(engine, parts, LONG)
        soon("a pass brought forward", lambda: lines.of("pass_brought_forward"))

        daemon.remove("main")
        wait_until("the instant of the early pass", lambda: time.monotonic() > engine.passes[0][0] + 1.0, timeout=10)

    assert len(engine.passes) == 1
    assert lines.of("pass_failed") == []


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install the policy, which is known by its entry point alone."""
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_plugins.cache_clear()
    yield anxious_policy.install(tmp_path)
    installed_plugins.cache_clear()


def wired(urls: dict[str, str], policy: str, parts: ExitStack) -> tuple[Wiring, dict[str, Cluster]]:
    """Wire a daemon with two clusters, of which ``off`` has the improvement switched off."""
    options = {
        "autoscaler.engine.kind": "inline",
        "autoscaler.standalone.state-store.type": "MEMORY",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.policy": policy,
        "job.autoscaler.early-pass.delay": "5 s",
        "autoscaler.clusters.1.options.job.autoscaler.improvement.early-passes": "false",
    }
    for number, (name, url) in enumerate(urls.items()):
        options |= {f"autoscaler.clusters.{number}.name": name, f"autoscaler.clusters.{number}.url": url}
        options[f"autoscaler.clusters.{number}.interval"] = "7 s"
    settings = settings_of(options)
    wiring = parts.enter_context(Wiring(settings))
    return wiring, {cluster.name: cluster for cluster in settings.effective_clusters()}


def test_through_the_wiring_a_policy_looks_again_and_not_where_that_is_switched_off(
    parts: ExitStack, plugin: str
) -> None:
    flinks = {name: parts.enter_context(FakeFlink()) for name in ("on", "off")}
    for flink in flinks.values():
        flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
    wiring, clusters = wired({name: flink.url for name, flink in flinks.items()}, plugin, parts)
    gauges = Gauges()
    watches = [watch_of(wiring.cluster_pass(each), gauges, each.interval) for each in clusters.values()]
    reports: list[PassReport] = []
    with LogLines() as lines:
        daemon = Daemon(watches, gauges=gauges, on_report=reports.append)
        daemon.start()
        parts.callback(daemon.stop, 10.0)

        soon("an early pass", lambda: lines.of("pass_brought_forward"))
        soon("four passes", lambda: sum(report.cluster == "on" for report in reports) >= 4)

    reasons = {
        name: [
            reason.code
            for report in reports
            if report.cluster == name
            for each in report.reports.values()
            for reason in each.outcome.decision.reasons
        ]
        for name in clusters
    }
    assert "ANXIOUS" in reasons["off"]
    assert {"EARLY_PASS", "LOOKS_AGAIN"} <= set(reasons["on"])
    assert not {"EARLY_PASS", "LOOKS_AGAIN"} & set(reasons["off"])
    assert lines.of("pass_brought_forward", cluster="off") == []
