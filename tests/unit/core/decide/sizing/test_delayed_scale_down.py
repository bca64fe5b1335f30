import pytest

from flink_autoscaler.core.decide.sizing.changes import delayed as delayed_by
from flink_autoscaler.core.model.state import DelayedRecommendation, DelayedVertex

MINUTE = 60_000
INTERVAL = 10 * MINUTE


class Waiting:
    """Remembers what waits of one vertex from pass to pass."""

    def __init__(self, pending: DelayedVertex | None = None) -> None:
        self.pending = pending

    def recommend(self, recommendation: DelayedRecommendation, interval_ms: int) -> DelayedRecommendation | None:
        self.pending, highest = delayed_by(self.pending, recommendation, interval_ms)
        return highest


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
    delayed = Waiting()
    table = []

    for recommendation in ADVICE:
        result = delayed.recommend(recommendation, INTERVAL)
        assert delayed.pending is not None
        queue = [(e.at_ms // MINUTE, e.parallelism, e.is_outside) for e in delayed.pending.queue]
        table.append((queue, None if result is None else (result.parallelism, result.is_outside)))

    assert table == EXPECTED
    assert delayed.pending is not None
    assert delayed.pending.first_ms == 0


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_without_an_interval_nothing_waits_and_nothing_is_recorded(interval_ms: int) -> None:
    delayed = Waiting()

    assert delayed.recommend(advice(0, 12, False), interval_ms) == advice(0, 12, False)
    assert delayed.pending is None


def test_the_wait_starts_again_after_a_clear() -> None:
    delayed = Waiting()
    delayed.recommend(advice(0, 12, True), INTERVAL)

    delayed.pending = None

    assert delayed.recommend(advice(10, 12, True), INTERVAL) is None


def test_what_was_remembered_is_not_changed() -> None:
    remembered = DelayedVertex(0, (advice(0, 12, True),))

    Waiting(remembered).recommend(advice(1, 14, True), INTERVAL)

    assert remembered == DelayedVertex(0, (advice(0, 12, True),))


def test_a_recommendation_as_old_as_the_interval_still_counts() -> None:
    delayed = Waiting()
    delayed.recommend(advice(0, 12, True), INTERVAL)

    assert delayed.recommend(advice(10, 9, True), INTERVAL) == advice(0, 12, True)


def test_the_shortest_interval_is_waited_for() -> None:
    delayed = Waiting()

    assert delayed.recommend(DelayedRecommendation(0, 12, True), 1) is None
    assert delayed.recommend(DelayedRecommendation(1, 12, True), 1) == DelayedRecommendation(1, 12, True)
