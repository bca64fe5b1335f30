"""Metrics that Flink would report about a simulated job: the readings that a pass of the autoscaler begins with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading, VertexAggregates
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, PlanNode, VertexDetails
from flink_autoscaler.core.observe import metric_names
from flink_autoscaler.pipeline.simulator.meters import METER_STEP, NOTHING, Meters, MeterSettings, VertexFlow
from flink_autoscaler.pipeline.simulator.model import VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescalingJob

JOB_ID: Final = "5" * 32
_MS: Final = 1000.0
_HEAP: Final = 1e9
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Settings of a simulated cluster's reports.

    Attributes:
        noise: Relative standard deviation of what is measured (busy time and rates); counters are exact.
        seed: Of the noise.
        feeds_zeros: Report zeros during an outage, as if the job ran all along, instead of nothing: what a metric
            system does that keeps no account of restarts.
        slots_per_taskmanager: TaskManagers come and go with the slots that the job needs.
        checkpoint_interval: Seconds between checkpoints.
        meter_window: Seconds over which rates and busy times are means: 60 for Flink's own meters, which are updated
            every five seconds and begin anew with every execution. 0: since they were last read, which is as good
            where a minute passes between two readings.
    """

    noise: float = 0.0
    seed: int = 0
    feeds_zeros: bool = False
    slots_per_taskmanager: int = 1
    checkpoint_interval: float = 60.0
    meter_window: float = 0.0

    @property
    def meters(self) -> MeterSettings:
        """Settings that the meters take from these."""
        return MeterSettings(self.meter_window, self.noise, self.seed, self.feeds_zeros)


