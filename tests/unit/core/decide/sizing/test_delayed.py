import pytest
from core_builders import vertex_id

from flink_autoscaler.core.decide.sizing.delayed import DelayedScaleDown
from flink_autoscaler.core.model.state import DelayedRecommendation, DelayedVertex

V = vertex_id(1)
MINUTE = 60_000
INTERVAL = 10 * MINUTE


def advice(minute: int, parallelism: int, is_outside: bool) -> DelayedRecommendation:
    return DelayedRecommendation(minute * MINUTE, parallelism, is_outside)


ADVICE = [
    advice(0, 12, True),
    advice(3, 18, False),
    advice(5, 14, True),
    advice(9, 10, True),
    advice(10, 10, True),
    advice(12, 10, True),
    advice(14, 10, True),
]
EXPECTED: list[tuple[list[tuple[int, int, bool]], tuple[int, bool] | None]] = [
    ([(0, 12, True)], None),
    ([(3, 18, False)], None),
    ([(3, 18, False), (5, 14, True)], None),
    ([(3, 18, False), (5, 14, True), (9, 10, True)], None),
    ([(3, 18, False), (5, 14, True), (10, 10, True)], (18, False)),
    ([(3, 18, False), (5, 14, True), (12, 10, True)], (18, False)),
    ([(5, 14, True), (14, 10, True)], (14, True)),
]


def test_the_highest_recommendation_of_the_interval_wins() -> None:
    delayed = DelayedScaleDown({})
    table = []

    for recommendation in ADVICE:
        result = delayed.recommend(V, recommendation, INTERVAL)
        queue = [(e.at_ms // MINUTE, e.parallelism, e.is_outside) for e in delayed.vertices[V].queue]
        table.append((queue, None if result is None else (result.parallelism, result.is_outside)))

    assert table == EXPECTED
    assert delayed.vertices[V].first_ms == 0


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_without_an_interval_nothing_waits_and_nothing_is_recorded(interval_ms: int) -> None:
    delayed = DelayedScaleDown({})

    assert delayed.recommend(V, advice(0, 12, False), interval_ms) == advice(0, 12, False)
    assert delayed.vertices == {}


def test_clear_forgets_one_vertex() -> None:
    delayed = DelayedScaleDown({})
    delayed.recommend(V, advice(0, 12, True), INTERVAL)
    delayed.recommend(vertex_id(2), advice(0, 12, True), INTERVAL)

    delayed.clear(V)
    delayed.clear(vertex_id(3))

    assert set(delayed.vertices) == {vertex_id(2)}


def test_the_wait_starts_again_after_a_clear() -> None:
    delayed = DelayedScaleDown({})
    delayed.recommend(V, advice(0, 12, True), INTERVAL)

    delayed.clear(V)

    assert delayed.recommend(V, advice(10, 12, True), INTERVAL) is None


def test_what_was_remembered_is_not_changed() -> None:
    remembered = {V: DelayedVertex(0, (advice(0, 12, True),))}

    DelayedScaleDown(remembered).recommend(V, advice(1, 14, True), INTERVAL)

    assert remembered == {V: DelayedVertex(0, (advice(0, 12, True),))}


def test_a_recommendation_as_old_as_the_interval_still_counts() -> None:
    delayed = DelayedScaleDown({})
    delayed.recommend(V, advice(0, 12, True), INTERVAL)

    assert delayed.recommend(V, advice(10, 9, True), INTERVAL) == advice(0, 12, True)


def test_the_shortest_interval_is_waited_for() -> None:
    delayed = DelayedScaleDown({})

    assert delayed.recommend(V, DelayedRecommendation(0, 12, True), 1) is None
    assert delayed.recommend(V, DelayedRecommendation(1, 12, True), 1) == DelayedRecommendation(1, 12, True)
