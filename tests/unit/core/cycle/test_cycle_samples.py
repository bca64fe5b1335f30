"""Which samples a pass keeps, and what the collector is told to remember."""

import dataclasses
import math

import pytest

from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import JobState
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    full_window,
    history_entry,
    single_source,
    vertex_id,
)

OPTIONS = dict(SINGLE_SOURCE_OPTIONS)
REFERENCE = {**OPTIONS, "compat": "reference"}


def instants(state: JobState) -> list[float]:
    return [sample.at_ms / MINUTE for sample in state.samples]


def test_a_restart_drops_the_samples_from_before() -> None:
    driver = JobDriver(a_context(OPTIONS))
    full_window(driver, rate=100.0, busy_ms=500.0)

    outcome = driver.run(4 * MINUTE, single_source(4, rate=100.0, busy_ms=500.0, running_at_minute=3.5))

    assert outcome.phase is PassPhase.COLLECTING
    assert instants(driver.state) == [4]


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


def test_a_full_window_drops_what_is_older() -> None:
    driver = JobDriver(a_context(OPTIONS))
    full_window(driver, rate=100.0, busy_ms=500.0)

    driver.run(4 * MINUTE, single_source(4, rate=100.0, busy_ms=500.0))

    assert instants(driver.state) == [2, 3, 4]


def test_a_pass_of_the_same_instant_replaces_the_sample() -> None:
    driver = JobDriver(a_context(OPTIONS))

    for _ in range(2):
        driver.run(MINUTE, single_source(1, rate=100.0, busy_ms=500.0))

    assert instants(driver.state) == [1]


@pytest.mark.parametrize(
    ("options", "phase"),
    [
        pytest.param(OPTIONS, PassPhase.EXECUTED, id="improved"),
        pytest.param(REFERENCE, PassPhase.WINDOW_FILLING, id="reference"),
    ],
)
def test_a_jittering_pass_keeps_the_window_full_with_the_improvement(options: dict[str, str], phase: PassPhase) -> None:
    driver = JobDriver(a_context(options))
    for minute in (1.0, 2.1, 3.1):
        driver.run(round(minute * MINUTE), single_source(minute, rate=100.0, busy_ms=500.0))

    outcome = driver.run(4 * MINUTE, single_source(4, rate=100.0, busy_ms=500.0))

    assert outcome.phase is phase


@pytest.mark.parametrize(
    ("options", "phase", "is_full"),
    [
        pytest.param(OPTIONS, PassPhase.EXECUTED, True, id="improved"),
        pytest.param(REFERENCE, PassPhase.COLLECTING, True, id="reference"),
    ],
)
def test_passes_rarer_than_the_window(options: dict[str, str], phase: PassPhase, is_full: bool) -> None:
    driver = JobDriver(a_context(options))
    driver.run(5 * MINUTE, single_source(5, rate=100.0, busy_ms=500.0))

    outcome = driver.run(10 * MINUTE, single_source(10, rate=100.0, busy_ms=500.0))

    assert (outcome.phase, outcome.is_window_full) == (phase, is_full)


def test_a_counter_reset_without_a_restart_does_not_look_like_no_input() -> None:
    driver = JobDriver(a_context(OPTIONS))
    full_window(driver, rate=100.0, busy_ms=500.0)

    after_reset = [single_source(minute, rate=100.0, busy_ms=500.0) for minute in (0.5, 1.5)]
    outcomes = [driver.run(at * MINUTE, reading) for at, reading in zip((4, 5), after_reset, strict=True)]

    assert outcomes[0].phase is PassPhase.WINDOW_FILLING
    assert isinstance(outcomes[1].decision, Hold)
    assert outcomes[1].evaluation is not None
    target = outcomes[1].evaluation.metrics.vertices[SINGLE_SOURCE][ScalingMetric.TARGET_DATA_RATE]
    assert target.average == 100.0


def test_a_counter_reset_without_a_restart_scales_down_in_the_reference() -> None:
    driver = JobDriver(a_context(REFERENCE))
    full_window(driver, rate=100.0, busy_ms=500.0)

    outcome = driver.run(4 * MINUTE, single_source(0.5, rate=100.0, busy_ms=500.0))

    assert isinstance(outcome.decision, Rescale)
    assert outcome.wanted[SINGLE_SOURCE] < 4


@pytest.mark.parametrize(("gc_ms", "reports_gc"), [(5.0, True), (None, False)], ids=["reported", "not reported"])
def test_the_collector_learns_whether_garbage_collection_is_reported(gc_ms: float | None, reports_gc: bool) -> None:
    driver = JobDriver(a_context(OPTIONS))

    outcome = driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), a_cluster(gc_ms=gc_ms))

    assert outcome.memory.reports_gc is reports_gc
    assert outcome.sample is not None
    assert (ScalingMetric.GC_PRESSURE in outcome.sample.globals_) is reports_gc


def test_a_job_that_reported_no_garbage_collection_is_not_asked_again() -> None:
    driver = JobDriver(a_context(OPTIONS))
    driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), a_cluster(gc_ms=None))

    outcome = driver.run(2 * MINUTE, single_source(2, rate=1.0, busy_ms=1.0), a_cluster(gc_ms=5.0))

    assert outcome.sample is not None
    assert ScalingMetric.GC_PRESSURE not in outcome.sample.globals_
    assert ScalingMetric.HEAP_MEMORY_USED in outcome.sample.globals_


def test_taskmanagers_that_report_nothing_are_an_error_in_the_reference() -> None:
    driver = JobDriver(a_context({**OPTIONS, "compat": "reference"}))

    outcome = driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), ClusterReading())

    assert (outcome.phase, outcome.sample) == (PassPhase.ERROR, None)


def test_without_what_taskmanagers_report_the_sample_has_no_heap() -> None:
    driver = JobDriver(a_context(OPTIONS))

    outcome = driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), ClusterReading())

    assert outcome.sample is not None
    assert outcome.sample.globals_ == {}


def test_after_taskmanagers_reported_nothing_garbage_collection_is_asked_for_anew() -> None:
    driver = JobDriver(a_context({**OPTIONS, "compat": "reference"}))
    driver.run(MINUTE, single_source(1, rate=1.0, busy_ms=1.0), a_cluster(gc_ms=5.0))
    without_gc = a_cluster(gc_ms=None)

    failed = driver.run(2 * MINUTE, single_source(2, rate=1.0, busy_ms=1.0), without_gc)
    outcome = driver.run(3 * MINUTE, single_source(3, rate=1.0, busy_ms=1.0), without_gc)

    assert failed.phase is PassPhase.ERROR
    assert outcome.sample is not None


def test_unknown_metrics_are_absent_or_nan_but_never_zero() -> None:
    driver = JobDriver(a_context(OPTIONS))

    outcome = driver.run(MINUTE, single_source(1, rate=0.0, busy_ms=1.0, is_answered=False))

    assert outcome.sample is not None
    source = outcome.sample.vertices[SINGLE_SOURCE]
    assert math.isnan(source[ScalingMetric.LOAD])
    assert math.isnan(source[ScalingMetric.LAG])
    assert outcome.excluded == {SINGLE_SOURCE}


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
