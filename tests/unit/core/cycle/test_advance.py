"""What a decision records, what delays it and what prevents it."""

import dataclasses
import math

import pytest

from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.cycle.overrides import wanted_parallelism
from flink_autoscaler.core.errors import ConfigError, ConnectError, EvaluationError, MissingMetricError, NotReadyError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.state import (
    EMPTY_STATE,
    ConfigChanges,
    DelayedRecommendation,
    DelayedVertex,
    JobState,
    ScalingRecord,
)
from flink_autoscaler.core.model.supervision import Supervision
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    JOB_ID,
    MINUTE,
    PIPELINE_MAP,
    PIPELINE_SOURCE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_reading,
    a_request,
    a_vertex,
    draining_pipeline,
    full_window,
    history_entry,
    operator_answers,
    single_source,
    source_answers,
    stuck_pipeline,
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


def test_a_decision_without_memory_tuning_replaces_older_config_changes() -> None:
    driver = JobDriver(a_context(OPTIONS), JobState(config_changes=ConfigChanges({"a": "b"})))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert outcome.state.config_changes == ConfigChanges()
    assert not outcome.target.tunes_memory


TUNING_FLINK = {"taskmanager.memory.process.size": "2g"}


@pytest.mark.parametrize(("enabled", "stored"), [("true", True), ("false", False)], ids=["on", "off"])
def test_memory_is_tuned_only_when_it_is_on_and_recommended_either_way(enabled: str, stored: bool) -> None:
    driver = JobDriver(a_context({**OPTIONS, "memory.tuning.enabled": enabled}, TUNING_FLINK))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert [event.reason for event in outcome.events] == ["Configuration recommendation"]
    assert bool(outcome.state.config_changes.overrides) is stored
    assert outcome.target.tunes_memory is stored


# A job that needs half of its parallelism, with a scale-down interval of two minutes.
DELAYED = {**OPTIONS, "scale-down.interval": "2 min"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, None, id="improved"),
        pytest.param({"compat": "reference"}, 8, id="reference"),
    ],
)
def test_a_stale_recommendation_above_the_current_parallelism(options: dict[str, str], expected: int | None) -> None:
    driver = JobDriver(a_context({**DELAYED, **options}))
    # At parallelism 16 the job needs 8; then somebody sets 4, of which it needs 2.
    for minute in (1, 2, 3, 4):
        driver.run(minute * MINUTE, single_source(minute, rate=50.0, busy_ms=250.0, parallelism=16))
    outcome = driver.run(5 * MINUTE, single_source(5, rate=50.0, busy_ms=250.0, parallelism=4))

    if expected is None:
        assert isinstance(outcome.decision, Hold)
        assert "SCALE_DOWN_STALE" in codes(outcome)
    else:
        assert outcome.target.parallelism == {SINGLE_SOURCE: expected}


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        pytest.param({"scaling.enabled": "false"}, "job.autoscaler.scaling.enabled:false,", id="scaling is disabled"),
        pytest.param(
            {"excluded.periods": "0:00-23:59:59:999;* * * ? * *"},
            "job.autoscaler.excluded.periods:[0:00-23:59:59:999, * * * ? * *],",
            id="an excluded period",
        ),
        pytest.param(
            {"scaling.enabled": "false", "excluded.periods": "* * * ? * *"},
            "job.autoscaler.scaling.enabled:false,",
            id="both: the switch is named",
        ),
    ],
)
def test_a_prevented_change_is_reported_and_not_executed(options: dict[str, str], setting: str) -> None:
    driver = JobDriver(a_context({**OPTIONS, **options}))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert isinstance(outcome.decision, Hold)
    assert "SCALING_DISABLED" in codes(outcome)
    assert outcome.report is not None
    assert not outcome.report.is_executed
    assert outcome.report.header.startswith(f"Scaling execution disabled by config {setting}")
    assert outcome.report.interval == driver.context.options.scaling_event_interval
    assert (outcome.state.overrides, outcome.state.history, outcome.target.parallelism) == ({}, {}, {})
    assert outcome.metrics is not None
    recommended = outcome.metrics.vertices[SINGLE_SOURCE][ScalingMetric.RECOMMENDED_PARALLELISM]
    assert recommended.current == 8.0


