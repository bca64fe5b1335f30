"""Jobs that can be simulated, with the arrivals that they are to see: fitted ones, and one made up for any workload."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import FULL_WEEKS
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.pipeline.backtest.arrivals import Quarters, Sample
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleTerms
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import DAY, MINUTE, WORKLOADS, Workload, earlier, made

OUTAGE: Final = 60.0
"""Seconds that a job is away for a rescale where nothing was measured."""

REPLAY: Final = 5.0
"""Age in seconds of the checkpoint that is restored."""

USUAL_PEAK: Final = 150e3
"""Records/s that the job is made for; 30 slots of it."""

PAST_WEEKS: Final = FULL_WEEKS
"""Weeks before the simulated period of which profiles are made."""

CHAIN_RATE: Final = 5_000.0
"""Records/s that a subtask of the narrowest vertex of the made-up job takes."""

MOST_SUBTASKS: Final = 720
_SELECTIVITY: Final = 0.5


@dataclass(frozen=True)
class Subject:
    """A job with its arrivals.

    Attributes:
        cluster: Name of its cluster, whose options count; None for a made-up job.
        initial: Parallelism at the beginning; None sizes the job for its first arrivals.
        outage: Seconds that it is away for a rescale.
        start_ms: Epoch milliseconds of the first arrivals.
        past: What arrived at every source before and during that, of which profiles are made; empty where no
            configuration asks for forecasts.
        notes: What had to be assumed, in full sentences.
    """

    job_key: str
    model: JobModel
    workload: Workload
    cluster: str | None = None
    initial: Mapping[VertexId, int] | None = None
    outage: float = OUTAGE
    start_ms: int = MONDAY_MS
    past: Mapping[VertexId, Quarters] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> RescaleTerms:
        """Terms of a rescale: its delay and its cost."""
        return RescaleTerms(self.outage, replay=REPLAY)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A job that cannot be simulated, and why."""

    job_key: str
    reason: str


@dataclass(frozen=True)
class FittedHistory:
    """Jobs fitted from a history.

    Attributes:
        damaged: What is wrong with files that were left out.
    """

    subjects: tuple[Subject, ...]
    left_out: tuple[LeftOut, ...] = ()
    damaged: tuple[str, ...] = ()

    @classmethod
    def of(cls, fitted: Iterable[Subject | LeftOut], damaged: tuple[str, ...] = ()) -> FittedHistory:
        """Put the jobs together, by key."""
        ordered = sorted(fitted, key=lambda each: each.job_key)
        return cls(
            tuple(each for each in ordered if isinstance(each, Subject)),
            tuple(each for each in ordered if isinstance(each, LeftOut)),
            damaged,
        )


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
    usual = WORKLOADS[name](seed=seed)
    job, workload = chain(usual), usual if days is None else made(name, seed, days * DAY)
    past = dict(zip(job.sources, _past(name, seed, workload), strict=True)) if with_past else {}
    return Subject(name, job, workload, past=past)


def _past(name: str, seed: int, workload: Workload) -> list[Quarters]:
    """Return by source what arrived in the weeks before a workload and then in it."""
    before = earlier(name, seed, PAST_WEEKS)
    since = MONDAY_MS / 1000 - before.duration
    columns = zip(*before.rows, *workload.rows, strict=True)
    return [
        Quarters.of(Sample(since + n * MINUTE, MINUTE, rate) for n, rate in enumerate(column)) for column in columns
    ]


def chain(workload: Workload, capacity: float | None = None) -> JobModel:
    """Make the job.

    Args:
        workload: What arrives.
        capacity: Records/s that a subtask of the narrowest vertex takes. None makes it for the usual peak; where ten
            times more or less arrives, as many times faster or slower.
    """
    peak = max(sum(row) for row in workload.rows)
    factor = 10.0 ** round(math.log10(peak / USUAL_PEAK)) if peak > 0 else 1.0
    factor = factor if capacity is None else capacity / CHAIN_RATE
    sources = [_vertex(f"a{number}", "source", 12_500.0 * factor) for number in range(len(workload.rows[0]))]
    mapped, window = _vertex("b", "map", CHAIN_RATE * factor), _vertex("c", "window", 10_000.0 * factor)
    edges = {(source.vertex_id, mapped.vertex_id): 1.0 for source in sources}
    edges[mapped.vertex_id, window.vertex_id] = _SELECTIVITY
    return JobModel((*sources, mapped, window), edges)


def _vertex(sign: str, name: str, rate: float) -> VertexModel:
    return VertexModel(sign.rjust(32, "0"), name, rate, max_parallelism=MOST_SUBTASKS)
