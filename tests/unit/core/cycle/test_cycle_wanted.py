import dataclasses

import pytest

from flink_autoscaler.core.cycle.ending import without_reading
from flink_autoscaler.core.cycle.wanted import wanted_parallelism
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_request,
    a_vertex,
    full_window,
    operator_answers,
    single_source,
    source_answers,
    vertex_id,
)

OPTIONS = dict(SINGLE_SOURCE_OPTIONS)
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
    assert (outcome.phase, outcome.wanted, outcome.state) == (PassPhase.ERROR, {}, state)


def test_a_decision_stays_wanted_in_every_later_pass() -> None:
    driver = JobDriver(a_context(OPTIONS))
    full_window(driver, rate=200.0, busy_ms=1000.0)

    restarted = single_source(4, rate=200.0, busy_ms=500.0, parallelism=8, running_at_minute=3.5)
    outcome = driver.run(4 * MINUTE, restarted)

    assert outcome.phase is PassPhase.COLLECTING
    assert outcome.wanted == {SINGLE_SOURCE: 8}


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
    assert outcome.excluded == {OTHER}
    assert outcome.wanted == {V: 8, OTHER: 7}


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

    assert outcome.excluded == {OTHER}
    assert outcome.wanted == {V: 8, OTHER: 3}