def test_a_waiting_scale_down_survives_a_prevented_change() -> None:
    driver = JobDriver(a_context({**DELAYED, "scaling.enabled": "false"}))
    full_window(driver, rate=50.0, busy_ms=250.0)
    for minute in (4, 5):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=50.0, busy_ms=250.0))

    assert outcome.report is not None
    assert outcome.state.delayed[SINGLE_SOURCE].first_ms == 3 * MINUTE


TRACKING = {**OPTIONS, "restart.time-tracking.enabled": "true"}


def test_the_restart_after_a_decision_is_measured() -> None:
    driver = JobDriver(a_context(TRACKING))
    full_window(driver, rate=200.0, busy_ms=1000.0)

    restarted = [
        driver.run(at * MINUTE, single_source(at, rate=200.0, busy_ms=500.0, parallelism=8, running_at_minute=3.75))
        for at in (4, 5)
    ]

    assert driver.state.tracking == (ScalingRecord(3 * MINUTE, 45_000),)
    assert restarted[1].restart is not None
    assert restarted[1].restart.seconds == 45


def test_the_restart_is_not_over_while_the_job_runs_at_its_old_parallelism() -> None:
    driver = JobDriver(a_context(TRACKING))
    full_window(driver, rate=200.0, busy_ms=1000.0)

    driver.run(4 * MINUTE, single_source(4, rate=200.0, busy_ms=500.0, parallelism=4, running_at_minute=3.75))

    assert driver.state.tracking == (ScalingRecord(3 * MINUTE),)


@pytest.mark.parametrize(
    ("detection", "blocked"), [("false", False), ("true", True)], ids=["detection off", "detection on"]
)
def test_an_ineffective_scale_up_is_reported_and_blocked_on_demand(detection: str, blocked: bool) -> None:
    history = {SINGLE_SOURCE: (history_entry(MINUTE, 2, 4, rate=190.0, expected=390.0),)}
    options = {**OPTIONS, "scaling.effectiveness.detection.enabled": detection}
    driver = JobDriver(a_context(options), JobState(history=history))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert isinstance(outcome.decision, Hold) is blocked
    (event,) = outcome.events
    assert (event.type, event.reason) == (EventType.NORMAL, "IneffectiveScaling")
    assert event.key == f"ineffective{SINGLE_SOURCE}200.0"
    assert event.message == (
        f"Ineffective scaling detected for vertex {SINGLE_SOURCE}: expected an increase of 200.0 records/s, got "
        f"10.0 records/s. Blocking of ineffective scaling is {'enabled' if blocked else 'disabled'}."
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [pytest.param({}, 6, id="improved"), pytest.param({"compat": "reference"}, 8, id="reference")],
)
def test_a_source_with_fewer_partitions_than_it_needs(options: dict[str, str], expected: int) -> None:
    driver = JobDriver(a_context({**OPTIONS, **options}))

    for minute in (1, 2, 3):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=200.0, busy_ms=1000.0, partitions=6))

    assert outcome.target.parallelism == {SINGLE_SOURCE: expected}


@pytest.mark.parametrize(
    ("options", "splits", "expected"),
    [
        # 4 subtasks are always busy: 16 would be for a quarter of their time. 24 partitions are even over 24 subtasks,
        # which the reference takes; half as many again is too many for an even share alone.
        pytest.param({}, Aggregate(3, 3, 3, 12), 12, id="improved: those that are read"),
        pytest.param({"compat": "reference"}, Aggregate(3, 3, 3, 12), 24, id="reference: those that have a name"),
        pytest.param({}, Aggregate(3, 3, 3, 9), 16, id="one subtask does not tell: those that have a name"),
    ],
)
def test_a_dynamic_source_is_limited_by_the_partitions_that_it_reads(
    options: dict[str, str], splits: Aggregate, expected: int
) -> None:
    busy = {"utilization.target": "0.25", "utilization.max": "0.3", "utilization.min": "0.1"}
    driver = JobDriver(a_context({**OPTIONS, **busy, **options}))

    for minute in (1, 2, 3):
        reading = single_source(minute, rate=200.0, busy_ms=1000.0, partitions=24)
        answers = {**reading.aggregates[SINGLE_SOURCE], FlinkMetric.ACTIVE_SPLITS: splits}
        outcome = driver.run(minute * MINUTE, dataclasses.replace(reading, aggregates={SINGLE_SOURCE: answers}))

    assert outcome.target.parallelism == {SINGLE_SOURCE: expected}


