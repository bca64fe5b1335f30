"""The meters of a simulated job: rates, and how its subtasks spend their time."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.value import value
from flink_autoscaler.pipeline.simulator.model import VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescalingJob

METER_STEP: Final = 5.0
"""Seconds between two updates of Flink's meters (``MetricGroup.UPDATE_INTERVAL_SECONDS``)."""

_SATURATED: Final = 0.999


@dataclass(frozen=True, slots=True)
class MeterSettings:
    """Settings of the meters' accuracy.

    Attributes:
        window: Seconds over which rates and shares of time are means; 0: since they were last read.
        noise: Relative standard deviation of what is measured; counters are exact.
        seed: Of the noise.
        runs_on: Count through outages, as if the job ran all along.
    """

    window: float = 0.0
    noise: float = 0.0
    seed: int = 0
    runs_on: bool = False


@value
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


NOTHING: Final = VertexFlow(0.0, 0.0, 0.0, 0.0)


class SpentTime(NamedTuple):
    """Time of the subtasks of a vertex since its execution began, by state, in seconds summed over them."""

    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0


class _Tally(NamedTuple):
    """Counters of one vertex: records, and seconds that it was not busy or backpressured."""

    records: float = 0.0
    hottest_free: float = 0.0
    free: float = 0.0
    held: float = 0.0

    def with_flow(self, flow: VertexFlow, seconds: float) -> _Tally:
        """Return it with so many seconds of a flow."""
        return _Tally(
            self.records + flow.rate * seconds,
            self.hottest_free + (1 - flow.busy) * seconds,
            self.free + (1 - flow.busy_mean) * seconds,
            self.held + flow.backpressured * seconds,
        )


class _MinuteMeters:
    """Flink's own meters (``TimerGauge``, ``MeterView``): means over the latest updates of one execution.

    A rate is divided by the whole window from the beginning on, and what was not measured as free or held up counts as
    busy, so that a task that has just begun looks busy and slow.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._open: dict[VertexId, _Tally] = {}
        self._closed: deque[Mapping[VertexId, _Tally]] = deque(maxlen=max(1, round(window / METER_STEP)))

    def add(self, flows: Mapping[VertexId, VertexFlow], seconds: float) -> None:
        """Count so many seconds."""
        self._open = {v: self._open.get(v, _Tally()).with_flow(flow, seconds) for v, flow in flows.items()}

    def update(self) -> None:
        """Let what was counted be seen."""
        self._closed.append(self._open)
        self._open = {}

    def shown(self, vertex_id: VertexId) -> VertexFlow:
        """Return what can be seen of a vertex."""
        tallies = [each.get(vertex_id, _Tally()) for each in self._closed]
        sums = _Tally(*map(sum, zip(*tallies, strict=True))) if tallies else _Tally()
        seconds = METER_STEP * max(1, len(tallies))
        return VertexFlow(
            sums.records / self._window,
            max(0.0, 1 - sums.hottest_free / seconds),
            max(0.0, 1 - sums.free / seconds),
            min(1.0, sums.held / seconds),
        )


class Meters:
    """The meters of one job, read again and again.

    Args:
        job: The job.
        settings: How exact they are. The meters begin anew with every execution, except those that run on: they count
            through an outage, and take for busy what is neither idle nor backpressured, as Flink does.
    """

    def __init__(self, job: RescalingJob, settings: MeterSettings = MeterSettings()) -> None:
        self._job, self._settings = job, settings
        self._chance = random.Random(settings.seed)  # noqa: S311 - a simulation has to be repeatable
        self._read_at = 0.0
        self._served = list(job.fluid.served)
        self._execution = job.running_since
        self._spent: dict[VertexId, SpentTime] = {}
        self._minute = _MinuteMeters(settings.window)

    def spent(self, vertex_id: VertexId) -> SpentTime:
        """Return how a vertex has spent its time until the meters were last read."""
        return self._spent.get(vertex_id, SpentTime())

    def update(self) -> None:
        """Do what Flink does every ``METER_STEP`` seconds; only meters with a window have it done."""
        self._count()
        self._minute.update()

    def read(self) -> dict[VertexId, VertexFlow] | None:
        """Return what happened at every vertex since the last time, or in the window; None while the job is away.

        Only the time that the present execution has worked counts, as for Flink's own meters.
        """
        flows, fluid = self._count(), self._job.fluid
        if self._settings.window and fluid.is_running:
            flows = {v: self._minute.shown(v) for v in fluid.model.gains}
        if flows is None:
            return None
        if not self._settings.noise:
            return flows
        return {v.vertex_id: self._as_measured(v, flows[v.vertex_id]) for v in self._job.fluid.model.vertices}

    def _count(self) -> dict[VertexId, VertexFlow] | None:
        """Count what has happened since the last time, and return it; None while the job is away."""
        job, fluid, model = self._job, self._job.fluid, self._job.fluid.model
        since, base = self._since()
        self._read_at, self._served = fluid.now, list(fluid.served)
        seconds = fluid.now - since
        if not fluid.is_running or seconds <= 0:
            if self._settings.runs_on:
                for vertex_id in model.gains:
                    self._spend(vertex_id, NOTHING, seconds, 0.0)
            return None
        taken = [max(0.0, s - b) / seconds for s, b in zip(fluid.served, base, strict=True)]
        rates, capacity = model.demand(taken), fluid.capacity
        busy = {v: min(1.0, rate / capacity[v]) for v, rate in rates.items()}
        saturated = {v for v, share in busy.items() if share >= _SATURATED}
        running = fluid.now - max(since, job.running_since)
        flows = {}
        for vertex in model.vertices:
            v = vertex.vertex_id
            mean = busy[v] / self._hottest(vertex)
            is_blocked = bool(saturated) and not saturated.isdisjoint(model.behind[v])
            flows[v] = flow = VertexFlow(rates[v], busy[v], mean, 1 - mean if is_blocked else 0.0)
            self._spend(v, flow, seconds, running)
        if self._settings.window:
            self._minute.add(flows, seconds)
        return flows

    def _since(self) -> tuple[float, list[float]]:
        """Return since when the meters count, and what had been served by then."""
        job = self._job
        if self._settings.runs_on:
            return self._read_at, self._served
        if job.running_since != self._execution or not job.fluid.is_running:
            self._execution, self._spent = job.running_since, {}
            self._minute = _MinuteMeters(self._settings.window)
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

    def _as_measured(self, vertex: VertexModel, flow: VertexFlow) -> VertexFlow:
        noise = self._settings.noise
        busy = min(1.0, max(0.0, flow.busy * (1 + noise * self._chance.gauss(0, 1))))
        rate = max(0.0, flow.rate * (1 + noise * self._chance.gauss(0, 1)))
        mean = busy / self._hottest(vertex)
        return VertexFlow(rate, busy, mean, 1 - mean if flow.backpressured else 0.0)

    def _hottest(self, vertex: VertexModel) -> float:
        return vertex.hottest(self._job.fluid.parallelism[vertex.vertex_id])
