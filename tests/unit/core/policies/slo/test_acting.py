from dataclasses import replace

import pytest

from flink_autoscaler.core.policies.slo.acting import Acting, Moment, price_down
from flink_autoscaler.core.policies.slo.lateness import LagTerms
from flink_autoscaler.core.policies.slo.price import Prices

TERMS = LagTerms(60.0, 60.0, 5.0)
LIMIT = 60.0


def a_moment(minute: float = 0.0, slots: int = 20, demand: float = 10.0, lag: float | None = 0.0) -> Moment:
    return Moment(60.0 * minute, slots, float(slots), demand, lag, demand)


def minute_of_scale_down(slots: int, best: int, headroom: float, late: float) -> int:
    """Return in which minute a job of which every evaluation says the same goes down."""
    acting, prices = Acting(), Prices(late, 450.0, 60.0, 0.5)
    for minute in range(1000):
        moment = a_moment(minute, slots, best / (1.0 + headroom))
        acting = acting.evaluated(moment, best)
        if acting.wanted(moment, price_down(acting, moment, float(best), TERMS, prices), LIMIT) == best:
            return minute
    raise AssertionError("never")


@pytest.mark.parametrize(
    ("slots", "best", "headroom", "late", "minute"),
    [
        pytest.param(34, 15, 0.5, 160.0, 5, id="19 slots too many: 5025 slot-seconds in minutes"),
        pytest.param(12, 10, 0.1, 80.0, 40, id="two too many: 4750 in forty"),
    ],
)
def test_a_surplus_goes_when_it_has_paid_for_the_rescale(
    slots: int, best: int, headroom: float, late: float, minute: int
) -> None:
    assert minute_of_scale_down(slots, best, headroom, late) == minute


def test_up_takes_two_evaluations_in_a_row() -> None:
    once = Acting().evaluated(a_moment(0), 25)
    twice = once.evaluated(a_moment(1), 27)

    assert once.wanted(a_moment(0), 0.0, LIMIT) is None
    assert twice.wanted(a_moment(1), 0.0, LIMIT) == 27
    assert once.evaluated(a_moment(1), 20).evaluated(a_moment(2), 25).wanted(a_moment(2), 0.0, LIMIT) is None


def test_down_takes_three_evaluations_and_little_lag() -> None:
    acting = Acting()
    for minute in range(2):
        acting = acting.evaluated(a_moment(minute), 12)
    assert acting.wanted(a_moment(2), 0.0, LIMIT) is None

    acting = acting.evaluated(a_moment(2), 11)

    assert acting.wanted(a_moment(2), 0.0, LIMIT) == 12
    assert acting.wanted(a_moment(2, lag=31.0), 0.0, LIMIT) is None
    assert acting.wanted(a_moment(2, lag=None), 0.0, LIMIT) is None


def test_regret_fades_while_the_size_is_right_and_a_rescale_clears_it() -> None:
    acting = Acting().evaluated(a_moment(0), 10).evaluated(a_moment(1), 10)
    assert acting.regret == 600.0

    assert acting.evaluated(a_moment(2), 20).regret == pytest.approx(600.0 * 0.9 - 60.0)
    assert acting.evaluated(a_moment(9), 20) == Acting(540.0, 20, 20)
    assert acting.evaluated(a_moment(2, slots=15), 10).regret == 0.0


def test_what_was_called_for_once_fades_to_what_is_called_for_now() -> None:
    acting = Acting().evaluated(a_moment(0), 18)
    targets = []
    for minute in range(1, 31):
        acting = acting.evaluated(a_moment(minute), 12)
        targets.append(acting.target)

    assert targets[:3] == [17, 17, 16]
    assert targets[-1] == 12
    assert targets == sorted(targets, reverse=True)


def test_of_two_sizes_that_take_turns_the_larger_one_is_gone_to() -> None:
    acting = Acting()
    for minute in range(30):
        acting = acting.evaluated(a_moment(minute), 11 + minute % 2)

    assert acting.target == 12


def test_a_gap_counts_as_ten_minutes() -> None:
    acting = Acting().evaluated(a_moment(0), 19).evaluated(a_moment(600), 19)

    assert acting.regret == 600.0


EVALUATED = Acting().evaluated(a_moment(0), 20)


def test_a_quiet_job_is_not_evaluated_for_five_minutes() -> None:
    assert EVALUATED.is_quiet(a_moment(4), 0.05, LIMIT)
    assert not EVALUATED.is_quiet(a_moment(5), 0.05, LIMIT)


@pytest.mark.parametrize(
    ("acting", "moment"),
    [
        pytest.param(Acting(), a_moment(1), id="never evaluated"),
        pytest.param(Acting().evaluated(a_moment(0), 21), a_moment(1), id="larger was cheaper"),
        pytest.param(replace(EVALUATED, is_due=True), a_moment(1), id="a change is due"),
        pytest.param(EVALUATED, a_moment(1, slots=21), id="rescaled"),
        pytest.param(EVALUATED, a_moment(1, lag=13.0), id="lag"),
        pytest.param(EVALUATED, a_moment(1, demand=19.5), id="nearly full"),
        pytest.param(EVALUATED, replace(a_moment(1), expected=8.0), id="more than expected"),
        pytest.param(EVALUATED, replace(a_moment(1), since=3.0), id="the load has jumped"),
        pytest.param(EVALUATED, a_moment(-1), id="the clock went back"),
    ],
)
def test_a_job_is_not_quiet(acting: Acting, moment: Moment) -> None:
    assert not acting.is_quiet(moment, 0.05, LIMIT)


def test_what_is_remembered_can_be_stored() -> None:
    acting = Acting().evaluated(a_moment(0), 12).evaluated(a_moment(1), 13)

    assert Acting.read(acting.as_json()) == acting
    assert Acting.read(Acting().as_json()) == Acting()


@pytest.mark.parametrize(
    "state", [None, [], "x", {}, [1], [None] * 8, [float("nan"), 1, 1, 1, 1, 1, 1, True], [-1] * 8]
)
def test_what_cannot_be_read_is_forgotten(state: object) -> None:
    assert Acting.read(state) == Acting()
