"""A job that can be simulated, with the arrivals that it is to see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.pipeline.backtest.arrivals import Quarters
from flink_autoscaler.pipeline.simulator.model import JobModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleTerms
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import Workload

OUTAGE: Final = 60.0
"""Seconds that a job is away for a rescale where nothing was measured."""

REPLAY: Final = 5.0
"""Age in seconds of the checkpoint that is restored."""


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
        """What a rescale costs."""
        return RescaleTerms(self.outage, replay=REPLAY)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A job that cannot be simulated, and why."""

    job_key: str
    reason: str


@dataclass(frozen=True)
class FittedHistory:
    """What a history came to.

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
