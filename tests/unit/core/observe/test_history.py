import pytest

from flink_autoscaler.core.model.state import HistoryEntry, ScalingRecord
from flink_autoscaler.core.observe.history import (
    add_to_history,
    complete_tracking,
    prune_history,
    restart_time,
    trim_history,
    trim_tracking,
)
from testkit.builders.core import a_plan, a_topology, a_vertex, history_entry, options_with, vertex_id

V = vertex_id(1)
LIMITS = {"history.max.age": "2 h", "history.max.count": "3"}
NOW_MS = 10_800_000


def entries(*seconds: int) -> tuple[HistoryEntry, ...]:
    return tuple(history_entry(second * 1000, 1, 2) for second in seconds)


def records(*seconds: int) -> tuple[ScalingRecord, ...]:
    return tuple(ScalingRecord(second * 1000) for second in seconds)


def test_history_and_tracking_keep_the_newest_within_age_and_count() -> None:
    seconds = (0, 3599, 3600, 5000, 7200, 9000)

    history = trim_history({V: entries(*seconds)}, options_with(LIMITS), NOW_MS)
    tracking = trim_tracking(records(*seconds), options_with(LIMITS), NOW_MS)

    assert history == {V: entries(5000, 7200, 9000)}
    assert tracking == records(5000, 7200, 9000)


def test_age_alone_keeps_what_is_exactly_as_old() -> None:
    history = trim_history({V: entries(3599, 3600)}, options_with(LIMITS), NOW_MS)
    tracking = trim_tracking(records(3599, 3600, 9000), options_with(LIMITS), NOW_MS)

    assert history == {V: entries(3600)}
    assert tracking == records(3600, 9000)


def test_tracking_keeps_its_latest_record_however_old() -> None:
    assert trim_history({V: entries(0, 5, 10)}, options_with(LIMITS), NOW_MS) == {}
    assert trim_tracking(records(0, 5, 10), options_with(LIMITS), NOW_MS) == records(10)


def test_a_count_of_zero_keeps_no_history_and_the_latest_record() -> None:
    options = options_with({"history.max.count": "0"})

    assert trim_history({V: entries(9000)}, options, NOW_MS) == {}
    assert trim_tracking(records(8000, 9000), options, NOW_MS) == records(9000)


def test_a_count_of_one_keeps_the_latest() -> None:
    options = options_with({"history.max.count": "1"})

    assert trim_history({V: entries(8000, 9000)}, options, NOW_MS) == {V: entries(9000)}
    assert trim_tracking(records(8000, 9000), options, NOW_MS) == records(9000)


def test_fewer_than_the_count_are_all_kept() -> None:
    assert trim_history({V: entries(8000, 9000)}, options_with(LIMITS), NOW_MS) == {V: entries(8000, 9000)}
    assert trim_tracking(records(8000, 9000), options_with(LIMITS), NOW_MS) == records(8000, 9000)


def test_nothing_to_trim_stays_nothing() -> None:
    assert trim_history({}, options_with(), NOW_MS) == {}
    assert trim_tracking((), options_with(), NOW_MS) == ()


def test_vertices_that_are_gone_are_pruned() -> None:
    history = {V: entries(1), vertex_id(2): entries(2)}

    assert prune_history(history, a_topology(a_vertex(1))) == {V: entries(1)}
    assert prune_history(history, a_topology(a_vertex(3))) == {}


def test_a_decision_is_added_after_the_older_ones() -> None:
    plan = a_plan({1: (2, 3), 2: (4, 5)})

    history = add_to_history({V: entries(1)}, plan, 9)

    assert history == {V: (*entries(1), HistoryEntry(9, plan[V])), vertex_id(2): (HistoryEntry(9, plan[vertex_id(2)]),)}


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


def test_a_restart_may_take_no_time() -> None:
    assert completed(8, running_at_ms=DECIDED_MS)[-1].restart_ms == 0


def test_a_restart_is_not_over_at_another_parallelism() -> None:
    assert completed(4)[-1].restart_ms is None


def test_a_restart_is_not_over_without_the_vertex() -> None:
    assert completed(8, number=2)[-1].restart_ms is None


def test_a_measured_restart_is_not_measured_again() -> None:
    tracking = (ScalingRecord(DECIDED_MS, 5),)
    topology = a_topology(a_vertex(1, parallelism=8))

    after = complete_tracking(tracking, HISTORY, topology, running_at_ms=99_000, ignores_forgotten=True)

    assert after is tracking


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