def test_a_legacy_alignment_that_has_to_deviate_is_told() -> None:
    legacy = {"scaling.key-group.partitions.adjust.mode": "EVENLY_SPREAD", "compat": "reference"}
    driver = JobDriver(a_context({**OPTIONS, **legacy}))

    for minute in (1, 2, 3):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=200.0, busy_ms=1000.0, partitions=6))

    assert outcome.target.parallelism == {SINGLE_SOURCE: 6}
    (event,) = outcome.events
    assert (event.type, event.reason, event.key) == (
        EventType.WARNING,
        "ScalingLimited",
        f"ScalingLimited{SINGLE_SOURCE}",
    )
    assert event.interval == driver.context.options.scaling_event_interval
    assert event.message == (
        f"Scaling of vertex {SINGLE_SOURCE} is limited by key groups or partitions: expected parallelism 8, "
        "actual 6, key groups or partitions 6, greatest parallelism 128, least 1"
    )


POOR = tuple(
    history_entry(at, p, p + 1, rate=rate) for at, (p, rate) in enumerate(((4, 400.0), (8, 720.0), (16, 1280.0)))
)


def test_a_vertex_held_back_by_a_bottleneck_is_sized_with_its_own_scalability() -> None:
    options = {**OPTIONS, "observed-scalability.enabled": "true"}
    driver = JobDriver(a_context(options), JobState(history={PIPELINE_MAP: POOR}))

    outcome = driver.run_each_minute(stuck_pipeline())

    # 200 records/s of 100 at a coefficient of 0.83: 4 * 2.41.
    assert outcome.target.parallelism == {PIPELINE_SOURCE: 4, PIPELINE_MAP: 10}


V, OTHER, USER_ONLY = vertex_id(1), vertex_id(2), vertex_id(3)


USER = {"pipeline.jobvertex-parallelism-overrides": f"{V}:11,{USER_ONLY}:33"}


@pytest.mark.parametrize(
    ("options", "excluded", "expected"),
    [
        pytest.param({}, frozenset(), {V: 4, OTHER: 5, USER_ONLY: 33}, id="what was decided wins"),
        pytest.param({}, frozenset({V}), {V: 11, OTHER: 5, USER_ONLY: 33}, id="unless the vertex is excluded now"),
        pytest.param(
            {"vertex.exclude.ids": V}, frozenset(), {V: 11, OTHER: 5, USER_ONLY: 33}, id="or by the configuration"
        ),
        pytest.param(
            {}, frozenset({OTHER}), {V: 4, OTHER: 5, USER_ONLY: 33}, id="excluded without a value of the user"
        ),
    ],
)
def test_decided_and_user_overrides_are_merged(
    options: dict[str, str], excluded: frozenset[str], expected: dict[str, int]
) -> None:
    context = a_context(options, USER)

    assert wanted_parallelism(context, {V: 4, OTHER: 5}, excluded) == expected


def test_nothing_is_wanted_before_the_first_decision() -> None:
    assert wanted_parallelism(a_context({}, USER), {}, frozenset()) == {}


def test_user_overrides_may_be_a_flow_map() -> None:
    user = {"pipeline.jobvertex-parallelism-overrides": f"{{{V}: '11'}}"}

    assert wanted_parallelism(a_context({}, user), {OTHER: 5}, frozenset()) == {V: 11, OTHER: 5}


@pytest.mark.parametrize("text", [f"{V}:many", f"{V}"])
def test_a_user_override_that_is_no_number_is_an_error(text: str) -> None:
    context = a_context({}, {"pipeline.jobvertex-parallelism-overrides": text})

    with pytest.raises(ConfigError):
        wanted_parallelism(context, {V: 4}, frozenset())


def test_bad_user_overrides_are_an_error_of_the_pass_and_nothing_is_realized() -> None:
    state = dataclasses.replace(EMPTY_STATE, overrides={V: 4})
    context = a_context({}, {"pipeline.jobvertex-parallelism-overrides": "a:b"}, status=JobStatus.RESTARTING)

    outcome = without_reading(a_request(context, state=state))

    assert outcome is not None
    assert (outcome.phase, outcome.target.parallelism, outcome.state) == (PassPhase.ERROR, {}, state)


