"""What a decision records, what delays it and what prevents it."""

import dataclasses
from datetime import UTC, datetime

import pytest

from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.state import ConfigChanges, JobState, ScalingRecord
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    PIPELINE_MAP,
    PIPELINE_SOURCE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    full_window,
    history_entry,
    single_source,
    stuck_pipeline,
    vertex_id,
)

OPTIONS = dict(SINGLE_SOURCE_OPTIONS)


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def test_a_decision_is_recorded() -> None:
    driver = JobDriver(a_context(OPTIONS))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert isinstance(outcome.decision, Rescale)
    summary = outcome.decision.summaries[SINGLE_SOURCE]
    assert outcome.state.history == {SINGLE_SOURCE: ((3 * MINUTE, summary),)}
    assert outcome.state.tracking == (ScalingRecord(3 * MINUTE),)
    assert outcome.state.overrides == {SINGLE_SOURCE: 8}
    assert outcome.state.delayed == {}
    assert (summary.current, summary.new) == (4, 8)
    assert summary.metrics[ScalingMetric.EXPECTED_PROCESSING_RATE].current == 400.0


def test_a_decision_without_memory_tuning_replaces_older_config_changes() -> None:
    driver = JobDriver(a_context(OPTIONS), JobState(config_changes=ConfigChanges({"a": "b"})))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert outcome.state.config_changes == ConfigChanges()
    assert not outcome.wanted_config


TUNING_FLINK = {"taskmanager.memory.process.size": "2g"}


@pytest.mark.parametrize(("enabled", "stored"), [("true", True), ("false", False)], ids=["on", "off"])
def test_memory_is_tuned_only_when_it_is_on_and_recommended_either_way(enabled: str, stored: bool) -> None:
    driver = JobDriver(a_context({**OPTIONS, "memory.tuning.enabled": enabled}, TUNING_FLINK))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert [event.reason for event in outcome.events] == ["Configuration recommendation"]
    assert bool(outcome.state.config_changes.overrides) is stored
    assert outcome.wanted_config is stored


def test_no_memory_is_recommended_for_taskmanagers_of_unknown_size() -> None:
    driver = JobDriver(a_context(OPTIONS, {"taskmanager.memory.flink.size": "1g"}))

    assert full_window(driver, rate=200.0, busy_ms=1000.0).events == ()


def test_a_decision_is_repeated_while_it_has_no_effect() -> None:
    driver = JobDriver(a_context(OPTIONS))
    full_window(driver, rate=200.0, busy_ms=1000.0)

    outcome = driver.run(4 * MINUTE, single_source(4, rate=200.0, busy_ms=1000.0))

    assert isinstance(outcome.decision, Rescale)
    assert [entry.at_ms for entry in outcome.state.history[SINGLE_SOURCE]] == [3 * MINUTE, 4 * MINUTE]
    assert outcome.state.tracking == (ScalingRecord(3 * MINUTE), ScalingRecord(4 * MINUTE))


# A job that needs half of its parallelism, with a scale-down interval of two minutes.
DELAYED = {**OPTIONS, "scale-down.interval": "2 min"}


def test_a_scale_down_waits_for_its_interval() -> None:
    driver = JobDriver(a_context(DELAYED))

    outcomes = [full_window(driver, rate=50.0, busy_ms=250.0)]
    outcomes += [driver.run(at * MINUTE, single_source(at, rate=50.0, busy_ms=250.0)) for at in (4, 5)]

    assert [isinstance(outcome.decision, Rescale) for outcome in outcomes] == [False, False, True]
    assert "SCALE_DOWN_DELAYED" in codes(outcomes[0])
    assert outcomes[1].state.delayed[SINGLE_SOURCE].first_ms == 3 * MINUTE
    assert outcomes[2].wanted == {SINGLE_SOURCE: 2}
    assert outcomes[2].state.delayed == {}


def test_a_waiting_scale_down_is_forgotten_when_the_load_returns() -> None:
    driver = JobDriver(a_context(DELAYED))
    full_window(driver, rate=50.0, busy_ms=250.0)

    # From minute 2 on it has received 42000 records in 120 s at an average load of 0.5: just right.
    outcome = driver.run(4 * MINUTE, single_source(4, rate=200.0, busy_ms=1000.0))

    assert "AT_TARGET" in codes(outcome)
    assert outcome.state.delayed == {}


def test_a_waiting_scale_down_is_forgotten_when_more_is_needed_even_within_bounds() -> None:
    driver = JobDriver(a_context(DELAYED))
    waiting = full_window(driver, rate=60.0, busy_ms=300.0).state.delayed

    # From minute 2 on it has received 40800 records in 120 s at an average load of 0.533: it wants 5.
    outcome = driver.run(4 * MINUTE, single_source(4, rate=200.0, busy_ms=1000.0))

    assert set(waiting) == {SINGLE_SOURCE}
    assert codes(outcome) == ["SIZED", "WITHIN_BOUNDS"]
    assert outcome.state.delayed == {}


