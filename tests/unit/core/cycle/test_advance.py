import dataclasses
import math

import pytest

from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.errors import ConnectError, EvaluationError, MissingMetricError, NotReadyError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, DelayedRecommendation, DelayedVertex, JobState, ScalingRecord
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    JOB_ID,
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_request,
    full_window,
    history_entry,
    single_source,
    vertex_id,
)

OPTIONS = dict(SINGLE_SOURCE_OPTIONS)
REMEMBERED = JobState(
    supervision=Supervision(asked={SINGLE_SOURCE: 4}),
    job_id=JOB_ID,
    history={SINGLE_SOURCE: (history_entry(0, 2, 4),)},
    tracking=(ScalingRecord(0, 1),),
    overrides={SINGLE_SOURCE: 4},
    delayed={SINGLE_SOURCE: DelayedVertex(0, (DelayedRecommendation(0, 2, True),))},
)


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def test_a_running_job_needs_a_reading() -> None:
    assert without_reading(a_request(a_context(OPTIONS))) is None


def test_a_disabled_job_is_forgotten() -> None:
    outcome = without_reading(a_request(a_context({"enabled": "false"}), state=REMEMBERED))

    assert outcome is not None
    assert (outcome.phase, outcome.state, outcome.target.parallelism) == (PassPhase.DISABLED, EMPTY_STATE, {})
    assert outcome.events == ()
    assert codes(outcome) == ["DISABLED"]


@pytest.mark.parametrize("key", ["memory.tuning.enabled", "compat"])
def test_a_disabled_job_is_forgotten_and_left_alone_whatever_else_is_unreadable(key: str) -> None:
    outcome = without_reading(a_request(a_context({"enabled": "false", key: "maybe"}), state=REMEMBERED))

    assert outcome is not None
    assert (outcome.target.parallelism, outcome.state.overrides, outcome.state.history) == ({}, {}, {})


@pytest.mark.parametrize("tuning", [True, False])
def test_config_changes_are_realized_only_with_memory_tuning(tuning: bool) -> None:
    context = a_context({"enabled": "false", "memory.tuning.enabled": str(tuning)})

    outcome = without_reading(a_request(context))

    assert outcome is not None
    assert outcome.target.tunes_memory is tuning


def test_an_invalid_configuration_is_one_event_and_nothing_else() -> None:
    context = a_context({"utilization.target": "7"})

    outcome = without_reading(a_request(context, state=REMEMBERED))

    assert outcome is not None
    assert (outcome.phase, outcome.state, outcome.target.parallelism) == (PassPhase.INVALID_CONFIG, REMEMBERED, {})
    (event,) = outcome.events
    assert (event.type, event.reason) == (EventType.WARNING, "AutoScaler Options Validation")
    assert event.key is None
    assert event.interval == context.options.scaling_event_interval


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.RUNNING])
def test_a_job_that_does_not_run_keeps_its_state_and_its_overrides(status: JobStatus) -> None:
    outcome = without_reading(a_request(a_context(OPTIONS, status=status), state=REMEMBERED))

    assert outcome is not None
    assert (outcome.phase, outcome.state) == (PassPhase.NOT_RUNNING, REMEMBERED)
    assert outcome.target.parallelism == {SINGLE_SOURCE: 4}
    assert outcome.events == ()


def test_an_unreadable_switch_is_an_error_that_still_applies_overrides() -> None:
    outcome = without_reading(a_request(a_context({"enabled": "maybe"}), state=REMEMBERED))

    assert outcome is not None
    assert outcome.phase is PassPhase.ERROR
    assert outcome.target.parallelism == {SINGLE_SOURCE: 4}
    assert [event.reason for event in outcome.events] == ["AutoscalerError"]


def test_an_unreadable_memory_switch_does_not_keep_overrides_from_being_applied() -> None:
    outcome = without_reading(a_request(a_context({"memory.tuning.enabled": "maybe"}), state=REMEMBERED))

    assert outcome is not None
    assert outcome.phase is PassPhase.ERROR
    assert outcome.target.parallelism == {SINGLE_SOURCE: 4}


