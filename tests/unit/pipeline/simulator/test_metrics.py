"""What a simulated cluster reports."""

from __future__ import annotations

from typing import Any

import pytest

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, JobReading
from flink_autoscaler.core.observe.metric_names import SLOTS_AVAILABLE, SLOTS_TOTAL
from flink_autoscaler.pipeline.simulator.meters import Meters
from flink_autoscaler.pipeline.simulator.metrics import Reporter, ReportSettings
from flink_autoscaler.pipeline.simulator.model import FluidJob, JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleParams, RescalingJob

SOURCE, MAP, SINK = "a" * 32, "b" * 32, "c" * 32
START_MS = 1_000_000


def a_reporter(
    *, parallelism: int = 1, skew: float = 1.0, replay: float = 0.0, **settings: Any
) -> tuple[RescalingJob, Reporter]:
    """Make a chain whose subtasks take 100,000, 60,000 and 90,000 records/s; an outage is 60 s long."""
    vertices = [
        VertexModel(SOURCE, "Source: orders", 100e3, partitions=12),
        VertexModel(MAP, "map", 60e3 * skew, skew=skew),
        VertexModel(SINK, "sink", 90e3),
    ]
    model = JobModel.chain(vertices)
    fluid = FluidJob(model, dict.fromkeys(model.gains, parallelism))
    job = RescalingJob(fluid, RescaleParams(60.0, replay=replay))
    return job, Reporter(job, ReportSettings(**settings), START_MS)


def read(reporter: Reporter) -> JobReading:
    return reporter.read(EMPTY_MEMORY, with_facts=True)


def test_saturated_vertex_blocks_those_before_it() -> None:
    job, _ = a_reporter()
    meters = Meters(job)
    job.flow(60.0, (80e3,))

    flows = meters.read()

    assert flows is not None
    assert flows[MAP].rate == pytest.approx(60e3)
    assert (flows[SOURCE].busy, flows[SOURCE].backpressured) == pytest.approx((0.6, 0.4))
    assert (flows[MAP].busy, flows[MAP].backpressured) == pytest.approx((1.0, 0.0))
    assert (flows[SINK].busy, flows[SINK].backpressured) == pytest.approx((2 / 3, 0.0))
    assert flows[SINK].idle == pytest.approx(1 / 3)
    assert flows[SOURCE].idle == pytest.approx(0.0)


def test_hot_subtask_shows_in_the_maximum_and_hardly_in_the_mean() -> None:
    job, reporter = a_reporter(parallelism=4, skew=2.0)
    job.flow(60.0, (120e3,))

    busy = read(reporter).aggregates[MAP][FlinkMetric.BUSY_TIME]

    # The map takes 240,000 at most; at half of it the hot subtask is busy half of its time, the mean a quarter.
    assert busy.maximum == pytest.approx(500.0)
    assert busy.average == pytest.approx(250.0)
    assert busy.total == pytest.approx(1000.0)
    assert busy.minimum == pytest.approx(500.0 / 3)


def test_hot_subtask_reads_more_than_the_others() -> None:
    job, reporter = a_reporter(parallelism=4, skew=2.0)
    job.flow(60.0, (120e3,))

    rate = read(reporter).aggregates[MAP][FlinkMetric.RECORDS_IN_RATE]

    assert (rate.maximum, rate.average, rate.total) == pytest.approx((60e3, 30e3, 120e3))


def test_source_reports_what_it_read_and_what_waits() -> None:
    job, reporter = a_reporter()
    job.flow(60.0, (80e3,))

    reading = read(reporter)

    answers = reading.aggregates[SOURCE]
    assert answers[FlinkMetric.SOURCE_RECORDS_IN].total == pytest.approx(3.6e6)
    assert answers[FlinkMetric.SOURCE_RECORDS_IN_RATE].total == pytest.approx(60e3)
    assert answers[FlinkMetric.PENDING_RECORDS].total == pytest.approx(1.2e6)
    assert answers[FlinkMetric.BACKPRESSURE_TIME].average == pytest.approx(400.0)
    assert reading.memory.partitions == {SOURCE: 12}


def test_counters_of_the_graph_tell_what_was_received_and_sent() -> None:
    job, reporter = a_reporter()
    job.flow(60.0, (30e3,))

    details = read(reporter).details

    assert details is not None
    source, middle, _ = (vertex.io for vertex in details.vertices)
    # What a source reads does not come over the network.
    assert (source.records_in, source.records_out) == (0, 1_800_000)
    assert (middle.records_in, middle.records_out) == (1_800_000, 1_800_000)
    assert middle.busy_ms == pytest.approx(30_000.0)


def times_of(reading: JobReading, vertex_id: str) -> tuple[float, float | None, float | None]:
    assert reading.details is not None
    io = next(vertex.io for vertex in reading.details.vertices if vertex.vertex_id == vertex_id)
    return io.busy_ms, io.idle_ms, io.backpressured_ms


def test_time_that_a_vertex_does_not_work_is_idle_or_backpressured() -> None:
    job, reporter = a_reporter()
    job.flow(60.0, (30e3,))
    read(reporter)
    job.flow(60.0, (80e3,))

    reading = read(reporter)

    # Of the first minute the source was busy for 18 s, of the second, held up by the map, for 36 s.
    assert times_of(reading, SOURCE) == pytest.approx((54e3, 42e3, 24e3))
    assert times_of(reading, MAP) == pytest.approx((90e3, 30e3, 0.0))