class Reporter:
    """Reports about one job, pass after pass.

    Args:
        job: The job.
        settings: How it reports.
        start_ms: Epoch milliseconds of the beginning.
    """

    def __init__(self, job: RescalingJob, settings: ReportSettings, start_ms: int) -> None:
        self._job, self._settings, self._start_ms = job, settings, start_ms
        self._meters = Meters(job, settings.meters)
        self._greatest = list(job.fluid.served)
        self._partitions = {v.vertex_id: v.partitions for v in job.fluid.model.vertices if v.partitions}
        self._planned: Mapping[VertexId, int] | None = None
        self._nodes: tuple[PlanNode, ...] = ()

    def updates(self, until: float) -> Iterator[float]:
        """Yield the instants from now on, up to one, at which the meters have to be updated."""
        if not self._settings.meter_window:
            return
        number = math.floor(self._job.fluid.now / METER_STEP + _ROUNDING) + 1
        while number * METER_STEP <= until:
            yield number * METER_STEP
            number += 1

    def update(self) -> None:
        """Update the meters."""
        self._meters.update()

    def at_ms(self, instant: float) -> int:
        """Return epoch milliseconds of an instant of the simulation."""
        return self._start_ms + round(instant * _MS)

    @property
    def status(self) -> JobStatus:
        """Status of the job that counts for scaling."""
        is_shown_running = self._job.fluid.is_running or self._settings.feeds_zeros
        return JobStatus.RUNNING if is_shown_running else JobStatus.RESTARTING

    def read(self, memory: CollectorMemory, *, with_facts: bool) -> JobReading:
        """Return what the cluster says about the job now, with facts where its rescale is followed."""
        flows = self._meters.read()
        aggregates: dict[VertexId, VertexAggregates] = {}
        counts = self._counts()
        if flows is None and self._settings.feeds_zeros:
            flows = dict.fromkeys(counts, NOTHING)
        if flows is not None:
            aggregates = {v.vertex_id: self._aggregates(v, flows, counts) for v in self._job.fluid.model.vertices}
        known = memory if memory.partitions == self._partitions else replace(memory, partitions=self._partitions)
        facts = self._facts() if with_facts else None
        return JobReading(self._details(counts), aggregates, known, facts=facts)

    def _counts(self) -> dict[VertexId, float]:
        """Return the records that every vertex has received since its execution began."""
        fluid = self._job.fluid
        self._greatest = [max(pair) for pair in zip(self._greatest, fluid.served, strict=True)]
        if self._settings.feeds_zeros:
            counted: Sequence[float] = self._greatest
        else:
            counted = [s - b for s, b in zip(fluid.served, self._job.served_before, strict=True)]
        if not fluid.is_running and not self._settings.feeds_zeros:
            counted = [0.0] * len(fluid.served)
        return fluid.model.demand(counted)

    def _aggregates(
        self, vertex: VertexModel, flows: Mapping[VertexId, VertexFlow], counts: Mapping[VertexId, float]
    ) -> VertexAggregates:
        flow, fluid = flows[vertex.vertex_id], self._job.fluid
        parallelism = fluid.parallelism[vertex.vertex_id]
        hottest = vertex.hottest(parallelism)
        common = {FlinkMetric.BUSY_TIME: _spread(flow, parallelism)}
        number = fluid.model.source_numbers.get(vertex.vertex_id)
        if number is None:
            common[FlinkMetric.RECORDS_IN_RATE] = _rate(flow.rate, parallelism, hottest)
            return common
        pending = fluid.backlog[number]
        blocked = flow.backpressured * _MS
        return {
            **common,
            FlinkMetric.BACKPRESSURE_TIME: Aggregate(blocked, blocked, blocked, blocked * parallelism),
            FlinkMetric.SOURCE_RECORDS_IN_RATE: _rate(flow.rate, parallelism, hottest),
            FlinkMetric.SOURCE_RECORDS_IN: _total(counts[vertex.vertex_id], parallelism),
            FlinkMetric.PENDING_RECORDS: _total(pending, parallelism),
        }

    def _details(self, counts: Mapping[VertexId, float]) -> JobDetails:
        job = self._job
        running_since = 0.0 if self._settings.feeds_zeros else job.running_since
        return JobDetails(
            JOB_ID,
            "simulated job",
            self.status.value,
            self.at_ms(running_since),
            tuple(self._vertices(counts)),
            self._plan(),
            now_ms=self.at_ms(job.fluid.now),
            initialized_ms=self._start_ms,
            created_ms=self.at_ms(job.stopped_at or 0.0),
        )

    @property
    def _shown(self) -> Mapping[VertexId, int]:
        """The parallelism of the newest execution graph, which may still be starting."""
        return self._job.fluid.parallelism if self._job.fluid.is_running else self._job.asked

    def _plan(self) -> tuple[PlanNode, ...]:
        """Return the plan, which is the same object for as long as it does not change."""
        shown = self._shown
        if shown is not self._planned:
            model, self._planned = self._job.fluid.model, shown
            self._nodes = tuple(
                PlanNode(v.vertex_id, shown[v.vertex_id], tuple((up, v.ship) for up in model.inputs[v.vertex_id]))
                for v in model.vertices
            )
        return self._nodes

    def _vertices(self, counts: Mapping[VertexId, float]) -> Iterator[VertexDetails]:
        fluid, shown = self._job.fluid, self._shown
        status = "RUNNING" if fluid.is_running or self._settings.feeds_zeros else "DEPLOYING"
        start_ms, sources = self.at_ms(self._job.running_since), fluid.model.source_numbers
        for vertex in fluid.model.vertices:
            vertex_id = vertex.vertex_id
            yield VertexDetails(
                vertex_id,
                vertex.name,
                shown[vertex_id],
                vertex.max_parallelism,
                status,
                self._io(vertex_id, counts[vertex_id], is_source=vertex_id in sources),
                vertex.group,
                start_ms=start_ms,
                is_settled=fluid.is_running,
            )

    def _io(self, vertex_id: VertexId, received: float, *, is_source: bool) -> IoMetrics:
        """Return the counters; Flink counts as read only what comes over the network, which for a source is nothing."""
        sent = sum([received * selectivity for selectivity in self._job.fluid.model.outgoing[vertex_id]])
        busy, idle, backpressured = self._meters.spent(vertex_id)
        return IoMetrics(
            0 if is_source else round(received),
            round(sent),
            busy * _MS,
            idle_ms=round(idle * _MS),
            backpressured_ms=round(backpressured * _MS),
        )

    def _facts(self) -> RescaleFacts:
        """Return what is asked about a job whose rescale is followed; this cluster refuses nothing and never fails."""
        job, fluid, settings = self._job, self._job.fluid, self._settings
        now_ms, since = self.at_ms(fluid.now), job.running_since
        return RescaleFacts(
            now_ms=now_ms,
            initialized_ms=self._start_ms,
            running=dict(fluid.parallelism) if fluid.is_running else None,
            all_running=fluid.is_running,
            running_since_ms=self.at_ms(since) if fluid.is_running else None,
            stopped_ms=None if job.stopped_at is None else self.at_ms(job.stopped_at),
            requirements={vertex_id: (1, parallelism) for vertex_id, parallelism in job.asked.items()},
            exceptions=(),
            checkpoints=CheckpointFacts(self._checkpoint_ms(), 0, round(settings.checkpoint_interval * _MS)),
            taskmanagers=self._present()[1],
            restarts=0,
        )

    def _checkpoint_ms(self) -> int | None:
        """Return when the latest checkpoint was completed, if only by the execution before."""
        job, interval = self._job, self._settings.checkpoint_interval
        made = (job.fluid.now - job.running_since) // interval if job.fluid.is_running else 0
        if made > 0:
            return self.at_ms(job.running_since + made * interval)
        return None if job.stopped_at is None else self.at_ms(job.stopped_at - job.terms.replay)

    def read_cluster(self) -> ClusterReading:
        """Return what the cluster says about itself now: as many TaskManagers as the job needs, none of them short."""
        return self._present()[0]

    def _present(self) -> tuple[ClusterReading, tuple[TaskManagerFacts, ...]]:
        return _cluster(self._job.slots, self._settings.slots_per_taskmanager)


