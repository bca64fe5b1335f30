"""Load on jobs of the fake cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import pairwise

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from testkit.fakes.flink.cluster import FakeFlink
from testkit.fakes.flink.job import FakeJob, chain


def overloaded(flink: FakeFlink) -> FakeJob:
    """Serve a job of a source and a vertex, ``work``, that has too much to do."""
    job = flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
    job.vertices[1].name = "work"
    job.vertices[1].metrics["busyTimeMsPerSecond"] = 1000.0
    return job


def stand_at(job: FakeJob, records: float, *, lag: float | None = None) -> None:
    """Let a source and a vertex behind it have passed on so many records since they began."""
    source, work = job.vertices
    for name in ("Source__source_0.numRecordsIn", "Source__source_0.numRecordsOut"):
        source.metrics[name] = records / source.parallelism
    source.records_out = work.records_in = round(records)
    if lag is not None:
        source.metrics["Source__source_0.pendingRecords"] = lag


def keep_counting(job: FakeJob) -> None:
    """Let the counters of a source and a vertex grow as they do while a job works."""
    source, work = job.vertices
    for name in ("Source__source_0.numRecordsIn", "Source__source_0.numRecordsOut"):
        source.metrics[name] = work.records_in + 100.0
    source.records_out = work.records_in = work.records_in + 100


@contextmanager
def repeated(work: Callable[[], None], seconds: float) -> Iterator[None]:
    """Do something again and again in a thread, so many seconds apart, as long as the context lasts."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(seconds):
            work()

    thread = threading.Thread(target=run, name="load")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def working(job: FakeJob) -> AbstractContextManager[None]:
    """Let the counters of a job grow all the time."""
    return repeated(partial(keep_counting, job), 0.02)


def rates_of(samples: Sequence[MetricSample], vertex_id: str) -> list[float]:
    """Return the records per second that a vertex received between samples."""
    counts = [(each.at_ms, each.vertices[vertex_id][ScalingMetric.NUM_RECORDS_IN]) for each in samples]
    return [1000 * (n - m) / (later - at) for (at, m), (later, n) in pairwise(counts)]
