"""What Prometheus is told about a part of the daemon that has one status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class StatusMetrics(Collector):
    """The fields of a status as series, read at every scrape; no series where there is no status, or a gauge is None.

    Args:
        prefix: Of the names of series, before the name of the field.
        counters: Fields that count, with their descriptions.
        gauges: The other ones.
        status: Asked from the threads of scrapes.
    """

    def __init__(
        self, prefix: str, counters: Mapping[str, str], gauges: Mapping[str, str], status: Callable[[], object | None]
    ) -> None:
        self._prefix, self._counters, self._gauges, self._status = prefix, counters, gauges, status

    def collect(self) -> Iterable[Metric]:
        """Yield the series."""
        status = self._status()
        if status is None:
            return
        for name, text in self._counters.items():
            yield CounterMetricFamily(self._prefix + name, text, value=getattr(status, name))
        for name, text in self._gauges.items():
            value = getattr(status, name)
            if value is not None:
                yield GaugeMetricFamily(self._prefix + name, text, value=float(value))
