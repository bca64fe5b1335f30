"""Which passes are worth recording."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace

import pytest

from flink_autoscaler.core.cycle.recording import should_record, signature
from flink_autoscaler.core.errors import (
    AutoscalerError,
    ConnectError,
    EvaluationError,
    JobGoneError,
    MissingMetricError,
    RefusedError,
    StoreError,
)
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Fingerprint, Pause, RescaleRecord, Stage, Supervision
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.ports.passes import LastRecord, PassObservation, PassOutcome, PassRequest, RescaleTarget
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_request,
    full_window,
    single_source,
)

NOON_MS = 720 * MINUTE
INTERVAL_MS = 10 * MINUTE
QUIET = PassOutcome(
    "a job", PassPhase.EXECUTED, Hold.because("NO_CHANGE", "nothing to do"), target=RescaleTarget({"work": 2})
)
RESCALE = RescaleRecord(NOON_MS, NOON_MS, {"work": 2}, {"work": 4})


def a_pass(*, after_ms: int, last: PassOutcome = QUIET) -> PassRequest:
    """Ask for a pass so long after one with some outcome was recorded."""
    recorded = LastRecord(NOON_MS, signature(last), INTERVAL_MS)
    return replace(a_request(now_ms=NOON_MS + after_ms), recorded=recorded)


def followed(**changes: object) -> PassOutcome:
    supervision = Supervision(**{"current": RESCALE, **changes})  # type: ignore[arg-type]
    return replace(QUIET, state=JobState(supervision=supervision))


def test_nothing_is_recorded_unless_it_is_asked_for() -> None:
    assert not should_record(a_request(), QUIET)


def test_the_first_pass_is_recorded() -> None:
    assert should_record(replace(a_request(now_ms=NOON_MS), recorded=LastRecord()), QUIET)


def test_a_decision_is_always_recorded() -> None:
    outcome = full_window(JobDriver(a_context(dict(SINGLE_SOURCE_OPTIONS))), rate=200.0, busy_ms=1000.0)

    assert should_record(a_pass(after_ms=1, last=outcome), outcome)


@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [
        pytest.param(1, False, id="at once"),
        pytest.param(INTERVAL_MS - 1, False, id="just within the interval"),
        pytest.param(INTERVAL_MS, True, id="after the interval"),
        pytest.param(-1, True, id="the clock was set back"),
    ],
)
def test_a_pass_that_comes_to_the_same_is_recorded_after_an_interval(after_ms: int, expected: bool) -> None:
    same = replace(
        QUIET, decision=Hold.because("NO_CHANGE", "in other words"), observation=PassObservation(sample_count=7)
    )

    assert should_record(a_pass(after_ms=after_ms), same) is expected


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(QUIET, phase=PassPhase.NOT_RUNNING), id="phase"),
        pytest.param(replace(QUIET, target=RescaleTarget({"work": 3})), id="wanted parallelism"),
        pytest.param(replace(QUIET, events=(Event(EventType.NORMAL, "RescaleReached", ""),)), id="event told once"),
        pytest.param(followed(), id="rescale begun"),
        pytest.param(followed(pause=Pause("network-memory", "", NOON_MS, Fingerprint(None))), id="paused"),
    ],
)
def test_what_does_not_change_by_itself_is_recorded_at_once(changed: PassOutcome) -> None:
    assert should_record(a_pass(after_ms=1), changed)
    assert not should_record(a_pass(after_ms=1, last=changed), changed)


def test_a_rescale_that_settles_is_recorded_at_once() -> None:
    settled = followed(current=replace(RESCALE, stage=Stage.REACHED))

    assert should_record(a_pass(after_ms=1, last=followed()), settled)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(QUIET, decision=Hold((Reason("SCALE_DOWN_DELAYED", "", "work"),))), id="reasons"),
        pytest.param(
            replace(QUIET, events=(Event(EventType.NORMAL, "MemoryPressure", "", None, Duration(1)),)),
            id="event that is repeated",
        ),
        pytest.param(replace(QUIET, error=ConnectError("nobody there")), id="error"),
    ],
)
def test_what_may_come_and_go_is_recorded_ten_times_per_interval_at_most(changed: PassOutcome) -> None:
    assert not should_record(a_pass(after_ms=INTERVAL_MS // 10 - 1), changed)
    assert should_record(a_pass(after_ms=INTERVAL_MS // 10), changed)


def test_numbers_in_texts_make_no_difference() -> None:
    first = replace(QUIET, error=EvaluationError("after 1.1 s"), decision=Hold.because("EVALUATION", "after 1.1 s"))
    second = replace(QUIET, error=EvaluationError("after 1.2 s"), decision=Hold.because("EVALUATION", "after 1.2 s"))

    assert signature(first) == signature(second)


def test_a_job_that_is_switched_off_is_recorded_once() -> None:
    off = replace(QUIET, phase=PassPhase.DISABLED)

    assert should_record(a_pass(after_ms=1), off)
    assert not should_record(a_pass(after_ms=100 * INTERVAL_MS, last=off), off)


def test_a_sized_vertex_tells_every_term_of_the_formula() -> None:
    outcome = full_window(JobDriver(a_context(dict(SINGLE_SOURCE_OPTIONS))), rate=200.0, busy_ms=1000.0)

    (reason,) = outcome.decision.reasons
    figures: Mapping[str, float] = dict(reason.figures)
    assert (reason.code, reason.vertex_id) == ("SIZED", SINGLE_SOURCE)
    assert figures == {
        "target_rate": 200.0,
        "utilization_target": 0.5,
        "catch_up_rate": 0.0,
        "restart_rate": 0.0,
        "needed_rate": 400.0,
        "processing_rate": 200.0,
        "coefficient": 1.0,
        "factor": 2.0,
        "wanted": 8,
        "least": 1,
        "greatest": 200,
        "max_parallelism": 128,
        "partitions": 0,
        "within_limits": 8,
        "aligned": 8,
    }


def test_an_executed_outcome_travels() -> None:
    outcome = full_window(JobDriver(a_context(dict(SINGLE_SOURCE_OPTIONS))), rate=200.0, busy_ms=1000.0)

    # NaN is not equal to itself, so that the texts are compared.
    assert repr(pickle.loads(pickle.dumps(outcome))) == repr(outcome)


def test_a_failed_outcome_travels() -> None:
    driver = JobDriver(a_context(dict(SINGLE_SOURCE_OPTIONS)))

    outcome = driver.run(MINUTE, JobReading(None, error=ConnectError("nobody there")), a_cluster())

    assert repr(pickle.loads(pickle.dumps(outcome))) == repr(outcome)


def test_a_request_and_a_reading_travel() -> None:
    request = a_request(a_context(dict(SINGLE_SOURCE_OPTIONS)), now_ms=5)
    reading = single_source(1, rate=1.0, busy_ms=1.0)

    assert pickle.loads(pickle.dumps(request)) == request
    assert pickle.loads(pickle.dumps(reading)) == reading


@pytest.mark.parametrize(
    "error",
    [
        StoreError("disk full"),
        MissingMetricError(SINGLE_SOURCE, "BUSY_TIME_PER_SEC"),
        RefusedError("HTTP 409", 409, "conflict"),
        JobGoneError("HTTP 404", 404),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_with_what_they_know(error: AutoscalerError) -> None:
    travelled = pickle.loads(pickle.dumps(error))

    assert type(travelled) is type(error)
    assert str(travelled) == str(error)
    assert vars(travelled) == vars(error)
