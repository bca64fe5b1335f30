"""What a decision records, what delays it and what prevents it."""

import dataclasses

import pytest

from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.cycle.overrides import wanted_parallelism
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, ConfigChanges, JobState, ScalingRecord
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    PIPELINE_MAP,
    PIPELINE_SOURCE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
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


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


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