def missing(minute: float) -> JobReading:
    reading = single_source(minute, rate=100.0, busy_ms=500.0)
    error = MissingMetricError(SINGLE_SOURCE, "BUSY_TIME_PER_SEC")
    return JobReading(reading.details, {}, reading.memory, error)


def test_a_missing_metric_is_expected_while_the_job_stabilizes() -> None:
    driver = JobDriver(a_context(OPTIONS), REMEMBERED)

    outcome = driver.run(MINUTE - 1, missing(0.9))

    assert (outcome.phase, outcome.events) == (PassPhase.NOT_READY, ())
    assert isinstance(outcome.error, NotReadyError)
    assert (outcome.state, outcome.observation.sample) == (REMEMBERED, None)
    assert outcome.target.parallelism == {SINGLE_SOURCE: 4}


def test_a_missing_metric_is_an_error_from_the_end_of_stabilization_on() -> None:
    driver = JobDriver(a_context(OPTIONS), REMEMBERED)

    outcome = driver.run(MINUTE, missing(1))

    assert outcome.phase is PassPhase.ERROR
    (event,) = outcome.events
    assert (event.type, event.reason, event.key) == (EventType.WARNING, "AutoscalerError", None)
    assert SINGLE_SOURCE in event.message
    assert "BUSY_TIME_PER_SEC" in event.message
    assert outcome.target.parallelism == {SINGLE_SOURCE: 4}


@pytest.mark.parametrize(
    ("compat", "seconds"),
    [pytest.param("improved", 1800, id="improved"), pytest.param("reference", None, id="reference")],
)
def test_the_same_error_is_told_in_every_pass_in_the_reference_only(compat: str, seconds: int | None) -> None:
    outcome = JobDriver(a_context({**OPTIONS, "compat": compat})).run(MINUTE, missing(1))

    (event,) = outcome.events
    assert (None if event.interval is None else event.interval.seconds) == seconds


def test_a_job_without_details_is_an_error_with_its_cause() -> None:
    driver = JobDriver(a_context(OPTIONS), REMEMBERED)
    cause = ConnectError("nobody there")

    outcome = driver.run(MINUTE, JobReading(None, error=cause))

    assert outcome.phase is PassPhase.ERROR
    assert outcome.error is cause
    assert outcome.state == REMEMBERED


def test_a_job_without_a_plan_is_not_ready() -> None:
    reading = single_source(1, rate=1.0, busy_ms=1.0)
    assert reading.details is not None
    details = type(reading.details)(JOB_ID, "a job", "RUNNING", 0, reading.details.vertices, ())

    outcome = JobDriver(a_context(OPTIONS)).run(MINUTE, JobReading(details))

    assert outcome.phase is PassPhase.NOT_READY


def test_a_job_without_a_running_timestamp_is_an_error() -> None:
    reading = single_source(1, rate=1.0, busy_ms=1.0)
    assert reading.details is not None
    details = type(reading.details)(JOB_ID, "a job", "RUNNING", None, reading.details.vertices, reading.details.plan)

    outcome = JobDriver(a_context(OPTIONS)).run(MINUTE, JobReading(details))

    assert outcome.phase is PassPhase.ERROR
    assert "RUNNING" in str(outcome.error)


def test_an_error_of_the_cluster_is_an_error_of_the_pass_in_the_reference() -> None:
    driver = JobDriver(a_context({**OPTIONS, "compat": "reference"}))
    cause = ConnectError("nobody there")

    outcome = driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), a_cluster(error=cause))

    assert (outcome.phase, outcome.error, outcome.observation.sample) == (PassPhase.ERROR, cause, None)


def test_an_error_of_the_cluster_leaves_its_jobs_alone() -> None:
    driver = JobDriver(a_context(OPTIONS))

    outcome = driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), a_cluster(error=ConnectError("nobody there")))

    assert (outcome.phase, outcome.error) == (PassPhase.COLLECTING, None)
    assert outcome.observation.sample is not None


def test_an_error_adds_no_sample() -> None:
    driver = JobDriver(a_context(OPTIONS))
    driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0))

    driver.run(2 * MINUTE, missing(2))

    assert [sample.at_ms for sample in driver.state.samples] == [MINUTE]


