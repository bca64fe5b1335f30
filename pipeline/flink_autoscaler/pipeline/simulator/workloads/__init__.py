"""Arrival rates over time: the shapes that autoscalers are compared with, by name, and recorded ones.

:mod:`.workload` says what a workload is; those in :mod:`.published` come from other evaluations, those in
:mod:`.weekly`, :mod:`.events` and :mod:`.chancy` are our own, and :mod:`.catalog` has all of them by name.
:mod:`.traces` reads recorded ones. The same seed gives the same rates.
"""

from flink_autoscaler.pipeline.simulator.workloads.catalog import WORKLOADS, earlier, made
from flink_autoscaler.pipeline.simulator.workloads.chancy import counts, flat, sparse, walk
from flink_autoscaler.pipeline.simulator.workloads.events import (
    bursts,
    launch,
    opposite,
    short_spikes,
    step,
    upstream_outage,
)
from flink_autoscaler.pipeline.simulator.workloads.published import (
    NEXMARK_RATES,
    cosine,
    nexmark,
    ramps,
    random_walk,
    sine,
    spikes,
    steps,
    traffic,
)
from flink_autoscaler.pipeline.simulator.workloads.traces import read_trace
from flink_autoscaler.pipeline.simulator.workloads.weekly import growth, holiday, office, swing, week_sine
from flink_autoscaler.pipeline.simulator.workloads.workload import (
    DAY,
    HOUR,
    MINUTE,
    WEEK,
    Row,
    Shape,
    Workload,
    lasting,
    recorded,
    shaped,
    side_by_side,
)

__all__ = [
    "DAY",
    "HOUR",
    "MINUTE",
    "NEXMARK_RATES",
    "WEEK",
    "WORKLOADS",
    "Row",
    "Shape",
    "Workload",
    "bursts",
    "cosine",
    "counts",
    "earlier",
    "flat",
    "growth",
    "holiday",
    "lasting",
    "launch",
    "made",
    "nexmark",
    "office",
    "opposite",
    "ramps",
    "random_walk",
    "read_trace",
    "recorded",
    "shaped",
    "short_spikes",
    "side_by_side",
    "sine",
    "sparse",
    "spikes",
    "step",
    "steps",
    "swing",
    "traffic",
    "upstream_outage",
    "walk",
    "week_sine",
]
