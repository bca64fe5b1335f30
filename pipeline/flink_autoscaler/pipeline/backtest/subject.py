"""A job that can be simulated, with the arrivals that it is to see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.pipeline.backtest.past import Quarters
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import FixedOutage, RescaleTerms
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
        return RescaleTerms(FixedOutage(self.outage), replay=REPLAY)

    def document(self) -> dict[str, Any]:
        """Return the same in types that JSON has."""
        return {
            "job_key": self.job_key,
            "vertices": [asdict(vertex) for vertex in self.model.vertices],
            "edges": [[*edge, selectivity] for edge, selectivity in self.model.edges.items()],
            "workload": asdict(self.workload),
            "cluster": self.cluster,
            "initial": None if self.initial is None else dict(self.initial),
            "outage": self.outage,
            "start_ms": self.start_ms,
            "past": {source: asdict(quarters) for source, quarters in self.past.items()},
            "notes": self.notes,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Subject:
        """Read what :meth:`document` made."""
        given = dict(document)
        vertices = [VertexModel(**{**v, "ship": ShipStrategy.of(v["ship"])}) for v in given.pop("vertices")]
        edges = {(upstream, downstream): selectivity for upstream, downstream, selectivity in given.pop("edges")}
        workload, past = given.pop("workload"), given.pop("past")
        rows = tuple(map(tuple, workload["rows"]))
        return cls(
            model=JobModel(tuple(vertices), edges),
            workload=Workload(workload["name"], workload["step"], rows),
            past={
                source: Quarters(**{name: tuple(values) for name, values in q.items()}) for source, q in past.items()
            },
            notes=tuple(given.pop("notes")),
            **given,
        )


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


class UnfitError(ValueError):
    """A job cannot be simulated; the message says why."""
