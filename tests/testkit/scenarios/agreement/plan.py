"""What happens when: half an hour of arrivals, and two policies with waits that are as short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from testkit.clusters.flink.curve import Curve
from testkit.clusters.flink.job import ScalingJob

SECONDS: Final = 1800.0
"""Length of the curve."""

LEAD_IN: Final = 5.0
"""Seconds at the base rate before the second 0 of the curve."""

CAPACITY, SLO = "capacity", "slo"
POLICIES: Final = (CAPACITY, SLO)
"""Each decides about a job of its own, of the same name."""

INTERVAL: Final = 10.0
"""Seconds between passes."""

LATE: Final = {CAPACITY: 20.0, SLO: 30.0}
"""Seconds of lag above which a job is late, by policy: so much that either is late for some minutes."""

SLOTS: Final = 8
"""That a job may take."""

COST_MICROS: Final = 20_000
"""Of a record: a subtask of the vertex *work* does 50 records/s, asleep, which is as many on a machine that is busy."""

PAYLOAD_BYTES: Final = 2000
"""Of a record: few of them fit into the buffers between two subtasks, where no lag is seen."""

MAX_PARALLELISM: Final = 120
"""Has many divisors, so that alignment to key groups rounds little."""

RESCALE_DELAY: Final = 2.0
"""Seconds for which Flink waits whether more slots come, before it rescales (the harness's configuration)."""

REPLAY: Final = 2.0
"""Seconds between checkpoints, of which Flink makes one before it rescales."""

CURVE: Final = Curve(
    (
        (-LEAD_IN, 30.0),
        (60.0, 30.0),
        (300.0, 120.0),  # a ramp
        (360.0, 120.0),
        (365.0, 300.0),  # a step
        (600.0, 300.0),
        (605.0, 120.0),
        (1080.0, 120.0),
        (1085.0, 380.0),  # a spike of a minute
        (1145.0, 380.0),
        (1150.0, 120.0),
        (1260.0, 120.0),
        (1500.0, 30.0),  # the decline
        (SECONDS, 30.0),
    )
)
"""Records/s that arrive."""

_SHARED: Final = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "10 s",
    "job.autoscaler.restart.time": "10 s",
    "job.autoscaler.vertex.max-parallelism": str(SLOTS),
}
_OWN: Final[Mapping[str, Mapping[str, str]]] = {
    CAPACITY: {
        # No multiple of the interval: else chance decides in which of two passes it is full.
        "job.autoscaler.metrics.window": "115 s",
        "job.autoscaler.scale-down.interval": "1 min",
        "job.autoscaler.catch-up.duration": "2 min",
    },
    SLO: {
        "job.autoscaler.policy": SLO,
        "job.autoscaler.slo.rescales-per-day": "200",
    },
}


def options(policy: str) -> dict[str, str]:
    """Return what is configured for the job of a policy, on the cluster and in the simulator."""
    return {**_SHARED, "job.autoscaler.slo.lag": f"{LATE[policy]:g} s", **_OWN[policy]}


def job(policy: str, start_ms: int) -> ScalingJob:
    """Return the job of a policy, with an instant for the second 0 of its curve."""
    return ScalingJob(
        name=policy,
        curve=str(CURVE),
        start_ms=start_ms,
        splits=SLOTS,
        partition_metrics=True,
        payload_bytes=PAYLOAD_BYTES,
        cost_micros=COST_MICROS,
        max_parallelism=MAX_PARALLELISM,
    )