@cache
def _cluster(slots: int, per_taskmanager: int) -> tuple[ClusterReading, tuple[TaskManagerFacts, ...]]:
    """Return a cluster that just holds a job; it says the same whenever it has that size."""
    count = -(-slots // per_taskmanager)
    free = count * per_taskmanager - slots
    measured = dict.fromkeys(metric_names.TASKMANAGER_METRICS_WITH_GC, Aggregate(0.0, 0.0, 0.0))
    measured[metric_names.HEAP_MAX] = Aggregate(_HEAP, _HEAP, _HEAP)
    measured[metric_names.HEAP_USED] = Aggregate(_HEAP / 2, _HEAP / 2, _HEAP / 2)
    counted = {
        metric_names.SLOTS_TOTAL: str(count * per_taskmanager),
        metric_names.SLOTS_AVAILABLE: str(free),
    }
    facts = (TaskManagerFacts(f"tm-{n}", per_taskmanager, free if n == 0 else 0) for n in range(count))
    return ClusterReading(counted, measured), tuple(facts)


def _total(value: float, parallelism: int) -> Aggregate:
    share = value / parallelism
    return Aggregate(share, share, share, value)


def _rate(rate: float, parallelism: int, skew: float) -> Aggregate:
    """Return a rate of which one subtask has so many times its share."""
    share = rate / parallelism
    return Aggregate(share, share * min(skew, parallelism), share, rate)


def _spread(flow: VertexFlow, parallelism: int) -> Aggregate:
    """Return the busy time where one subtask is hot and all others are alike."""
    total = flow.busy_mean * parallelism
    least = flow.busy if parallelism == 1 else max(0.0, (total - flow.busy) / (parallelism - 1))
    return Aggregate(min(least, flow.busy) * _MS, flow.busy * _MS, flow.busy_mean * _MS, total * _MS)