@pytest.mark.parametrize(
    ("rate", "busy_ms", "expected"),
    [
        pytest.param(200.0, 1000.0, 8, id="always busy: twice"),
        pytest.param(100.0, 500.0, None, id="half busy: stay"),
        pytest.param(50.0, 250.0, 2, id="a quarter busy: half"),
        pytest.param(0.0, 0.0, 2, id="idle: the greatest step down"),
        pytest.param(120.0, 600.0, None, id="within bounds"),
    ],
)
def test_a_full_window_leads_to_a_decision(rate: float, busy_ms: float, expected: int | None) -> None:
    outcome = full_window(JobDriver(a_context(OPTIONS)), rate=rate, busy_ms=busy_ms)

    assert outcome.phase is PassPhase.EXECUTED
    if expected is None:
        assert isinstance(outcome.decision, Hold)
        assert outcome.state.overrides == {}
    else:
        assert isinstance(outcome.decision, Rescale)
        assert outcome.target.parallelism == {SINGLE_SOURCE: expected}


@pytest.mark.parametrize(
    ("options", "cluster", "key"),
    [
        pytest.param({"memory.gc-pressure.threshold": "0.5"}, a_cluster(gc_ms=501.0), "gcPressure", id="GC"),
        pytest.param({"memory.heap-usage.threshold": "0.49"}, a_cluster(), "heapUsage", id="heap"),
    ],
)
def test_memory_pressure_holds_everything(options: dict[str, str], cluster: object, key: str) -> None:
    assert isinstance(cluster, type(a_cluster()))
    driver = JobDriver(a_context({**OPTIONS, **options}))
    for minute in (1, 2, 3):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=200.0, busy_ms=1000.0), cluster)

    assert isinstance(outcome.decision, Hold)
    assert codes(outcome) == ["MEMORY_PRESSURE"]
    (event,) = outcome.events
    assert (event.type, event.reason, event.key) == (EventType.NORMAL, "MemoryPressure", key)


@pytest.mark.parametrize("key", ["memory.heap-usage.threshold", "memory.gc-pressure.threshold"])
def test_memory_use_at_the_threshold_is_no_pressure(key: str) -> None:
    driver = JobDriver(a_context({**OPTIONS, key: "0.5"}))
    for minute in (1, 2, 3):
        reading = single_source(minute, rate=200.0, busy_ms=1000.0)
        outcome = driver.run(minute * MINUTE, reading, a_cluster(gc_ms=500.0))

    assert isinstance(outcome.decision, Rescale)


def test_an_impossible_parallelism_is_an_error() -> None:
    driver = JobDriver(a_context({**OPTIONS, "vertex.min-parallelism": "0", "scale-down.max-factor": "1.0"}))

    outcome = full_window(driver, rate=0.0, busy_ms=0.0)

    assert outcome.phase is PassPhase.ERROR
    assert isinstance(outcome.error, EvaluationError)
    assert str(outcome.error) == (
        f"vertex {SINGLE_SOURCE}: parallelism 0 is impossible; raise job.autoscaler.vertex.min-parallelism"
    )
    assert outcome.state.overrides == {}


@pytest.mark.parametrize("excluded", [SINGLE_SOURCE, f"{vertex_id(9)};{SINGLE_SOURCE}"])
def test_an_excluded_vertex_is_left_alone(excluded: str) -> None:
    driver = JobDriver(a_context({**OPTIONS, "vertex.exclude.ids": excluded}))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert isinstance(outcome.decision, Hold)
    assert "EXCLUDED" in codes(outcome)
    assert SINGLE_SOURCE in outcome.observation.excluded


def instants(state: JobState) -> list[float]:
    return [sample.at_ms / MINUTE for sample in state.samples]


def test_a_job_that_switched_to_running_when_its_first_sample_was_taken_has_not_restarted() -> None:
    driver = JobDriver(a_context(OPTIONS))
    driver.run(MINUTE, single_source(1, rate=100.0, busy_ms=500.0))

    driver.run(2 * MINUTE, single_source(2, rate=100.0, busy_ms=500.0, running_at_minute=1))

    assert instants(driver.state) == [1, 2]


