"""The loop over real sockets: schedules, independence, overruns, stopping."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from flink_autoscaler.standalone.service.loop import ClusterSchedule, Daemon
from testkit.builders.cluster_passes import a_listed_job
from testkit.fakes.flink import FakeFlink, Fault
from testkit.scenarios.runner import LogLines, Watching, soon

StartDaemon = Callable[..., Daemon]


@pytest.fixture
def start_daemon(watching: Watching) -> Iterator[StartDaemon]:
    with ExitStack() as running:

        def start(*watches: ClusterSchedule) -> Daemon:
            daemon = Daemon(watches, gauges=watching.gauges)
            daemon.start()
            running.callback(daemon.stop, 10.0)
            return daemon

        yield start


def passes(watching: Watching, cluster: str = "main", result: str = "succeeded") -> float:
    return watching.passes(cluster, result)


def test_what_stays_from_pass_to_pass_is_put_aside_for_the_collector_of_garbage(
    flink: FakeFlink, watching: Watching, start_daemon: StartDaemon
) -> None:
    before, kept = gc.get_freeze_count(), [[number] for number in range(50_000)]

    start_daemon(watching.watch(flink, interval=0.05))

    soon("what was kept is put aside", lambda: gc.get_freeze_count() >= before + len(kept))
    gc.unfreeze()


def test_pass_that_overruns_is_told_once_and_counted(
    flink: FakeFlink, watching: Watching, start_daemon: StartDaemon, lines: LogLines
) -> None:
    flink.delay = 0.4
    start_daemon(watching.watch(flink, interval=0.1))
    soon("overruns", lambda: (watching.sample("pass_overruns_total", cluster="main") or 0) >= 3)

    flink.delay = 0.0
    soon("recovery", lambda: lines.of("pass_overrun_recovered"))

    assert len(lines.of("pass_overran", cluster="main")) == 1
    assert {line.get("logger") for line in lines.all()} == {None}, "the scheduler adds no lines of its own"


def test_stop_waits_for_the_running_pass(flink: FakeFlink, watching: Watching) -> None:
    flink.delay = 0.3
    daemon = Daemon([watching.watch(flink, interval=3600)], gauges=watching.gauges)
    daemon.start()
    soon("the first request", lambda: flink.requests)

    is_idle = daemon.stop(10.0)

    assert is_idle
    assert passes(watching) == 1


def test_stop_gives_up_after_the_grace(flink: FakeFlink, watching: Watching) -> None:
    flink.fault("/jobs/overview", Fault.HANG)
    daemon = Daemon([watching.watch(flink, interval=3600, timeout=300.0)], gauges=watching.gauges)
    daemon.start()
    soon("the first request", lambda: flink.requests)

    is_idle = daemon.stop(0.1)

    assert not is_idle


class BrokenFetcher:
    """A plug-in that breaks its contract."""

    def __init__(self) -> None:
        self.calls = 0

    def fetch(self) -> JobList:
        self.calls += 1
        raise SystemError("out of luck")

    def close(self) -> None:
        pass


def test_broken_plugin_does_not_end_the_schedule(
    flink: FakeFlink, watching: Watching, start_daemon: StartDaemon, lines: LogLines
) -> None:
    fetcher = BrokenFetcher()
    start_daemon(watching.watch(flink, "other", interval=0.05, fetcher=fetcher))

    soon("three attempts", lambda: fetcher.calls >= 3)

    (line,) = lines.of("cluster_failed", cluster="other")
    assert line["error"] == "SystemError: out of luck"
    assert "Traceback" in line["exception"]


HOUR = 3600.0


LONG = 2.0


class Site:
    """A daemon, its clusters and what has left it."""

    def __init__(self, watching: Watching, lines: LogLines) -> None:
        self.watching = watching
        self.lines = lines
        self.left: list[ClusterSchedule] = []
        self.daemon = Daemon([], gauges=watching.gauges, on_left=self.left.append)

    def passes(self, cluster: str) -> float:
        return self.watching.passes(cluster)

    def pages(self) -> str:
        return b"".join(self.watching.gauges.texts()).decode()


@pytest.fixture
def site() -> Iterator[Site]:
    with LogLines() as lines, Watching() as watching:
        site = Site(watching, lines)
        site.daemon.start()
        yield site
        site.daemon.stop(10.0)


class Gate:
    """A fetcher whose passes last until they are let go; lists the jobs of the test."""

    def __init__(self, *jobs: str, is_open: bool = False) -> None:
        self.jobs = jobs
        self.begun = threading.Semaphore(0)
        self.may_go = threading.Event()
        self.closed = 0
        if is_open:
            self.may_go.set()

    def fetch(self) -> JobList:
        self.begun.release()
        self.may_go.wait(timeout=300)
        return JobList(tuple(a_listed_job(f"main/{name}", JobStatus.FINISHED) for name in self.jobs))

    def close(self) -> None:
        self.closed += 1


def test_two_hundred_clusters_can_be_added_and_none_waits_for_another(site: Site, flink: FakeFlink) -> None:
    gates = [Gate() for _ in range(210)]
    for number, gate in enumerate(gates):
        site.daemon.add_or_replace(site.watching.watch(flink, f"c{number}", interval=HOUR, fetcher=gate))

    all_at_once = [gate.begun.acquire(timeout=300) for gate in gates]
    for gate in gates:
        gate.may_go.set()

    assert all(all_at_once)
    assert site.daemon.is_alive()
    soon("all passes", lambda: all(site.passes(f"c{number}") == 1 for number in range(210)))


def test_changed_cluster_is_swapped_between_two_passes(site: Site, flink: FakeFlink) -> None:
    old, new = Gate("orders"), Gate("orders", is_open=True)
    before = site.watching.watch(flink, interval=0.05, fetcher=old)
    site.daemon.add_or_replace(before)
    assert old.begun.acquire(timeout=300)

    site.daemon.add_or_replace(site.watching.watch(flink, interval=0.05, fetcher=new))
    begun_meanwhile = new.begun.acquire(timeout=0.2)
    left_meanwhile = list(site.left)
    old.may_go.set()

    assert not begun_meanwhile
    assert left_meanwhile == []
    assert new.begun.acquire(timeout=300)
    soon("the old one to leave", lambda: site.left == [before])
    assert not old.begun.acquire(blocking=False)


def test_waiting_for_the_pass_before_is_no_overrun(site: Site, flink: FakeFlink) -> None:
    old, new = Gate(), Gate(is_open=True)
    site.daemon.add_or_replace(site.watching.watch(flink, interval=HOUR, fetcher=old))
    assert old.begun.acquire(timeout=300)

    # So long that no pass takes as much on a busy machine.
    site.daemon.add_or_replace(site.watching.watch(flink, interval=LONG, fetcher=new))
    # Another cluster shows that the scheduler goes on meanwhile.
    site.daemon.add_or_replace(site.watching.watch(flink, "other", interval=LONG))
    soon("three passes of another cluster", lambda: site.passes("other") >= 3)
    old.may_go.set()
    soon("passes", lambda: site.passes("main") >= 2)

    assert site.watching.sample("pass_overruns_total", cluster="main") == 0


def test_only_the_last_of_several_changes_during_a_pass_counts(site: Site, flink: FakeFlink) -> None:
    old, skipped, new = Gate(), Gate(is_open=True), Gate(is_open=True)
    watches = [site.watching.watch(flink, interval=HOUR, fetcher=each) for each in (old, skipped, new)]
    site.daemon.add_or_replace(watches[0])
    assert old.begun.acquire(timeout=300)

    site.daemon.add_or_replace(watches[1])
    site.daemon.add_or_replace(watches[2])
    old.may_go.set()

    assert new.begun.acquire(timeout=300)
    soon("both to leave", lambda: site.left == [watches[1], watches[0]])
    assert not skipped.begun.acquire(blocking=False)


def test_changed_cluster_still_knows_its_jobs(site: Site, flink: FakeFlink) -> None:
    site.daemon.add_or_replace(
        site.watching.watch(flink, interval=0.05, fetcher=(Gate("orders", "payments", is_open=True)))
    )
    soon("a pass", lambda: site.passes("main") >= 1)

    site.daemon.add_or_replace(site.watching.watch(flink, interval=0.05, fetcher=Gate("payments", is_open=True)))

    soon("one job to be gone", lambda: site.lines.of("job_removed"))
    assert [line["job_key"] for line in site.lines.of("job_removed")] == ["main/orders"]
    assert [line["job_key"] for line in site.lines.of("job_found")] == ["main/orders", "main/payments"]


def test_removed_cluster_is_not_looked_at_any_more_and_has_no_series(site: Site, flink: FakeFlink) -> None:
    flink.add_job("orders")
    with FakeFlink() as other:
        other.add_job("orders")
        site.daemon.add_or_replace(site.watching.watch(flink, "main", interval=0.02))
        site.daemon.add_or_replace(site.watching.watch(other, "other", interval=0.02))
        soon("passes", lambda: min(site.passes("main"), site.passes("other")) >= 2)

        site.daemon.remove("main")
        soon("the pass to end", lambda: len(site.left) == 1)
        requests, others = len(flink.requests), site.passes("other")
        soon("ten passes of the other", lambda: site.passes("other") >= others + 10)

    assert len(flink.requests) == requests
    assert 'cluster="main"' not in site.pages()
    assert 'cluster="other"' in site.pages()


def test_removed_cluster_keeps_its_states(site: Site, flink: FakeFlink) -> None:
    flink.add_job("orders")
    site.daemon.add_or_replace(site.watching.watch(flink, interval=HOUR))
    soon("a pass", lambda: site.passes("main") == 1)
    before = site.watching.store.load("main/orders")

    site.daemon.remove("main")

    assert site.watching.store.job_keys() == {"main/orders"}
    assert site.watching.store.load("main/orders") == before
    assert site.lines.of("job_removed") == []


def test_removed_cluster_ends_its_pass_first(site: Site, flink: FakeFlink) -> None:
    gate = Gate("orders")
    watch = site.watching.watch(flink, interval=0.05, fetcher=gate)
    site.daemon.add_or_replace(watch)
    assert gate.begun.acquire(timeout=300)

    site.daemon.remove("main")
    left_meanwhile = list(site.left)
    gate.may_go.set()

    soon("it to leave", lambda: site.left == [watch])
    assert left_meanwhile == []
    assert [line["job_key"] for line in site.lines.of("job_found")] == ["main/orders"]
    assert 'cluster="main"' not in site.pages()


def test_cluster_that_is_back_before_its_last_pass_has_ended_goes_on(site: Site, flink: FakeFlink) -> None:
    old, new = Gate("orders"), Gate("orders", is_open=True)
    site.daemon.add_or_replace(site.watching.watch(flink, interval=HOUR, fetcher=old))
    assert old.begun.acquire(timeout=300)
    site.daemon.remove("main")

    site.daemon.add_or_replace(site.watching.watch(flink, interval=HOUR, fetcher=new))
    old.may_go.set()

    soon("both passes", lambda: site.passes("main") == 2)
    assert len(site.lines.of("job_found")) == 1


def test_what_is_left_alone_keeps_its_schedule(site: Site, flink: FakeFlink) -> None:
    site.daemon.add_or_replace(site.watching.watch(flink, "main", interval=HOUR))
    soon("a pass", lambda: site.passes("main") == 1)

    with FakeFlink() as other:
        for _ in range(5):
            site.daemon.add_or_replace(site.watching.watch(other, "other", interval=0.02))
            soon("a pass of the other", lambda: site.passes("other") >= 1)
            site.daemon.remove("other")
            soon("no series of the other", lambda: 'cluster="other"' not in site.pages())

    assert site.passes("main") == 1


def test_cluster_that_hangs_delays_neither_the_others_nor_the_stop(flink: FakeFlink) -> None:
    with LogLines(), Watching() as watching, FakeFlink() as other:
        left: list[ClusterSchedule] = []
        flink.fault("/jobs/overview", Fault.HANG)
        hanging = watching.watch(flink, "main", interval=HOUR, timeout=2.0)
        daemon = Daemon([hanging], gauges=watching.gauges, on_left=left.append)
        daemon.start()
        soon("the first request", lambda: flink.requests)

        daemon.remove("main")
        daemon.add_or_replace(watching.watch(other, "other", interval=HOUR))
        soon("a pass of the other", lambda: watching.passes("other"))
        is_idle = daemon.stop(0.05)

    assert not is_idle
    assert left == []


class WorkingPasses:
    """Passes that leave work on a job behind until the test says that it is done."""

    cluster = "main"

    def __init__(self) -> None:
        self.is_working = True
        self.before: object = None

    def run(self) -> PassReport:
        return PassReport(self.cluster)

    def is_idle(self) -> bool:
        return not self.is_working

    def take_over(self, before: object) -> None:
        self.before = before

    def forget_jobs(self) -> None:
        pass


def working(site: Site) -> tuple[ClusterSchedule, WorkingPasses]:
    passes = WorkingPasses()
    announcer = PassReporter(gauges=site.watching.gauges, health=site.watching.health)
    return ClusterSchedule(passes, announcer, HOUR), passes  # type: ignore[arg-type]


def test_cluster_that_is_back_knows_what_is_still_under_way(site: Site) -> None:
    (first, old), (second, new) = working(site), working(site)
    site.daemon.add_or_replace(first)
    site.daemon.remove("main")

    site.daemon.add_or_replace(second)

    assert new.before is old


@pytest.mark.parametrize("is_working", [True, False])
def test_work_of_a_removed_cluster_counts_at_the_stop(is_working: bool) -> None:
    with LogLines() as lines, Watching() as watching:
        site = Site(watching, lines)
        watch, passes = working(site)
        site.daemon.start()
        site.daemon.add_or_replace(watch)
        soon("a pass", lambda: site.passes("main") == 1)
        site.daemon.remove("main")
        passes.is_working = is_working

        assert site.daemon.stop(1.0) is not is_working


def test_part_that_cannot_be_closed_disturbs_nobody(flink: FakeFlink) -> None:
    def fail(watch: ClusterSchedule) -> None:
        raise RuntimeError("stuck")

    with LogLines() as lines, Watching() as watching:
        daemon = Daemon([watching.watch(flink, interval=HOUR)], gauges=watching.gauges, on_left=fail)
        daemon.remove("main")

        daemon.add_or_replace(watching.watch(flink, interval=HOUR))

        assert [line["cluster"] for line in lines.of("close_failed")] == ["main"]
