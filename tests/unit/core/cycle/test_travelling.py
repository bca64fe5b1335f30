"""Requests and outcomes go to Spark tasks and back."""

import pickle

import pytest

from flink_autoscaler.core.errors import (
    AutoscalerError,
    ConnectError,
    JobGoneError,
    MissingMetricError,
    RefusedError,
    StoreError,
)
from flink_autoscaler.core.model.reading import JobReading
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
