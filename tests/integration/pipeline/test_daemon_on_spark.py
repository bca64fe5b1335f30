"""The daemon as a process with the default engine: what it evaluates where, and how it tells."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from testkit.builders.history import part_files
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, Fault
from testkit.processes import command_of, descendants_of
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.spark

START_SECONDS = 300.0
"""A busy machine takes its time to start Spark."""

CLUSTERS = 12
HANGING = ("c0", "c1", "c2")
"""More than Spark jobs of a kind run at the same time."""

TIMEOUT = 20.0
"""Seconds that a pass over a cluster waits for one that hangs, where it waits at all: many intervals."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("orders")
        yield fake


def passes(daemon: DaemonProcess, engine: str, cluster: str = "main") -> float:
    """Return how many passes over a cluster an engine has evaluated, as /metrics has it."""
    pattern = rf'flink_autoscaler_passes_total\{{cluster="{cluster}",engine="{engine}",result="succeeded"\}} (\S+)'
    found = re.search(pattern, daemon.page("/metrics"))
    return 0.0 if found is None else float(found[1])


def wait_for_spark(daemon: DaemonProcess, clusters: tuple[str, ...] = ("main",)) -> None:
    wait_until(
        "passes on Spark",
        lambda: all(passes(daemon, "spark", cluster) >= 2 for cluster in clusters),
        START_SECONDS,
        context=lambda: daemon.text()[-6000:],
    )


def workers_of(daemon: DaemonProcess) -> list[int]:
    """Return the Python workers of the daemon's Spark, and the process that they are forked from."""
    return [pid for pid in descendants_of(daemon.pid) if b"worker_daemon" in command_of(pid)]


def test_single_job_is_evaluated_on_spark_and_everything_says_so(daemon: DaemonProcess, flink: FakeFlink) -> None:
    daemon.configure({"main": flink.url}, autoscaler__engine__kind="spark", autoscaler__log__level="info")
    daemon.start()

    wait_for_spark(daemon)
    before = passes(daemon, "inline")
    on_spark = passes(daemon, "spark")
    daemon.wait_for("more passes", lambda: passes(daemon, "spark") >= on_spark + 5)
    readiness = json.loads(daemon.page("/readyz"))
    metrics = daemon.page("/metrics")
    told = [(line["engine"], line["reason"]) for line in daemon.lines("passes_evaluated_on")]
    workers = workers_of(daemon)

    slow = ("inline", "its cluster takes longer than 1 s")  # any cluster may look so while the machine is busy
    assert passes(daemon, "inline") == before or slow in told
    assert len(workers) >= 2
    assert not any("libarrow" in Path(f"/proc/{pid}/maps").read_text() for pid in workers)
    assert [each for each in dict.fromkeys(told) if each != slow] == [
        ("inline", "Spark is starting"),
        ("spark", "configured"),
    ]
    assert readiness["spark"] == {"up": True, "error": None}
    assert "flink_autoscaler_spark_up 1.0" in metrics
    assert "flink_autoscaler_spark_fallbacks_total 0.0" in metrics
    assert daemon.stop() == 0


def of_history(daemon: DaemonProcess, name: str) -> float:
    found = re.search(rf"^flink_autoscaler_history_{name} (\S+)$", daemon.page("/metrics"), re.MULTILINE)
    return -1.0 if found is None else float(found[1])


def instants_of(file: Path) -> list[datetime]:
    return list(pq.ParquetFile(file).read(columns=["ts"]).column("ts").to_pylist())