def test_a_finished_vertex_is_pinned_and_the_user_may_still_override_it() -> None:
    user = {"pipeline.jobvertex-parallelism-overrides": f"{OTHER}:7"}
    driver = JobDriver(a_context(OPTIONS, user))
    for minute in (1, 2, 3):
        received = round(200.0 * 60 * minute)
        source = a_vertex(1, parallelism=4, io=IoMetrics(records_in=received))
        finished = a_vertex(2, parallelism=3, is_finished=True)
        answers = {V: source_answers(busy_ms=1000.0, rate=200.0)}
        outcome = driver.run(minute * MINUTE, a_reading([source, finished], answers))

    assert outcome.state.overrides == {V: 8, OTHER: 3}
    assert outcome.observation.excluded == {OTHER}
    assert outcome.target.parallelism == {V: 8, OTHER: 7}


def test_a_vertex_without_busy_time_is_pinned() -> None:
    driver = JobDriver(a_context(OPTIONS))
    for minute in (1, 2, 3):
        received = round(200.0 * 60 * minute)
        source = a_vertex(1, parallelism=4, io=IoMetrics(records_in=received))
        silent = a_vertex(2, parallelism=3, inputs={1: ShipStrategy.HASH}, io=IoMetrics(records_in=received))
        answers = {
            V: source_answers(busy_ms=1000.0, rate=200.0),
            OTHER: operator_answers(busy_ms=float("nan"), rate=200.0),
        }
        outcome = driver.run(minute * MINUTE, a_reading([source, silent], answers))

    assert outcome.observation.excluded == {OTHER}
    assert outcome.target.parallelism == {V: 8, OTHER: 3}


def context(options: dict[str, str], **job: float) -> JobAutoScalerContext:
    return a_context({**SINGLE_SOURCE_OPTIONS, **options}, taskmanager_cpu=job.get("cpu"))


def third_pass(job: JobAutoScalerContext, readings: list[JobReading]) -> PassOutcome:
    return JobDriver(job).run_each_minute(readings)


def busy_source_of_a_group() -> list[JobReading]:
    return [single_source(minute, rate=200.0, busy_ms=1000.0, group="g") for minute in (1, 2, 3)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {SINGLE_SOURCE: 6}, id="improved: up to the quota"),
        pytest.param({"compat": "reference"}, {}, id="reference: not at all"),
    ],
)
def test_a_quota_below_what_is_needed(options: dict[str, str], expected: dict[str, int]) -> None:
    job = context({**options, "quota.cpu": "6"}, cpu=1.0)

    outcome = third_pass(job, busy_source_of_a_group())

    assert outcome.target.parallelism == expected
    assert "ResourceQuotaReached" in [event.reason for event in outcome.events]


def test_a_quota_that_suffices_changes_nothing() -> None:
    outcome = third_pass(context({"quota.cpu": "8"}, cpu=1.0), busy_source_of_a_group())

    assert outcome.target.parallelism == {SINGLE_SOURCE: 8}
    assert outcome.events == ()


@pytest.mark.parametrize(("compat", "expected"), [("improved", 4), ("reference", 2)])
def test_a_busy_vertex_while_a_backlog_is_drained(compat: str, expected: int) -> None:
    # For the 100 records/s that arrive, a tenth of the parallelism would do.
    outcome = third_pass(context({"compat": compat}), draining_pipeline())

    assert outcome.target.parallelism == {SINGLE_SOURCE: 2, PIPELINE_MAP: expected}


@pytest.mark.parametrize(("compat", "source", "expected"), [("improved", 4, 8), ("reference", 16, 16)])
def test_a_vertex_behind_a_source_that_cannot_grow(compat: str, source: int, expected: int) -> None:
    outcome = third_pass(context({"compat": compat}), stuck_pipeline())

    assert outcome.target.parallelism == {SINGLE_SOURCE: source, PIPELINE_MAP: expected}


def test_the_same_inputs_lead_to_the_same_decision() -> None:
    readings = busy_source_of_a_group()

    first, second = (third_pass(context({}), readings) for _ in range(2))

    assert dataclasses.replace(first, seconds={}) == dataclasses.replace(second, seconds={})
