"""How the keeping of the history goes, and what Prometheus is told about it. Imports no pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_PREFIX: Final = "flink_autoscaler_history_"


@dataclass(frozen=True, slots=True)
class HistoryCounts:
    """What the thread of the history has done since the start of the daemon, and what waits.

    Attributes:
        is_up: Whether the last access to the path succeeded; true before the first.
        rows: Written.
        files: Written.
        rows_lost: Given up because too many waited.
        passes_lost: Given up because the thread did not keep up.
        failures: Attempts to write or to compact that failed.
        waiting_rows: That are not written yet, on their way to a batch or in one.
        waiting_batches: That were closed and could not be written yet.
        written_at: When a batch was written last, epoch seconds; None before the first.
        write_seconds: That it took, with all batches that were due.
    """

    is_up: bool = True
    rows: int = 0
    files: int = 0
    rows_lost: int = 0
    passes_lost: int = 0
    failures: int = 0
    waiting_rows: int = 0
    waiting_batches: int = 0
    written_at: float | None = None
    write_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """The same at one instant.

    Attributes:
        spilled_bytes: In the spill folder.
        write_age: Seconds since the last batch was written; None before the first.
    """

    counts: HistoryCounts
    spilled_bytes: int
    write_age: float | None


class HistoryMetrics(Collector):
    """The series of the history, read at every scrape; none where no history is kept.

    Args:
        status: Asked from the threads of scrapes; None while no history is kept.
    """

    def __init__(self, status: Callable[[], HistoryStatus | None]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """Yield the series."""
        status = self._status()
        if status is not None:
            yield from _counters(status.counts)
            yield from _gauges(status)


def _counters(counts: HistoryCounts) -> Iterator[Metric]:
    yield _counter("rows_written", "Rows written to the history.", counts.rows)
    yield _counter("files_written", "Files added to the history.", counts.files)
    yield _counter("rows_lost", "Rows given up because too many waited for the path.", counts.rows_lost)
    yield _counter("passes_lost", "Passes given up because they came faster than rows.", counts.passes_lost)
    yield _counter("failures", "Attempts to write or to compact the history that failed.", counts.failures)


def _gauges(status: HistoryStatus) -> Iterator[Metric]:
    counts = status.counts
    yield _gauge("up", "Whether the path of the history could be used at the last attempt.", float(counts.is_up))
    yield _gauge("rows_waiting", "Rows that are not written yet.", counts.waiting_rows)
    yield _gauge("batches_waiting", "Batches that are due and could not be written yet.", counts.waiting_batches)
    yield _gauge("spilled_bytes", "Size of the spill folder.", status.spilled_bytes)
    if status.write_age is not None:
        yield _gauge("last_write_age_seconds", "Time since rows were last written.", status.write_age)
    if counts.write_seconds is not None:
        yield _gauge("last_write_seconds", "Duration of the last write.", counts.write_seconds)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(_PREFIX + name, text, value=value)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)
