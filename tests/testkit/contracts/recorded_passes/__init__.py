"""Passes over one job as the daemon would record them, from filling the window to a rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import failed_outcome, without_reading
from flink_autoscaler.core.cycle.recording import RecordStore, StoredRecord
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.forecast.pass_forecast import profiles_around
from flink_autoscaler.core.model.job import Headroom, JobStatus
from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseOrder
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import LastRecord, PassInputs, PassOutcome, PassRequest
from flink_autoscaler.standalone.records.codec import PassRecord, encode
from testkit.builders.core import (
    a_cluster,
    a_context,
    a_reading,
    a_vertex,
    operator_answers,
    source_answers,
    vertex_id,
)

MINUTE = 60_000
START_MS = 1_769_860_800_000
"""2026-01-31 12:00 UTC."""
JOB_KEY = "main/orders"
SOURCE, ENRICH, SINK = map(vertex_id, (1, 2, 3))
NAMES = {SOURCE: "Source: orders", ENRICH: "enrich", SINK: "Sink: invoices"}
BEFORE = {SOURCE: 2, ENRICH: 4, SINK: 2}
OPTIONS = {
    "metrics.window": "2 min",
    "stabilization.interval": "1 min",
    "scale-down.interval": "0",
    "utilization.max": "0.85",
}
BUFFERS = "java.io.IOException: Insufficient number of network buffers: required 65, but only 12 available"


def orders_reading(
    now_ms: int,
    *,
    rate: float = 1000.0,
    busy_ms: float = 950.0,
    parallelism: Mapping[str, int] = BEFORE,
    facts: RescaleFacts | None = None,
    running_at_ms: int = START_MS,
) -> JobReading:
    """Read a job to which ``rate`` records/s arrive; its middle vertex is busy, the others are at 50 %."""
    seconds = (now_ms - running_at_ms) / 1000
    io = IoMetrics(records_in=round(rate * seconds), records_out=round(rate * seconds))
    links: tuple[dict[int, ShipStrategy], ...] = ({}, {1: ShipStrategy.REBALANCE}, {2: ShipStrategy.HASH})
    vertices = [
        replace(a_vertex(number, parallelism=parallelism[v], io=io, inputs=inputs), name=NAMES[v])
        for number, (v, inputs) in enumerate(zip(NAMES, links, strict=True), start=1)
    ]
    source = source_answers(busy_ms=500.0, rate=rate, records_in=rate * seconds)
    answers = {
        SOURCE: source,
        ENRICH: operator_answers(busy_ms=busy_ms, rate=rate),
        SINK: operator_answers(busy_ms=500.0, rate=rate),
    }
    reading = a_reading(vertices, answers, running_at_ms=running_at_ms)
    return replace(reading, memory=CollectorMemory(reports_gc=True), facts=facts)


def facts(running: Mapping[str, int] | None, asked: Mapping[str, int], now_ms: int, text: str = "") -> RescaleFacts:
    """Make what the cluster says about a rescale: where ``running`` is None it fails with ``text``."""
    return RescaleFacts(
        now_ms=now_ms,
        initialized_ms=START_MS,
        running=None if running is None else dict(running),
        all_running=running is not None,
        running_since_ms=now_ms - 5_000,
        stopped_ms=now_ms - 8_500,
        requirements={vertex: (1, upper) for vertex, upper in asked.items()},
        exceptions=(JobException(now_ms - 1000, text),) if text else (),
        checkpoints=CheckpointFacts(completed_ms=now_ms, state_bytes=10**9, interval_ms=10_000),
        taskmanagers=(TaskManagerFacts("tm-1", slots=16, free_slots=8, network_memory=64 << 20),),
    )


@dataclass
class RecordedJob:
    """Does passes and keeps them as records.

    Attributes:
        options: Below ``job.autoscaler.``, on top of short windows.
        records: Every pass, oldest first.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    flink: Mapping[str, str] = field(default_factory=dict)
    headroom: Headroom | None = None
    taskmanager_cpu: float | None = None
    state: JobState = EMPTY_STATE
    orders: Orders = NO_ORDERS
    profile: LoadProfile | None = None
    status: JobStatus = JobStatus.RUNNING
    now_ms: int = START_MS
    records: list[PassRecord] = field(default_factory=list)

    @property
    def context(self) -> JobAutoScalerContext:
        """The job as the next pass sees it."""
        context = a_context(
            {**OPTIONS, **self.options}, self.flink, status=self.status, taskmanager_cpu=self.taskmanager_cpu
        )
        return replace(context, job_key=JOB_KEY, job_name="orders", cluster="main", headroom=self.headroom)

    @property
    def outcome(self) -> PassOutcome:
        """The outcome of the last pass."""
        return self.records[-1].outcome

    def look(self, reading: JobReading | None = None, cluster: ClusterReading | None = None) -> PassOutcome:
        """Do one pass a minute after the last one; without a reading the cluster cannot be reached."""
        self.now_ms += MINUTE
        profiles = {} if self.profile is None else {SOURCE: ProfileResult(JOB_KEY, SOURCE, 0.0, self.profile)}
        request = PassRequest(
            self.context,
            self.state,
            self.now_ms,
            orders=self.orders,
            recorded=LastRecord(),
            profiles=profiles_around(profiles, self.now_ms / 1000),
        )
        cluster = cluster or a_cluster()
        outcome = without_reading(request)
        if outcome is None and reading is None:
            error = ConnectError("nobody answers at http://flink:8081")
            cluster = ClusterReading(error=error)
            outcome = replace(failed_outcome(request, error), inputs=PassInputs(None, cluster))
        elif outcome is None and reading is not None:
            outcome = replace(advance(request, reading, cluster), inputs=PassInputs(reading, cluster))
        assert outcome is not None
        self.state = outcome.state
        self.records.append(PassRecord(request, outcome))
        return outcome

    def look_at_load(self, minutes: int, *, rate: float = 1000.0, busy_ms: float = 950.0) -> PassOutcome:
        """Do some passes under the same load."""
        for _ in range(minutes):
            outcome = self.look(orders_reading(self.now_ms + MINUTE, rate=rate, busy_ms=busy_ms))
        return outcome


