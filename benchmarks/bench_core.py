"""Evaluate and decide: CPU time of the pure part of a pass, without any request.

Run: ``python benchmarks/bench_core.py [--seconds 2]``. Prints the median of many passes in milliseconds, split into the
whole pass (``advance``) that decides nothing, its evaluation, and a pass that rescales all vertices, with and without
the second look at its plan.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import median

from rich.console import Console
from rich.table import Table

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings, evaluate
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.model.topology import (
    IoMetrics,
    JobDetails,
    PlanNode,
    ShipStrategy,
    VertexDetails,
    build_topology,
)
from flink_autoscaler.core.observe.metric_names import GC_TIME, JOBMANAGER_METRICS, TASKMANAGER_METRICS_WITH_GC
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest

JOB_ID = "a" * 32
START_MS = 1_700_000_000_000
INTERVAL_MS = 10_000
CONFIGURATION = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "0",
    "jobmanager.scheduler": "adaptive",
}
CLUSTER = ClusterReading(
    jobmanager=dict.fromkeys(JOBMANAGER_METRICS, "100"),
    taskmanagers={
        **dict.fromkeys(TASKMANAGER_METRICS_WITH_GC, Aggregate(1e8, 2e8, 1.5e8)),
        GC_TIME: Aggregate(1, 5, 2),
    },
)


def details(vertices: int, at_ms: int) -> JobDetails:
    """Make a chain of vertices whose counters have grown since the start."""
    seconds = (at_ms - START_MS) / 1000
    ids = [f"{number:032x}" for number in range(vertices)]
    io = IoMetrics(int(1000.5 * seconds), int(1000.5 * seconds), 612.25 * 4 * seconds)
    return JobDetails(
        JOB_ID,
        "job",
        "RUNNING",
        START_MS,
        tuple(VertexDetails(v, f"vertex {v}", 4, 128, "RUNNING", io) for v in ids),
        tuple(
            PlanNode(v, 4, ((ids[number - 1], ShipStrategy.HASH),) if number else ()) for number, v in enumerate(ids)
        ),
    )


def reading(vertices: int, at_ms: int) -> JobReading:
    """Make what the cluster says at an instant."""
    described = details(vertices, at_ms)
    values = {
        FlinkMetric.BUSY_TIME: Aggregate(500.1, 700.3, 612.25, 2449.0),
        FlinkMetric.BACKPRESSURE_TIME: Aggregate(0.0, 0.0, 0.0, 0.0),
        FlinkMetric.SOURCE_RECORDS_IN_RATE: Aggregate(250.0, 250.1, 250.125, 1000.5),
        FlinkMetric.PENDING_RECORDS: Aggregate(0.0, 300.0, 250.0, 1000.0),
        FlinkMetric.RECORDS_IN_RATE: Aggregate(250.0, 250.1, 250.125, 1000.5),
    }
    memory = CollectorMemory(reports_gc=True)
    return JobReading(described, {v.vertex_id: values for v in described.vertices}, memory)


ONE_LOOK = {"job.autoscaler.sample-check.enabled": "false"}
SCALED = {"job.autoscaler.utilization.target": "0.5", "job.autoscaler.utilization.max": "0.6"}
"""With these, the load calls for more of every vertex."""


def full_window(
    vertices: int, samples: int, options: Mapping[str, str] | None = None
) -> tuple[PassRequest, JobReading]:
    """Fill a window pass by pass and return the request and reading of the next one; ``options`` hold from then on."""
    window = {"job.autoscaler.metrics.window": f"{(samples - 1) * INTERVAL_MS} ms"}
    context = JobAutoScalerContext("b/job", JOB_ID, JobStatus.RUNNING, CONFIGURATION | window, Endpoint("http://none"))
    state: JobState = EMPTY_STATE
    for number in range(samples):
        at_ms = START_MS + number * INTERVAL_MS
        state = advance(PassRequest(context, state, at_ms), reading(vertices, at_ms), CLUSTER).state
    at_ms = START_MS + samples * INTERVAL_MS
    context = replace(context, configuration={**context.configuration, **(options or {})})
    return PassRequest(context, state, at_ms), reading(vertices, at_ms)


def milliseconds(call: Callable[[], object], seconds: float) -> float:
    """Return the median CPU time of a call."""
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.process_time_ns()
        call()
        times.append(time.process_time_ns() - started)
    return median(times) / 1e6


def rescaling(vertices: int, samples: int, options: Mapping[str, str], seconds: float) -> float:
    """Return the CPU time of a pass that decides to rescale."""
    request, answer = full_window(vertices, samples, {**SCALED, **options})
    assert isinstance(advance(request, answer, CLUSTER).decision, Rescale)
    return milliseconds(partial(advance, request, answer, CLUSTER), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="time per figure")
    arguments = parser.parse_args()
    table = Table("vertices", "samples", "whole pass ms", "evaluate ms", "budget ms", "with a plan ms", "one look ms")
    for vertices, samples, budget in ((10, 16, "0.8"), (10, 91, "1.2"), (100, 91, "-")):
        request, answer = full_window(vertices, samples)
        outcome = advance(request, answer, CLUSTER)
        assert outcome.phase == "executed", outcome
        topology = build_topology(details(vertices, request.now_ms))
        settings = EvaluationSettings.of(request.context.options, 300)
        whole = milliseconds(partial(advance, request, answer, CLUSTER), arguments.seconds)
        pure = milliseconds(partial(evaluate, topology, outcome.state.samples, settings), arguments.seconds)
        looks = [rescaling(vertices, samples, options, arguments.seconds) for options in ({}, ONE_LOOK)]
        table.add_row(
            str(vertices), str(samples), f"{whole:.3f}", f"{pure:.3f}", budget, *(f"{look:.3f}" for look in looks)
        )
    Console().print(table)


if __name__ == "__main__":
    main()