def test_time_counts_for_all_subtasks_and_from_the_beginning_of_an_execution() -> None:
    job, reporter = a_reporter(parallelism=2)
    job.flow(60.0, (30e3,))
    read(reporter)
    job.request({MAP: 4})
    job.flow(30.0, (30e3,))
    away = read(reporter)
    job.flow(90.0, (30e3,))

    reading = read(reporter)

    assert times_of(away, SOURCE) == (0.0, 0, 0)
    # After a minute's outage, four subtasks of 60,000 records/s had the records of two minutes to do in one.
    assert times_of(reading, MAP) == pytest.approx((60e3, 180e3, 0.0))


def test_nobody_waits_in_an_outage_where_it_is_reported_as_zeros() -> None:
    job, reporter = a_reporter(feeds_zeros=True)
    job.flow(60.0, (30e3,))
    read(reporter)
    job.request({MAP: 2})
    job.flow(30.0, (30e3,))
    read(reporter)
    job.flow(60.0, (30e3,))

    busy, idle, backpressured = times_of(read(reporter), SINK)

    # A third of the first minute; the minute of the outage, of which no wait is known; then 30 s at its limit.
    assert (busy, idle, backpressured) == pytest.approx((20e3 + 60e3 + 30e3, 40e3, 0.0))


def test_nothing_is_measured_during_an_outage() -> None:
    job, reporter = a_reporter()
    job.flow(60.0, (30e3,))
    job.request({MAP: 2})
    job.flow(30.0, (30e3,))

    reading = read(reporter)

    assert reporter.status is JobStatus.RESTARTING
    assert reading.aggregates == {}
    assert reading.facts is not None
    assert (reading.facts.all_running, reading.facts.running) == (False, None)
    assert reading.facts.requirements == {SOURCE: (1, 1), MAP: (1, 2), SINK: (1, 1)}


def test_counters_and_meters_begin_anew_after_an_outage() -> None:
    job, reporter = a_reporter()
    job.flow(60.0, (30e3,))
    job.request({MAP: 2})
    job.flow(70.0, (30e3,))

    reading = read(reporter)

    assert reading.details is not None
    assert reading.details.running_at_ms == START_MS + 120_000
    # Ten seconds at the 90,000 records/s of the sink.
    assert reading.aggregates[SOURCE][FlinkMetric.SOURCE_RECORDS_IN].total == pytest.approx(900e3)
    assert reading.aggregates[SOURCE][FlinkMetric.SOURCE_RECORDS_IN_RATE].total == pytest.approx(90e3)


def test_facts_tell_how_long_the_outage_was_and_of_checkpoints() -> None:
    job, reporter = a_reporter(replay=20.0, checkpoint_interval=30.0)
    first = read(reporter).facts
    job.flow(100.0, (30e3,))
    job.request({MAP: 2})
    job.flow(65.0, (30e3,))
    second = read(reporter).facts
    job.flow(40.0, (30e3,))
    third = read(reporter).facts

    assert first is not None
    assert second is not None
    assert third is not None
    assert (second.stopped_ms, second.running_since_ms) == (START_MS + 100_000, START_MS + 160_000)
    completed = [f.checkpoints.completed_ms for f in (first, second, third) if f.checkpoints]
    assert completed == [None, START_MS + 80_000, START_MS + 190_000]


def test_zeros_are_fed_where_nobody_keeps_account_of_restarts() -> None:
    job, reporter = a_reporter(feeds_zeros=True, replay=5.0)
    job.flow(60.0, (30e3,))
    read(reporter)
    job.request({MAP: 2})
    job.flow(30.0, (30e3,))

    reading = read(reporter)

    assert reporter.status is JobStatus.RUNNING
    assert reading.details is not None
    assert reading.details.running_at_ms == START_MS
    answers = reading.aggregates[SOURCE]
    assert answers[FlinkMetric.BUSY_TIME].maximum == 0.0
    assert answers[FlinkMetric.SOURCE_RECORDS_IN_RATE].total == 0.0
    assert answers[FlinkMetric.SOURCE_RECORDS_IN].total == pytest.approx(1.8e6)
    assert answers[FlinkMetric.PENDING_RECORDS].total == pytest.approx(1.05e6)


def test_just_started_job_has_no_metrics_yet() -> None:
    _, reporter = a_reporter()

    assert read(reporter).aggregates == {}


def test_noise_is_of_the_seed_and_spares_the_counters() -> None:
    def measured(seed: int) -> tuple[float | None, float | None]:
        job, reporter = a_reporter(noise=0.1, seed=seed)
        job.flow(60.0, (30e3,))
        answers = read(reporter).aggregates[SOURCE]
        return answers[FlinkMetric.BUSY_TIME].maximum, answers[FlinkMetric.SOURCE_RECORDS_IN].total

    assert measured(1) == measured(1)
    assert measured(1)[0] != measured(2)[0]
    assert measured(1)[0] != pytest.approx(300.0)
    assert measured(1)[1] == pytest.approx(1.8e6)


def test_cluster_has_the_taskmanagers_that_the_job_needs() -> None:
    _, reporter = a_reporter(parallelism=5, slots_per_taskmanager=4)

    cluster, facts = reporter.read_cluster(), read(reporter).facts

    assert (cluster.jobmanager[SLOTS_TOTAL], cluster.jobmanager[SLOTS_AVAILABLE]) == ("8", "3")
    assert facts is not None
    assert [(each.slots, each.free_slots) for each in facts.taskmanagers or ()] == [(4, 3), (4, 0)]
