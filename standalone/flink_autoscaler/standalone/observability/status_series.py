"""Series that are the fields of a status, read at every scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class StatusSeries(NamedTuple):
    """The fields of a status that are series.

    Attributes:
        prefix: Of the names of series, before the name of the field.
        counters: Fields that count, with their descriptions.
        gauges: The other ones; a gauge that is None has no series.
        label: What tells several statuses apart; empty where there is one, or none.
    """

    prefix: str
    counters: Mapping[str, str]
    gauges: Mapping[str, str]
    label: str = ""


CLUSTER_SERIES: Final = StatusSeries(
    "flink_autoscaler_cluster_",
    {},
    {
        "ready": "Whether a pass has succeeded lately.",
        "last_success_age_seconds": "Time since a pass succeeded.",
    },
    label="cluster",
)
NOTIFICATION_SERIES: Final = StatusSeries(  # URLs and keys are in no label
    "flink_autoscaler_notifications_",
    {
        "sent": "Events that a target took.",
        "failed": "Messages that a target did not take.",
        "retried": "Messages that were sent again after one that a target did not take.",
        "dropped": "Events that a target will not be told about: refused, given up, or too many at once.",
    },
    {
        "waiting": "Events that wait for a target; no series of daemons that stand by.",
        "failing": "Whether a target did not take the last message.",
    },
    label="target",
)
HISTORY_SERIES: Final = StatusSeries(
    "flink_autoscaler_history_",
    {
        "rows_written": "Rows written to the history.",
        "files_written": "Files added to the history.",
        "rows_lost": "Rows given up because too many waited for the path.",
        "passes_lost": "Passes given up because they came faster than rows.",
        "failures": "Attempts to write or to compact the history that failed.",
        "compaction_failures": "Attempts to compact the history that failed.",
    },
    {
        "up": "Whether the path of the history could be used at the last attempt.",
        "rows_waiting": "Rows that are not written yet.",
        "batches_waiting": "Batches that are due and could not be written yet.",
        "spilled_bytes": "Size of the spill folder.",
        "last_write_age_seconds": "Time since rows were last written.",
        "last_write_seconds": "Duration of the last write.",
        "last_compaction_timestamp_seconds": (
            "When the history was last compacted and rid of what is old, epoch seconds."
        ),
        "last_compaction_seconds": "How long that took.",
    },
)
PROFILE_BUILD_SERIES: Final = StatusSeries(
    "flink_autoscaler_forecast_build_",
    {
        "successes": "Runs that made the load profiles.",
        "failures": "Runs that failed.",
        "skipped": "Runs left out because the one before was still under way.",
    },
    {
        "running": "Whether load profiles are being made.",
        "next_timestamp_seconds": "When they are made next, epoch seconds.",
        "last_success_timestamp_seconds": "When the last run that made them ended, epoch seconds.",
        "last_seconds": "How long the last run took that ended, well or not.",
        "last_sources": "Sources that the last good run had a result for.",
        "last_profiles": "Sources that it had a profile for.",
    },
)


class StatusMetrics(Collector):
    """The series of one kind of status.

    Args:
        series: The fields.
        status: Asked from the threads of scrapes: a status or None, or all statuses by the value of the label.
    """

    def __init__(self, series: StatusSeries, status: Callable[[], Any]) -> None:
        self._series = series
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """Yield the series; none where there is no status."""
        prefix, counters, gauges, label = self._series
        status = self._status()
        if status is None:
            return
        statuses: Mapping[str, object] = status if label else {"": status}
        for family, fields in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
            for name, text in fields.items():
                metric = family(prefix + name, text, labels=(label,) if label else ())
                for value, each in statuses.items():
                    if (number := getattr(each, name)) is not None:
                        metric.add_metric([value] if label else [], float(number))
                if metric.samples or label:
                    yield metric
