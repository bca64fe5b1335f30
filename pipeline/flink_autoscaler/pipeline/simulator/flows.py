"""What the meters of a simulated job show: rates, busy shares, and how long its vertices have waited."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, NamedTuple

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.pipeline.simulator.model import VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescalingJob

_SATURATED: Final = 0.999


@dataclass(frozen=True, slots=True)
class VertexFlow:
    """One vertex between two reports.

    Attributes:
        rate: Records/s received.
        busy: Share of its time that the hottest subtask was busy.
        busy_mean: The same on average over the subtasks.
        backpressured: Share of time that the average subtask waited for those behind it.
    """

    rate: float
    busy: float
    busy_mean: float
    backpressured: float

    @property
    def idle(self) -> float:
        """Share of time that the average subtask waited for input."""
        return max(0.0, 1 - self.busy_mean - self.backpressured)


class SpentTime(NamedTuple):
    """How the subtasks of a vertex have spent their time since its execution began, seconds summed over them."""

    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0


class Meters:
    """The meters of one job, read again and again.

    Args:
        job: The job.
        noise: Relative standard deviation of busy shares and rates; the time spent is exact.
        seed: Of the noise.
        sees_outages: Whether the meters begin anew with every execution. Those that do not run on through an outage,
            and take for busy what is neither idle nor backpressured, as Flink does.
    """

    def __init__(self, job: RescalingJob, *, noise: float, seed: int, sees_outages: bool) -> None:
        self._job, self._noise, self._sees_outages = job, noise, sees_outages
        self._chance = random.Random(seed)  # noqa: S311 - a simulation has to be repeatable
        self._read_at = 0.0
        self._served = list(job.fluid.served)
        self._execution = job.running_since
        self._spent: dict[VertexId, SpentTime] = {}

    def spent(self, vertex_id: VertexId) -> SpentTime:
        """Return how a vertex has spent its time until the meters were last read."""
        return self._spent.get(vertex_id, SpentTime())

    def read(self) -> dict[VertexId, VertexFlow] | None:
        """Return what happened at every vertex since the last time; None while the job is away.

        Only the time that the present execution has worked counts, as for Flink's own meters.
        """
        job, fluid, model = self._job, self._job.fluid, self._job.fluid.model
        since, base = self._since()
        self._read_at, self._served = fluid.now, list(fluid.served)
        seconds = fluid.now - since
        if not fluid.is_running or seconds <= 0:
            self._skip(seconds)
            return None
        taken = [max(0.0, s - b) / seconds for s, b in zip(fluid.served, base, strict=True)]
        rates = model.demand(taken)
        busy = {v: min(1.0, rate / fluid.capacity[v]) for v, rate in rates.items()}
        saturated = {v for v, share in busy.items() if share >= _SATURATED}
        flows = {}
        for vertex in model.vertices:
            v = vertex.vertex_id
            mean, is_blocked = busy[v] / vertex.skew, bool(model.behind[v] & saturated)
            flow = VertexFlow(rates[v], busy[v], mean, 1 - mean if is_blocked else 0.0)
            self._spend(v, flow, seconds, fluid.now - max(since, job.running_since))
            flows[v] = self._as_measured(vertex, flow)
        return flows

    def _since(self) -> tuple[float, list[float]]:
        """Return since when the meters count, and what had been served by then."""
        job = self._job
        if not self._sees_outages:
            return self._read_at, self._served
        if job.running_since != self._execution or not job.fluid.is_running:
            self._execution, self._spent = job.running_since, {}
        if job.running_since > self._read_at:
            return job.running_since, job.served_before
        return self._read_at, self._served

    def _spend(self, vertex_id: VertexId, flow: VertexFlow, seconds: float, running: float) -> None:
        """Count time of all subtasks: so many seconds, of which the job was running for some."""
        before, parallelism = self.spent(vertex_id), self._job.fluid.parallelism[vertex_id]
        blocked = flow.backpressured * running
        idle = max(0.0, running - flow.busy_mean * seconds - blocked)
        self._spent[vertex_id] = SpentTime(
            before.busy + parallelism * (seconds - idle - blocked),
            before.idle + parallelism * idle,
            before.backpressured + parallelism * blocked,
        )

    def _skip(self, seconds: float) -> None:
        """Count time in which nothing is known."""
        if self._sees_outages:
            return
        for vertex_id in self._job.fluid.model.gains:
            self._spend(vertex_id, VertexFlow(0.0, 0.0, 0.0, 0.0), seconds, 0.0)

    def _as_measured(self, vertex: VertexModel, flow: VertexFlow) -> VertexFlow:
        if not self._noise:
            return flow
        busy = min(1.0, max(0.0, flow.busy * (1 + self._noise * self._chance.gauss(0, 1))))
        rate = max(0.0, flow.rate * (1 + self._noise * self._chance.gauss(0, 1)))
        mean = busy / vertex.skew
        return VertexFlow(rate, busy, mean, 1 - mean if flow.backpressured else 0.0)