def window_filling() -> RecordedJob:
    """Take the first samples."""
    job = RecordedJob()
    job.look_at_load(2)
    return job


def scaled_up() -> RecordedJob:
    """Decide to scale up, and see that happen."""
    job = RecordedJob()
    job.look_at_load(3)
    target = dict(job.outcome.target.parallelism)
    now_ms = job.now_ms + MINUTE
    job.look(
        orders_reading(now_ms, parallelism=target, running_at_ms=now_ms - 5_000, facts=facts(target, target, now_ms))
    )
    return job


def made_ready() -> RecordedJob:
    """Grow for a load that a forecast expects, twice what arrives now."""
    shares = tuple(1.0 + number / 10_000 for number in range(672))
    profile = LoadProfile(
        shares, tuple(2 * share for share in shares), 5, level=1000.0, growth=1.0, asof=START_MS / 1000, wape=0.1
    )
    job = RecordedJob({"forecast.enabled": "true"}, profile=profile)
    job.look_at_load(3, busy_ms=500.0)
    return job


def beside_another() -> RecordedJob:
    """Leave a job alone that a policy in shadow mode would double."""
    shadow = {"policy.shadow": "varga", "varga.utilization-target": "0.25"}
    job = RecordedJob({**shadow, "utilization.target": "0.6"})
    job.look_at_load(5, busy_ms=500.0)
    return job


def delayed_scale_down() -> RecordedJob:
    """Want less parallelism, and wait for an hour before that."""
    job = RecordedJob({"scale-down.interval": "1 h"})
    job.look_at_load(3, rate=1000.0, busy_ms=200.0)
    return job


def over_quota() -> RecordedJob:
    """Want more TaskManagers than the quota allows."""
    job = RecordedJob({"quota.cpu": "4"}, taskmanager_cpu=1.0)
    job.look_at_load(3)
    return job


def without_headroom() -> RecordedJob:
    """Want more slots than there are."""
    holders = (("payments", 8), ("orders", 4))
    job = RecordedJob(headroom=Headroom("cluster main", taskmanagers=0, slots=0, total=12, holders=holders))
    job.look_at_load(3)
    return job


def paused_by_order() -> RecordedJob:
    """Want more, while a person forbids it."""
    signed = AuditStamp("mona", "month-end closing", START_MS)
    job = RecordedJob(orders=Orders(pause=PauseOrder(signed)))
    job.look_at_load(3)
    return job


def rolled_back() -> RecordedJob:
    """Scale up, die of too little network memory, go back, and be suspended after that."""
    job = RecordedJob()
    job.look_at_load(1)
    first_ms = job.now_ms + MINUTE
    job.look(orders_reading(first_ms, facts=facts(BEFORE, BEFORE, first_ms)))
    job.look_at_load(1)
    target = dict(job.outcome.target.parallelism)
    look = partial(_look_at_facts, job)
    look(BEFORE, target)
    job.status = JobStatus.RESTARTING
    look(None, target, BUFFERS)
    look(None, BEFORE)
    job.status = JobStatus.RUNNING
    look(BEFORE, BEFORE)
    look(BEFORE, BEFORE)
    return job


def _look_at_facts(
    job: RecordedJob, running: Mapping[str, int] | None, asked: Mapping[str, int], text: str = ""
) -> None:
    now_ms = job.now_ms + MINUTE
    job.look(orders_reading(now_ms, facts=facts(running, asked, now_ms, text)))


def not_reached() -> RecordedJob:
    """Meet a job whose details cannot be read, a cluster that is away, and a job that does not run."""
    job = RecordedJob()
    job.look_at_load(3)
    job.look(JobReading(None, error=ConnectError("no answer within 10 s")))
    job.look(None)
    job.status = JobStatus.RESTARTING
    job.look(None)
    return job


def switched_off() -> RecordedJob:
    """Meet a job that is not managed."""
    job = RecordedJob({"enabled": "false"})
    job.look(None)
    return job


def misconfigured() -> RecordedJob:
    """Meet a job with an option that is out of range, one that has no number, and one with a secret."""
    job = RecordedJob({"utilization.target": "1.5"}, {"s3.secret-key": "hunter2", "x": "a://user:hunter2@host"})
    job.look_at_load(1)
    job.options = {"utilization.target": "much"}
    job.look_at_load(1)
    return job


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        window_filling,
        scaled_up,
        made_ready,
        beside_another,
        delayed_scale_down,
        over_quota,
        without_headroom,
        paused_by_order,
        rolled_back,
        not_reached,
        switched_off,
        misconfigured,
    )
}


def stored(records: Sequence[PassRecord], store: RecordStore) -> None:
    """Store records as the daemon does."""
    store.add(
        [
            StoredRecord(r.request.context.job_key, r.request.now_ms, r.outcome.phase.value, "hold", encode(r))
            for r in records
        ]
    )
