"""Plans acted out: a job flows through a workload, and what the cheapest plan comes to is kept for the next time."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flink_autoscaler.pipeline.simulator import bounds, measures, model, rescales, run
from flink_autoscaler.pipeline.simulator.bounds import OracleParams, oracle
from flink_autoscaler.pipeline.simulator.measures import Trace
from flink_autoscaler.pipeline.simulator.model import FluidJob, JobModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleParams, RescalingJob
from flink_autoscaler.pipeline.simulator.run import flow_until
from flink_autoscaler.pipeline.simulator.workloads import Workload


@dataclass(frozen=True, slots=True)
class Played:
    """What a plan came to.

    Attributes:
        cost: Slot-seconds that the plan was made for, with those that outages and lateness are charged.
        slot_seconds: Slots that were held, times how long.
        late_seconds: With more lag than allowed.
        lag_p99: Seconds.
        rescales: How often the size changed.
    """

    cost: float
    slot_seconds: float
    late_seconds: float
    lag_p99: float
    rescales: int


@dataclass(frozen=True, slots=True)
class PlayTerms:
    """How the cheapest plan is made, and how it is acted out.

    Attributes:
        plan: What rescales cost in the plan.
        rescale: What they cost when it is acted out.
        slo_lag: Lag in seconds above which the job is too late.
    """

    plan: OracleParams = field(default_factory=OracleParams)
    rescale: RescaleParams = field(default_factory=RescaleParams)
    slo_lag: float = 60.0


def play(job: JobModel, workload: Workload, sizes: Sequence[int], bucket: float, terms: RescaleParams) -> Trace:
    """Act a plan out: every vertex has the size of a bucket from its beginning on, which lasts so many seconds."""
    trace, acted = Trace(), RescalingJob(FluidJob(job, _all(job, sizes[0])), terms)
    for number, size in enumerate(sizes, start=1):
        acted.request(_all(job, size))
        flow_until(acted, workload, min(number * bucket, workload.duration), trace)
    return trace


def _all(job: JobModel, size: int) -> dict[str, int]:
    return {vertex.vertex_id: size for vertex in job.vertices}


def played_oracle(job: JobModel, workload: Workload, terms: PlayTerms = PlayTerms()) -> Played:
    """Return what the cheapest plan comes to.

    Raises:
        ValueError: The job has several slot-sharing groups, or a demand is more than a vertex can take.
    """
    plan = oracle(job, workload, terms.plan)
    trace = play(job, workload, plan.sizes, plan.bucket_steps * workload.step, terms.rescale)
    late, p99 = trace.late_seconds(terms.slo_lag), trace.lag_percentiles((99,))[99]
    return Played(plan.cost, trace.slot_seconds, late, p99, plan.rescales)


@dataclass(frozen=True, slots=True)
class OracleCache:
    """Keeps what plans came to, a file for each.

    The name of a file is a digest of the arrivals, the job, the terms, and of the program that works it out, so that
    none of them can change unnoticed.

    Attributes:
        folder: Made where it is missing.
    """

    folder: Path

    def played(self, job: JobModel, workload: Workload, terms: PlayTerms = PlayTerms()) -> tuple[Played, bool]:
        """Return what ``played_oracle`` returns, and whether it was there already; raises the same."""
        path = self.folder / f"{_digest(job, workload, terms)}.json"
        if (known := _read(path)) is not None:
            return known, True
        found = played_oracle(job, workload, terms)
        _write(path, found)
        return found, False


def _digest(job: JobModel, workload: Workload, terms: PlayTerms) -> str:
    digest = hashlib.sha256()
    for module in (bounds, measures, model, rescales, run, sys.modules[__name__]):
        digest.update(inspect.getsource(module).encode())
    digest.update(repr((job.vertices, sorted(job.edges.items()), terms, workload.step, len(workload.rows))).encode())
    digest.update(array("d", (rate for row in workload.rows for rate in row)).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> Played | None:
    """Return what is in a file; None where there is none, or none that can be read."""
    try:
        return Played(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, found: Played) -> None:
    """Write a file at once, so that nobody who works beside reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8") as part:
        json.dump(asdict(found), part)
    os.replace(part.name, path)
