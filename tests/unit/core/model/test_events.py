"""What people read about a decision: every reason word by word, with its numbers and the vertex it is about."""

from collections.abc import Mapping

import pytest

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    PIPELINE_MAP,
    PIPELINE_SOURCE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_reading,
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
NO_CHANGE = ("NO_CHANGE", None)


def reasons(outcome: PassOutcome) -> list[tuple[str, VertexId | None]]:
    return [(reason.code, reason.vertex_id) for reason in outcome.decision.reasons]


def driver(options: Mapping[str, str] | None = None, state: JobState | None = None) -> JobDriver:
    return JobDriver(a_context({**OPTIONS, **(options or {})}), state or JobState())


@pytest.mark.parametrize(
    ("options", "rate", "expected"),
    [
        pytest.param({}, 200.0, [("SIZED", SINGLE_SOURCE)], id="busy all the time"),
        pytest.param(
            {},
            100.0,
            [
                ("AT_TARGET", SINGLE_SOURCE),
                NO_CHANGE,
            ],
            id="half busy",
        ),
        pytest.param(
            {},
            120.0,
            [
                ("SIZED", SINGLE_SOURCE),
                ("WITHIN_BOUNDS", None),
            ],
            id="within bounds",
        ),
        pytest.param(
            {"vertex.max-parallelism": "6"},
            200.0,
            [("SIZED", SINGLE_SOURCE)],
            id="limited",
        ),
        pytest.param(
            {"vertex.exclude.ids": SINGLE_SOURCE},
            200.0,
            [("EXCLUDED", SINGLE_SOURCE), NO_CHANGE],
            id="excluded",
        ),
        pytest.param(
            {"scale-down.interval": "2 min"},
            50.0,
            [
                ("SIZED", SINGLE_SOURCE),
                ("SCALE_DOWN_DELAYED", SINGLE_SOURCE),
                NO_CHANGE,
            ],
            id="waiting",
        ),
        pytest.param(
            {"scaling.enabled": "false"},
            200.0,
            [
                ("SIZED", SINGLE_SOURCE),
                ("SCALING_DISABLED", None),
            ],
            id="scaling disabled",
        ),
    ],
)
def test_a_decision_about_one_vertex_is_explained(
    options: Mapping[str, str], rate: float, expected: list[tuple[str, str | None]]
) -> None:
    outcome = full_window(driver(options), rate=rate, busy_ms=rate * 5)

    assert reasons(outcome) == expected


def test_a_vertex_behind_an_unknown_one_is_left_alone_with_a_reason() -> None:
    hashed = ShipStrategy.HASH
    readings = []
    for minute in (1, 2, 3):
        io = IoMetrics(6000 * minute, 6000 * minute)
        unknown = IoMetrics(6000 * minute, 6000 * minute, is_complete=False)
        vertices = [
            a_vertex(1, parallelism=4, io=io),
            a_vertex(2, parallelism=4, io=unknown, inputs={1: hashed}),
            a_vertex(3, parallelism=4, io=io, inputs={2: hashed}),
        ]
        answers = {v: operator_answers(busy_ms=100.0, rate=100.0) for v in (vertex_id(2), vertex_id(3))}
        answers[SINGLE_SOURCE] = source_answers(busy_ms=500.0, rate=100.0)
        readings.append(a_reading(vertices, answers))

    found = reasons(driver().run_each_minute(readings))

    assert ("EXCLUDED", vertex_id(2)) in found
    assert ("UNKNOWN_RATE", vertex_id(3)) in found


SATURATED = ("SATURATED", PIPELINE_MAP)


@pytest.mark.parametrize(
    ("busy_ms", "is_saturated"),
    [
        pytest.param(900.0, True, id="busier"),
        pytest.param(500.0, True, id="as busy"),
        pytest.param(490.0, False, id="less"),
    ],
)
def test_a_vertex_as_busy_as_its_target_is_saturated(busy_ms: float, is_saturated: bool) -> None:
    outcome = driver().run_each_minute(draining_pipeline(map_busy_ms=busy_ms))

    assert (SATURATED in reasons(outcome)) is is_saturated


def test_a_vertex_held_back_by_a_bottleneck_says_which_one_and_how_much_it_sustains() -> None:
    outcome = driver().run_each_minute(stuck_pipeline())

    [reason] = [reason for reason in outcome.decision.reasons if reason.code == "BOTTLENECK"]
    assert reason.vertex_id == PIPELINE_MAP
    assert f"{PIPELINE_SOURCE}, which sustains 50 % of" in reason.text


def test_a_stale_scale_down_is_explained() -> None:
    job = driver({"scale-down.interval": "2 min"})
    job.run_each_minute(single_source(at, rate=50.0, busy_ms=250.0, parallelism=16) for at in (1, 2, 3, 4))

    outcome = job.run(5 * MINUTE, single_source(5, rate=50.0, busy_ms=250.0, parallelism=4))

    expected = ("SCALE_DOWN_STALE", SINGLE_SOURCE)
    assert expected in reasons(outcome)


def test_an_older_recommendation_of_the_current_parallelism_is_not_stale() -> None:
    job = driver({"scale-down.interval": "2 min"})
    job.run_each_minute(single_source(at, rate=50.0, busy_ms=250.0, parallelism=16) for at in (1, 2, 3, 4))

    outcome = job.run(5 * MINUTE, single_source(5, rate=50.0, busy_ms=250.0, parallelism=8))

    assert [code for code, _ in reasons(outcome)] == ["SIZED", "SCALE_DOWN_HIGHEST", "NO_CHANGE"]


def test_a_blocked_scale_up_is_explained() -> None:
    history = {SINGLE_SOURCE: (history_entry(MINUTE, 2, 4, rate=190.0, expected=390.0),)}
    job = driver({"scaling.effectiveness.detection.enabled": "true"}, JobState(history=history))

    outcome = full_window(job, rate=200.0, busy_ms=1000.0)

    assert reasons(outcome) == [
        ("SIZED", SINGLE_SOURCE),
        ("INEFFECTIVE_SCALING", SINGLE_SOURCE),
        NO_CHANGE,
    ]


@pytest.mark.parametrize(
    ("options", "cluster", "text"),
    [
        pytest.param(
            {"memory.gc-pressure.threshold": "0.5"},
            a_cluster(gc_ms=501.0),
            "GC pressure 0.501 is above the limit job.autoscaler.memory.gc-pressure.threshold for scaling. "
            "Please adjust the memory of the TaskManagers by hand.",
            id="garbage collection",
        ),
        pytest.param(
            {"memory.heap-usage.threshold": "0.49"},
            a_cluster(),
            "Heap usage 0.5 is above the limit job.autoscaler.memory.heap-usage.threshold for scaling. "
            "Please adjust the memory of the TaskManagers by hand.",
            id="heap",
        ),
    ],
)
def test_memory_pressure_is_explained_and_told_with_its_number_and_its_limit(
    options: Mapping[str, str], cluster: ClusterReading, text: str
) -> None:
    readings = [single_source(minute, rate=200.0, busy_ms=1000.0) for minute in (1, 2, 3)]

    outcome = driver(options).run_each_minute(readings, cluster)

    assert reasons(outcome) == [("MEMORY_PRESSURE", None)]
    assert [event.message for event in outcome.events] == [text]
