"""Lets load arrive at a job of the fake cluster."""

from __future__ import annotations

import math

from testkit.fakes.flink import FakeJob

CAPACITY = 100.0
"""Records/s that one subtask can take."""


def up_and_down(seconds: float, period: float) -> float:
    """Return the records/s that arrive: a new amount in every period, up and down."""
    step = int(seconds / period) % 4
    return (150.0, 350.0, 90.0, 500.0)[step]


def drive(job: FakeJob, rate: float, seconds: float) -> None:
    """Let so many records/s arrive for so long; vertices are as busy with it as their parallelism allows."""
    for vertex in job.vertices:
        busy = min(1.0, rate / (CAPACITY * vertex.parallelism))
        vertex.metrics["busyTimeMsPerSecond"] = busy * 1000.0
        vertex.records_in += math.ceil(rate * seconds) if vertex.inputs else 0
        vertex.records_out += math.ceil(rate * seconds)
        for name, value in list(vertex.metrics.items()):
            if name.endswith(("numRecordsIn", "numRecordsOut")) and isinstance(value, float):
                vertex.metrics[name] = value + rate * seconds / vertex.parallelism
            elif name.endswith("numRecordsInPerSecond"):
                vertex.metrics[name] = rate / vertex.parallelism
