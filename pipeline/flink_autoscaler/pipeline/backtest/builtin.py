"""A made-up job for the built-in workloads: a source, a map and a window."""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import FULL_WEEKS
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.pipeline.backtest.arrivals import Quarters, Rate
from flink_autoscaler.pipeline.backtest.subject import Subject
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import DAY, MINUTE, WORKLOADS, Workload, earlier, made

USUAL_PEAK: Final = 150e3
"""Records/s that the job is made for; 30 slots of it."""

PAST_WEEKS: Final = FULL_WEEKS
"""Weeks before the simulated period of which profiles are made."""

_SELECTIVITY: Final = 0.5
_MOST: Final = 720


def builtin(name: str, *, days: float | None = None, seed: int = 0, with_past: bool = False) -> Subject:
    """Make the job under a workload.

    Args:
        name: Of the workload.
        days: How long; a workload that is shorter, and knows no weeks, is repeated. None takes it once.
        seed: The same seed gives the same workload.
        with_past: Whether profiles are going to be made, of ``PAST_WEEKS`` weeks that the same generator makes.

    Raises:
        ConfigError: There is no such workload.
    """
    if name not in WORKLOADS:
        raise ConfigError(
            f"there is no workload '{name}'; known: {', '.join(WORKLOADS)}{nearest(name, list(WORKLOADS))}"
        )
    usual = WORKLOADS[name](seed)
    job, workload = chain(usual), usual if days is None else made(name, seed, days * DAY)
    past = dict(zip(job.sources, _past(name, seed, workload), strict=True)) if with_past else {}
    return Subject(name, job, workload, past=past)


def _past(name: str, seed: int, workload: Workload) -> list[Quarters]:
    """Return by source what arrived in the weeks before a workload and then in it."""
    before = earlier(name, seed, PAST_WEEKS)
    since = MONDAY_MS / 1000 - before.duration
    columns = zip(*before.rows, *workload.rows, strict=True)
    return [Quarters.of(Rate(since + n * MINUTE, MINUTE, rate) for n, rate in enumerate(column)) for column in columns]


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