@pytest.mark.suite(name="spark")
def test_history_loses_nothing_with_the_session_of_the_passes(
    daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    options = {"enabled": "true", "path": str(history), "interval": "0 s", "flush-interval": "1 s"}
    named = {f"autoscaler__history__{name}": value for name, value in options.items()}
    daemon.configure({"main": flink.url}, autoscaler__engine__kind="spark", autoscaler__log__level="info", **named)
    daemon.start()
    wait_until("passes on Spark", lambda: passes(daemon, "spark") > 0, START_SECONDS)
    [session] = daemon.children("java")

    os.kill(session, signal.SIGKILL)
    written = of_history(daemon, "rows_written_total")
    wait_until("rows", lambda: of_history(daemon, "rows_written_total") > written, START_SECONDS)
    wait_until("the next session", lambda: daemon.children("java") not in ([], [session]), START_SECONDS)
    counted = passes(daemon, "spark") + passes(daemon, "inline")
    lost = of_history(daemon, "rows_lost_total"), of_history(daemon, "passes_lost_total")
    code = daemon.stop()
    instants = [at for file in part_files(history) if "decisions" in file.parts for at in instants_of(file)]

    assert (lost, code) == ((0.0, 0.0), 0)
    assert len(instants) >= counted
    assert len(instants) == len(set(instants))


@pytest.mark.suite(name="spark")
def test_auto_takes_spark_from_the_jobs_of_all_clusters_on(daemon: DaemonProcess, flink: FakeFlink) -> None:
    with FakeFlink() as other:
        other.add_job("payments")
        options = {"autoscaler__engine__kind": "auto", "autoscaler__engine__spark-min-jobs": "3"}
        daemon.configure({"main": flink.url, "other": other.url}, **options)
        daemon.start()
        daemon.wait_for("inline passes", lambda: passes(daemon, "inline") >= 2)
        told = [line["reason"] for line in daemon.lines("passes_evaluated_on")]

        other.add_job("refunds")
        wait_for_spark(daemon, ("main", "other"))

    assert told == ["auto: fewer than 3 jobs"]
    assert "auto: 3 jobs or more" in [line["reason"] for line in daemon.lines("passes_evaluated_on")]


def test_spark_that_does_not_start_is_told_once(daemon: DaemonProcess, flink: FakeFlink) -> None:
    broken = {"autoscaler__engine__kind": "spark", "autoscaler__engine__spark-config.spark.driver.memory": "100m"}
    daemon.configure({"main": flink.url}, **broken)
    daemon.start()

    daemon.wait_for("a refusal", lambda: daemon.lines("spark_pass_inline"))
    inline = passes(daemon, "inline")
    daemon.wait_for("more passes", lambda: passes(daemon, "inline") >= inline + 10)
    readiness = json.loads(daemon.page("/readyz"))

    assert len(daemon.lines("spark_pass_inline")) == 1
    assert readiness["ready"] is True
    assert readiness["spark"]["up"] is False
    assert "driver memory" in readiness["spark"]["error"]
    assert "flink_autoscaler_spark_up 0.0" in daemon.page("/metrics")


def test_no_other_cluster_waits_for_those_that_hang(daemon: DaemonProcess) -> None:
    with ExitStack() as stack:
        flinks = {f"c{number}": stack.enter_context(FakeFlink()) for number in range(CLUSTERS)}
        jobs = {name: flink.add_job("orders") for name, flink in flinks.items()}
        options = {
            "autoscaler__engine__kind": "spark",
            "autoscaler__standalone__control-loop.interval": "1 s",
            "job__autoscaler__flink__rest-client__timeout": f"{TIMEOUT:g} s",
        }
        daemon.configure({name: flink.url for name, flink in flinks.items()}, **options)
        daemon.start()
        wait_for_spark(daemon, tuple(flinks))

        for name in HANGING:  # with what a task asks for; the list of jobs, which the daemon itself reads, is there
            flinks[name].fault(f"/jobs/{jobs[name].job_id}", Fault.HANG)
            flinks[name].fault("/jobmanager/metrics", Fault.HANG)
        healthy = {name: flink for name, flink in flinks.items() if name not in HANGING}
        for flink in flinks.values():
            flink.requests.clear()

        def passes_begun(names: Iterable[str]) -> list[int]:
            return [flinks[name].paths().count("/jobs/overview") for name in names]

        def are_ahead() -> bool:
            """Whoever waited for one that hangs would have had about as many passes as that one."""
            slowest = min(passes_begun(healthy))
            return slowest >= 6 and slowest >= 3 * (1 + max(passes_begun(HANGING)))

        daemon.wait_for(
            "all that hang to be asked",
            lambda: all(f"/jobs/{jobs[name].job_id}" in flinks[name].paths() for name in HANGING),
        )
        wait_until(
            "far more passes over every other cluster than over those that hang",
            are_ahead,
            2 * START_SECONDS,
            context=lambda: f"{passes_begun(healthy)} {passes_begun(HANGING)}\n{daemon.text()[-6000:]}",
        )