def test_another_job_id_drops_the_samples_and_keeps_what_was_learned() -> None:
    history = {SINGLE_SOURCE: (history_entry(MINUTE, 2, 4),)}
    driver = JobDriver(a_context(OPTIONS))
    driver.run(MINUTE, single_source(1, rate=100.0, busy_ms=500.0))
    driver.state = dataclasses.replace(driver.state, history=history)
    other = "b" * 32
    driver.context = a_context(OPTIONS, job_id=other)

    driver.run(2 * MINUTE, single_source(2, rate=100.0, busy_ms=500.0, job_id=other))

    assert instants(driver.state) == [2]
    assert driver.state.job_id == other
    assert driver.state.history == history


def test_history_of_vertices_that_are_gone_is_pruned() -> None:
    kept = (history_entry(MINUTE, 2, 4),)
    state = JobState(history={SINGLE_SOURCE: kept, vertex_id(9): kept})
    driver = JobDriver(a_context(OPTIONS), state)

    driver.run(MINUTE, single_source(1, rate=100.0, busy_ms=500.0))

    assert driver.state.history == {SINGLE_SOURCE: kept}


def test_a_pass_of_the_same_instant_replaces_the_sample() -> None:
    driver = JobDriver(a_context(OPTIONS))

    for _ in range(2):
        driver.run(MINUTE, single_source(1, rate=100.0, busy_ms=500.0))

    assert instants(driver.state) == [1]


@pytest.mark.parametrize(("gc_ms", "reports_gc"), [(5.0, True), (None, False)], ids=["reported", "not reported"])
def test_the_collector_learns_whether_garbage_collection_is_reported(gc_ms: float | None, reports_gc: bool) -> None:
    driver = JobDriver(a_context(OPTIONS))

    outcome = driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), a_cluster(gc_ms=gc_ms))

    assert outcome.memory.reports_gc is reports_gc
    assert outcome.observation.sample is not None
    assert (ScalingMetric.GC_PRESSURE in outcome.observation.sample.globals_) is reports_gc


def test_taskmanagers_that_report_nothing_are_an_error_in_the_reference() -> None:
    driver = JobDriver(a_context({**OPTIONS, "compat": "reference"}))

    outcome = driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), ClusterReading())

    assert (outcome.phase, outcome.observation.sample) == (PassPhase.ERROR, None)


def test_after_taskmanagers_reported_nothing_garbage_collection_is_asked_for_anew() -> None:
    driver = JobDriver(a_context({**OPTIONS, "compat": "reference"}))
    driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), a_cluster(gc_ms=5.0))
    without_gc = a_cluster(gc_ms=None)

    failed = driver.run(2 * MINUTE, single_source(2, rate=1.0, busy_ms=1.0), without_gc)
    outcome = driver.run(3 * MINUTE, single_source(3, rate=1.0, busy_ms=1.0), without_gc)

    assert failed.phase is PassPhase.ERROR
    assert outcome.observation.sample is not None


def test_unknown_metrics_are_absent_or_nan_but_never_zero() -> None:
    driver = JobDriver(a_context(OPTIONS))

    outcome = driver.run(MINUTE, single_source(1, rate=0.0, busy_ms=1.0, is_answered=False))

    assert outcome.observation.sample is not None
    source = outcome.observation.sample.vertices[SINGLE_SOURCE]
    assert math.isnan(source[ScalingMetric.LOAD])
    assert math.isnan(source[ScalingMetric.LAG])
    assert outcome.observation.excluded == {SINGLE_SOURCE}


@pytest.mark.parametrize(
    ("options", "kept"),
    [pytest.param({}, 0, id="improved"), pytest.param({"compat": "reference"}, 1, id="reference")],
)
def test_disabling_forgets_the_samples_with_the_improvement(options: dict[str, str], kept: int) -> None:
    driver = JobDriver(a_context({**OPTIONS, **options}))
    driver.run(MINUTE, single_source(1, rate=100.0, busy_ms=500.0))
    driver.state = dataclasses.replace(driver.state, overrides={SINGLE_SOURCE: 4})
    driver.context = a_context({**OPTIONS, **options, "enabled": "false"})

    outcome = driver.run(2 * MINUTE, single_source(2, rate=100.0, busy_ms=500.0))

    assert outcome.phase is PassPhase.DISABLED
    assert len(driver.state.samples) == kept
    assert driver.state.overrides == {}
