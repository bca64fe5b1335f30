"""How long a rescale took a job away, where Flink stops the job while it is asked: the daemon's own wiring."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from testkit.builders.orders import KEY, OrderedJob
from testkit.fakes.flink.metric_store import FakeMetricStore

HOUR_MS = 3_600_000


def test_a_rescale_begins_before_the_cluster_is_asked_however_long_an_earlier_pass_took_to_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OrderedJob(tmp_path, capsys) as site:
        # The first pass waits until metrics are gathered, and keeps the details; the second waits for nothing.
        site.flink.store = FakeMetricStore(interval=600.0, takes=1.5)
        site.flink.configuration["metrics.fetcher.update-interval"] = "600000"
        began_ms = time.time_ns() // 1_000_000 - HOUR_MS
        site.job.start_ms = site.job.running_at_ms = site.job.created_ms = began_ms
        for vertex in site.job.vertices:
            vertex.has_task_counters = True
        site.run()
        site.order("pin", KEY, "work=4", "--new")

        site.run()

        current = site.remembered().supervision.current
        assert current is not None
        assert site.running == 4
        assert current.since_ms <= (site.job.created_ms or 0)
        site.flink.store = None  # which would show the job as it was
        site.run_until("the rescale is reached", lambda: site.told("RescaleReached"))
        (text,) = site.told("RescaleReached")
        assert text.endswith(", downtime 0.0 s")
