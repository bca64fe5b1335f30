import pytest

from flink_autoscaler.core.model.state import HistoryEntry, ScalingRecord
from flink_autoscaler.core.observe.observation import (
    complete_tracking,
    prune_history,
    restart_time,
)
from testkit.builders.core import a_topology, a_vertex, history_entry, options_with, vertex_id

V = vertex_id(1)


def entries(*seconds: int) -> tuple[HistoryEntry, ...]:
    return tuple(history_entry(second * 1000, 1, 2) for second in seconds)


def test_vertices_that_are_gone_are_pruned() -> None:
    history = {V: entries(1), vertex_id(2): entries(2)}

    assert prune_history(history, a_topology(a_vertex(1))) == {V: entries(1)}
    assert prune_history(history, a_topology(a_vertex(3))) == {}


@pytest.mark.parametrize(
    ("restarts_ms", "enabled", "expected"),
    [
        pytest.param([95_900], "false", 300, id="tracking is off: the option"),
        pytest.param([95_900], "true", 95, id="whole seconds"),
        pytest.param([95_900, 1_200_000, None], "true", 900, id="the longest, capped"),
        pytest.param([None], "true", 300, id="none measured: the option"),
        pytest.param([], "true", 300, id="no record: the option"),
        pytest.param([-5_000], "true", 300, id="negative ones count as none"),
        pytest.param([-5_000, 60_000], "true", 60, id="the others still count"),
        pytest.param([0], "true", 0, id="no time at all"),
    ],
)
def test_restart_time_is_the_longest_measured_one(restarts_ms: list[int | None], enabled: str, expected: int) -> None:
    tracking = tuple(ScalingRecord(at, restart) for at, restart in enumerate(restarts_ms))

    assert restart_time(tracking, options_with({"restart.time-tracking.enabled": enabled})) == expected


def test_the_assumed_restart_time_is_not_capped() -> None:
    options = options_with({"restart.time": "20 min", "restart.time-tracking.enabled": "true"})

    assert restart_time((), options) == 1200


DECIDED_MS = 1000
HISTORY = {V: (history_entry(DECIDED_MS, 4, 8),)}


def completed(parallelism: int, *, number: int = 1, running_at_ms: int = 61_000) -> tuple[ScalingRecord, ...]:
    topology = a_topology(a_vertex(number, parallelism=parallelism))
    return complete_tracking(
        (ScalingRecord(0), ScalingRecord(DECIDED_MS)),
        HISTORY,
        topology,
        running_at_ms=running_at_ms,
        ignores_forgotten=True,
    )


def test_a_restart_is_over_when_the_job_runs_at_its_target() -> None:
    assert completed(8) == (ScalingRecord(0), ScalingRecord(DECIDED_MS, 60_000))


@pytest.mark.parametrize(
    ("ignores_forgotten", "expected"),
    [pytest.param(True, None, id="improved"), pytest.param(False, 60_000, id="reference")],
)
def test_a_forgotten_decision_has_no_restart_time(ignores_forgotten: bool, expected: int | None) -> None:
    topology = a_topology(a_vertex(1, parallelism=8))

    after = complete_tracking(
        (ScalingRecord(DECIDED_MS),), {}, topology, running_at_ms=61_000, ignores_forgotten=ignores_forgotten
    )

    assert after[-1].restart_ms == expected


@pytest.mark.parametrize(
    ("ignores_forgotten", "expected"),
    [pytest.param(True, None, id="improved"), pytest.param(False, -500, id="reference")],
)
def test_a_job_that_has_not_restarted_has_no_negative_restart_time(
    ignores_forgotten: bool, expected: int | None
) -> None:
    topology = a_topology(a_vertex(1, parallelism=8))

    after = complete_tracking(
        (ScalingRecord(DECIDED_MS),), HISTORY, topology, running_at_ms=500, ignores_forgotten=ignores_forgotten
    )

    assert after[-1].restart_ms == expected
