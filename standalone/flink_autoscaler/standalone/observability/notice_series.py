"""What Prometheus is told about notifications, by the name of their target; URLs and keys are in no label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flink_autoscaler.standalone.notifications.counts import TargetStatus

_PREFIX: Final = "flink_autoscaler_notifications_"
_LABELS: Final = ("target",)
_COUNTERS: Final = {
    "sent": "Events that a target took.",
    "failed": "Messages that a target did not take.",
    "retried": "Messages that were sent again after one that a target did not take.",
    "dropped": "Events that a target will not be told about: refused, given up, or too many at once.",
}
_GAUGES: Final = {
    "waiting": "Events that wait for a target; no series of daemons that stand by.",
    "failing": "Whether a target did not take the last message.",
}


class NoticeMetrics(Collector):
    """The series of all targets, read at every scrape; those of a target are there from its configuration on.

    Args:
        status: Asked from the threads of scrapes: targets by name.
    """

    def __init__(self, status: Callable[[], Mapping[str, TargetStatus]]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """Yield the series."""
        targets = self._status()
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(_PREFIX + name, text, labels=_LABELS)
            for target, status in targets.items():
                counter.add_metric([target], getattr(status, name))
            yield counter
        for name, text in _GAUGES.items():
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=_LABELS)
            for target, status in targets.items():
                if (value := getattr(status, name)) is not None:
                    gauge.add_metric([target], float(value))
            yield gauge
