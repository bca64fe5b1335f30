import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from flink_autoscaler.core.options.calendar import is_excluded, parse_period


def at(text: str) -> int:
    """Read an instant in UTC as epoch milliseconds; 2024-01-03 is a Wednesday."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("expression", "instant", "expected"),
    [
        pytest.param("9:30-10:00", "2024-01-03T10:00:00.000", True, id="the end belongs to it"),
        pytest.param("9:30:00:500-9:30:01", "2024-01-03T09:30:00.500", True, id="to the millisecond"),
        pytest.param("* * 22-2 * * ?", "2024-01-03T01:30:00.000", True, id="hours wrap around midnight"),
        pytest.param("12:30-18:45 && * * * ? * 4", "2024-01-03T12:30:00.000", True, id="both parts match"),
        pytest.param("12:30-18:45 && * * * ? * 4", "2024-01-03T18:45:00.500", False, id="the daily part ends"),
        pytest.param("* * * ? * FRI-MON", "2024-01-07T00:00:00.000", True, id="days wrap: Sunday"),
        pytest.param("* 0/15 * * * ?", "2024-01-03T00:45:00.000", True, id="steps from a start"),
        pytest.param("* * * LW * ?", "2024-03-29T00:00:00.000", True, id="last weekday"),
        pytest.param("* * * 1W 6 ?", "2024-06-03T00:00:00.000", True, id="Saturday the 1st stays in its month"),
        pytest.param("* * * ? * 4#1", "2024-01-03T00:00:00.000", True, id="first Wednesday"),
        pytest.param("* * * ? * 1#1", "2024-01-07T00:00:00.000", True, id="first Sunday, the seventh"),
        pytest.param("* * * ? * WEDL", "2024-01-31T00:00:00.000", True, id="last Wednesday"),
        pytest.param("* * * ? * 4L", "2024-01-24T00:00:00.000", False, id="not the last Wednesday"),
    ],
)
def test_instants_are_excluded_as_expressions_say(expression: str, instant: str, expected: bool) -> None:
    assert is_excluded([expression], at(instant), UTC, is_reference=True) is expected
    assert is_excluded([expression], at(instant), UTC) is expected


def test_one_matching_expression_of_several_is_enough() -> None:
    expressions = ["0:00-1:00", "9:00-10:00"]

    assert is_excluded(expressions, at("2024-01-03T09:30:00"), UTC)
    assert not is_excluded(expressions, at("2024-01-03T11:00:00"), UTC)


def test_nothing_is_excluded_without_expressions() -> None:
    assert not is_excluded([], 0)


def test_expressions_are_local_time() -> None:
    zone = timezone(timedelta(hours=8))

    assert is_excluded(["17:30-18:00"], at("2024-01-03T09:30:00"), zone)


def test_instants_before_the_epoch_are_handled() -> None:
    assert is_excluded(["23:59-23:59:59:999"], -1, UTC)


@pytest.mark.parametrize("expression", ["9:00-10:00", "9:00-10:00&&", " 9:00-10:00 && 0 0 12 ? * * ", "0 0 12 ? * *"])
def test_valid_expressions(expression: str) -> None:
    parse_period(expression)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("&&9:00-10:00", id="an empty first part"),
        pytest.param("24:00-25:00", id="hours out of range"),
        pytest.param("9:60-11:00", id="minutes out of range"),
        pytest.param("* * 24 * * ?", id="hour out of range in cron"),
        pytest.param("* * * ? * 8", id="day 8"),
        pytest.param("* * * 0 * ?", id="day of month 0"),
        pytest.param("10:00-9:00", id="end before start"),
        pytest.param("9:00 - 10:00", id="inner blanks"),
        pytest.param("9:00:00:000:0-10:00", id="five components"),
        pytest.param("9:00-10:00 && 11:00-12:00", id="two daily parts"),
        pytest.param("9:00-10:00 && 0 0 12 ? * * && 0 0 12 ? * *", id="three parts"),
        pytest.param("* * * ? * ?", id="two question marks"),
        pytest.param("60 * * * * ?", id="seconds out of range"),
        pytest.param("* * * ? * 0", id="day 0"),
        pytest.param("* * * * FOO ?", id="unknown name"),
        pytest.param("* * * 32 * ?", id="day of month out of range"),
    ],
)
def test_invalid_expressions_are_explained(expression: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_period(expression, is_reference=True)


@pytest.mark.parametrize(
    ("expression", "instant", "expected"),
    [
        pytest.param("22:00-02:00", "2024-01-03T21:59:59.999", False, id="over midnight: before"),
        pytest.param("22:00-02:00", "2024-01-03T22:00:00.000", True, id="over midnight: begins"),
        pytest.param("22:00-02:00", "2024-01-03T00:00:00.000", True, id="over midnight: midnight"),
        pytest.param("22:00-02:00", "2024-01-03T02:00:00.001", False, id="over midnight: ended"),
        pytest.param("18:00-24:00", "2024-01-03T23:59:59.999", True, id="to 24:00"),
        pytest.param("18:00-24:00", "2024-01-04T00:00:00.000", False, id="not beyond 24:00"),
        pytest.param("18:00-23:59", "2024-01-03T23:59:30.000", True, id="the last minute belongs to it"),
        pytest.param("0:00-24:00", "2024-01-03T23:59:59.999", True, id="all day"),
        pytest.param("22:00-2:00 && * * * ? * WED", "2024-01-04T01:00:00.000", True, id="began on Wednesday"),
        pytest.param("22:00-2:00 && * * * ? * WED", "2024-01-03T01:00:00.000", False, id="began on Tuesday"),
        pytest.param("9:00-10:00 in Asia/Tokyo", "2024-01-03T00:30:00.000", True, id="in a zone"),
        pytest.param("9:00-10:00 in Asia/Tokyo", "2024-01-03T09:30:00.000", False, id="not in UTC"),
        pytest.param("* * 9 * * ? in Asia/Tokyo", "2024-01-03T00:30:00.000", True, id="cron in a zone"),
        pytest.param("days=tue, from=22:00, to=2:00", "2024-01-03T01:59:59.999", True, id="written as in a plan"),
        pytest.param("days=tue, from=22:00, to=2:00", "2024-01-03T02:00:00.000", False, id="and its end"),
        pytest.param("2:15-2:45 in Europe/Berlin", "2024-03-31T01:30:00.000", True, id="an hour that is skipped"),
    ],
)
def test_periods_reach_over_midnight_and_have_zones(expression: str, instant: str, expected: bool) -> None:
    parse_period(expression)
    assert is_excluded([expression], at(instant), UTC) is expected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        pytest.param("22:00-02:00", "write '22:00-23:59:59:999;0:00-02:00'", id="over midnight"),
        pytest.param("18:00-24:00", "write '18:00-23:59:59:999'", id="24:00"),
        pytest.param("9:00-10:00 in Asia/Tokyo", "time zone", id="zone"),
    ],
)
def test_the_reference_refuses_what_it_does_not_know_and_says_why(expression: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_period(expression, is_reference=True)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        pytest.param("9:00-25:00", "'25:00' is not a time of day", id="no time"),
        pytest.param("9:00-9:00", "another time of day than it begins", id="nothing between"),
        pytest.param("24:00-9:00", "before 24:00", id="begins at the end"),
        pytest.param("9:00-10:00 in Nowhere/Land", "'Nowhere/Land' is not known", id="no zone"),
        pytest.param("9:00-10:00 && 11:00-12:00", "one daily range and one cron", id="two ranges"),
    ],
)
def test_what_is_no_period_is_told_why(expression: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_period(expression)
