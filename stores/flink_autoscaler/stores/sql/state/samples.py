"""The samples of a metric window as text: what they have in common, and what differs between them."""

from __future__ import annotations

import math
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexMetrics
from flink_autoscaler.core.observe.window import Layout, VertexTable
from flink_autoscaler.stores.sql.state.instants import instant_text

_KEYS = {metric: f'"{metric.name}":' for metric in ScalingMetric}


def number_text(value: float) -> str:
    """Write a number; those that JSON has none for are words."""
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def metrics_text(metrics: VertexMetrics) -> str:
    """Write metrics of one vertex, or of the cluster."""
    numbers = [f"{_KEYS[metric]}{number_text(value)}" for metric, value in metrics.items()]
    return "{" + ",".join(numbers) + "}"


class SampleForm(NamedTuple):
    """The text of a sample in its window, with gaps for the instant and for what was measured.

    Attributes:
        layout: Of the metrics of its vertices.
        globals_: The cluster-wide metrics.
        text: With a ``%s`` for every gap.
    """

    layout: Layout
    globals_: tuple[ScalingMetric, ...]
    text: str

    @classmethod
    def of(cls, sample: MetricSample) -> SampleForm:
        """Make the form of a sample."""
        layout, globals_ = VertexTable.of(sample.vertices).layout, tuple(sample.globals_)
        rows = ",".join(f"{quoted(v).replace('%', '%%')}:{_form(metrics)}" for v, metrics in layout.shape)
        return cls(layout, globals_, f'"%s":{{"vertexMetrics":{{{rows}}},"globalMetrics":{_form(globals_)}}}')

    def fits(self, sample: MetricSample) -> bool:
        """Tell whether a sample has the same metrics."""
        return VertexTable.of(sample.vertices).layout is self.layout and tuple(sample.globals_) == self.globals_

    def filled(self, entries: str) -> str:
        """Return the text of a sample.

        Args:
            entries: What :func:`sample_entries` returned for it.
        """
        return self.text % tuple(entries.split(" "))


def sample_entries(sample: MetricSample) -> str:
    """Return what is put into the form of a sample, with spaces between: the instant, and its numbers in order."""
    numbers = (*VertexTable.of(sample.vertices).numbers, *sample.globals_.values())
    # Called for every job in every pass, hence without a call per number where possible.
    texts = [repr(value) if value - value == 0.0 else number_text(value) for value in numbers]
    return " ".join((instant_text(sample.at_ms), *texts))


@lru_cache(maxsize=256)
def _form(metrics: tuple[ScalingMetric, ...]) -> str:
    """Return the text of some metrics with gaps for their values."""
    return "{" + ",".join(f"{_KEYS[metric]}%s" for metric in metrics) + "}"
