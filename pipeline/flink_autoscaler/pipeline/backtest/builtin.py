"""A made-up job for the built-in workloads: a source, a map and a window."""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.option import nearest
from flink_autoscaler.pipeline.backtest.subject import Subject
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.workloads import DAY, WORKLOADS, Workload

USUAL_PEAK: Final = 150e3
"""Records/s that the job is made for; 30 slots of it."""

_SELECTIVITY: Final = 0.5
_MOST: Final = 720


def builtin(name: str, *, days: float | None = None, seed: int = 0) -> Subject:
    """Make the job under a workload.

    Args:
        name: Of the workload.
        days: How long; a workload that is shorter is repeated. None takes it once.
        seed: The same seed gives the same workload.

    Raises:
        ConfigError: There is no such workload.
    """
    if name not in WORKLOADS:
        raise ConfigError(
            f"there is no workload '{name}'; known: {', '.join(WORKLOADS)}{nearest(name, list(WORKLOADS))}"
        )
    workload = WORKLOADS[name](seed)
    return Subject(name, chain(workload), workload if days is None else lasting(workload, days * DAY))


def lasting(workload: Workload, seconds: float) -> Workload:
    """Return a workload for so long: its beginning, or itself again and again."""
    count = max(1, round(seconds / workload.step))
    times = math.ceil(count / len(workload.rows))
    return Workload(workload.name, workload.step, (workload.rows * times)[:count])


def chain(workload: Workload) -> JobModel:
    """Make the job; where ten times more or less arrives than it is made for, it is as many times faster or slower."""
    peak = max(sum(row) for row in workload.rows)
    factor = 10.0 ** round(math.log10(peak / USUAL_PEAK)) if peak > 0 else 1.0
    sources = [_vertex(f"a{number}", "source", 12_500.0 * factor) for number in range(len(workload.rows[0]))]
    mapped, window = _vertex("b", "map", 5_000.0 * factor), _vertex("c", "window", 10_000.0 * factor)
    edges = {(source.vertex_id, mapped.vertex_id): 1.0 for source in sources}
    edges[mapped.vertex_id, window.vertex_id] = _SELECTIVITY
    return JobModel((*sources, mapped, window), edges)


def _vertex(sign: str, name: str, rate: float) -> VertexModel:
    return VertexModel(sign.rjust(32, "0"), name, rate, max_parallelism=_MOST)
