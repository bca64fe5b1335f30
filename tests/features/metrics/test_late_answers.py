"""Counters that are read long after their pass began: a sample has the instant of its answers."""

from __future__ import annotations

import time
from threading import Timer

import pytest

from testkit.fakes.flink import FakeFlink, chain
from testkit.fakes.flink.load import rates_of, repeated
from testkit.fakes.flink.metric_store import FakeMetricStore
from testkit.scenarios.runner.wired import passes_of

LOAD = 130.0
STALL = 3.0


def test_rates_are_those_of_the_load_though_the_cluster_stood_still() -> None:
    store = FakeMetricStore(interval=0.2)
    with FakeFlink(store=store) as flink:
        start_ms = time.time_ns() // 1_000_000 - 3_600_000
        job = flink.add_job("orders", chain(sources=1, vertices=2), start_ms=start_ms)
        for vertex in job.vertices:
            vertex.records_per_second = LOAD

        def look() -> None:
            store.asked(flink.taskmanager_metrics, [job])

        # An open page of Flink's web interface: what is answered after the stall is of then.
        with passes_of(flink) as passes, repeated(look, 0.05):
            for stall in (0.0, 0.0, STALL, 0.0, 0.0):
                if stall:
                    flink.gate = lambda request: request.path.startswith(f"/jobs/{job.job_id}")
                    Timer(stall, setattr, (flink, "gate", None)).start()
                (report,) = passes.run().reports.values()
                time.sleep(1.0)  # beside which the 0.1 s that no sample is moved by are little

    found = rates_of(report.outcome.state.samples, job.vertices[1].vertex_id)
    assert len(found) >= 3
    assert found == pytest.approx([LOAD] * len(found), rel=0.2)