def test_a_waiting_scale_down_survives_a_restart_and_memory_pressure() -> None:
    driver = JobDriver(a_context(DELAYED))
    waiting = full_window(driver, rate=50.0, busy_ms=250.0).state.delayed

    driver.run(4 * MINUTE, single_source(4, rate=50.0, busy_ms=250.0, running_at_minute=3.5))

    assert driver.state.delayed == waiting


def test_the_highest_recommendation_of_the_interval_is_executed() -> None:
    driver = JobDriver(a_context({**DELAYED, "metrics.window": "1 min", "sample-check.enabled": "false"}))
    # Needs of 2, then 3, then 2 again; at minute 4 the interval has passed, and 3 is the highest of it.
    for minute, rate in ((1.0, 50.0), (2.0, 50.0), (3.0, 75.0), (4.0, 50.0)):
        reading = single_source(minute, rate=rate, busy_ms=rate * 5)
        assert reading.details is not None
        received = {1.0: 0, 2.0: 3000, 3.0: 7500, 4.0: 10_500}[minute]
        entry = reading.details.vertices[0]
        entry = dataclasses.replace(entry, io=dataclasses.replace(entry.io, records_in=received + 1))
        reading = dataclasses.replace(reading, details=dataclasses.replace(reading.details, vertices=(entry,)))
        outcome = driver.run(round(minute * MINUTE), reading)

    assert outcome.wanted == {SINGLE_SOURCE: 3}


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
        assert outcome.wanted == {SINGLE_SOURCE: expected}


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
    assert (outcome.state.overrides, outcome.state.history, outcome.wanted) == ({}, {}, {})
    assert outcome.evaluation is not None
    recommended = outcome.evaluation.metrics.vertices[SINGLE_SOURCE][ScalingMetric.RECOMMENDED_PARALLELISM]
    assert recommended.current == 8.0


def test_a_period_that_is_over_prevents_nothing() -> None:
    now = datetime(2024, 1, 3, tzinfo=UTC)
    driver = JobDriver(a_context({**OPTIONS, "excluded.periods": f"* * * * * ? {now.year}"}))

    assert isinstance(full_window(driver, rate=200.0, busy_ms=1000.0).decision, Rescale)


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
    assert restarted[1].evaluation is not None
    assert restarted[1].evaluation.restart_time == 45


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


def test_an_undefined_scalability_fails_the_pass_in_the_reference_only() -> None:
    zero = tuple(history_entry(at, 2, 3, rate=0.0) for at in (MINUTE, MINUTE + 1, MINUTE + 2))
    options = {**OPTIONS, "observed-scalability.enabled": "true"}
    state = JobState(history={SINGLE_SOURCE: zero})

    improved = full_window(JobDriver(a_context(options), state), rate=200.0, busy_ms=1000.0)
    reference = full_window(JobDriver(a_context({**options, "compat": "reference"}), state), rate=200.0, busy_ms=1000.0)

    assert improved.wanted == {SINGLE_SOURCE: 8}
    assert reference.phase is PassPhase.ERROR


@pytest.mark.parametrize(
    ("options", "expected"),
    [pytest.param({}, 6, id="improved"), pytest.param({"compat": "reference"}, 8, id="reference")],
)
def test_a_source_with_fewer_partitions_than_it_needs(options: dict[str, str], expected: int) -> None:
    driver = JobDriver(a_context({**OPTIONS, **options}))

    for minute in (1, 2, 3):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=200.0, busy_ms=1000.0, partitions=6))

    assert outcome.wanted == {SINGLE_SOURCE: expected}


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

    assert outcome.wanted == {SINGLE_SOURCE: expected}


def test_a_legacy_alignment_that_has_to_deviate_is_told() -> None:
    legacy = {"scaling.key-group.partitions.adjust.mode": "EVENLY_SPREAD", "compat": "reference"}
    driver = JobDriver(a_context({**OPTIONS, **legacy}))

    for minute in (1, 2, 3):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=200.0, busy_ms=1000.0, partitions=6))

    assert outcome.wanted == {SINGLE_SOURCE: 6}
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


def test_history_keeps_one_entry_more_than_its_count_until_the_next_pass() -> None:
    old = tuple(history_entry(at, 2, 3, rate=1.0) for at in (1, 2, 3))
    driver = JobDriver(a_context(OPTIONS), JobState(history={SINGLE_SOURCE: old, vertex_id(9): old}))

    outcome = full_window(driver, rate=200.0, busy_ms=1000.0)

    assert len(outcome.state.history[SINGLE_SOURCE]) == 4
    assert set(outcome.state.history) == {SINGLE_SOURCE}


POOR = tuple(
    history_entry(at, p, p + 1, rate=rate) for at, (p, rate) in enumerate(((4, 400.0), (8, 720.0), (16, 1280.0)))
)


def test_a_vertex_held_back_by_a_bottleneck_is_sized_with_its_own_scalability() -> None:
    options = {**OPTIONS, "observed-scalability.enabled": "true"}
    driver = JobDriver(a_context(options), JobState(history={PIPELINE_MAP: POOR}))

    outcome = driver.run_each_minute(stuck_pipeline())

    # 200 records/s of 100 at a coefficient of 0.83: 4 * 2.41.
    assert outcome.wanted == {PIPELINE_SOURCE: 4, PIPELINE_MAP: 10}
