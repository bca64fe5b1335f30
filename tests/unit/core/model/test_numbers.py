import math
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model import numbers, syntax
from flink_autoscaler.core.options.job import BusyTimeAggregator


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0.0004, 0.0004, id="a tiny value is not rounded to zero"),
        pytest.param(0.0005, 0.001, id="half goes up"),
        pytest.param(-0.0006, -0.001, id="away from zero"),
        pytest.param(1.0005, 1.001, id="by the decimal text, not the binary value"),
        pytest.param(2.6755, 2.676, id="by the decimal text again"),
        pytest.param(1234.56789, 1234.568, id="plain"),
        pytest.param(math.inf, math.inf, id="infinity stays"),
        pytest.param(-math.inf, -math.inf, id="negative infinity stays"),
        pytest.param(0.0, 0.0, id="zero"),
    ],
)
def test_r3_rounds_to_three_decimals(value: float, expected: float) -> None:
    assert numbers.r3(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_r3_fast_path_agrees_with_the_decimal_text(value: float) -> None:
    text = float(Decimal(repr(value)).quantize(Decimal("0.001"), ROUND_HALF_UP, Context(prec=400)))

    assert numbers.r3(value) == (text if text != 0 else value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(2.5, 3.0, id="tie upward"),
        pytest.param(-2.5, -2.0, id="negative tie upward"),
        pytest.param(0.49999999999999994, 0.0, id="no double rounding"),
        pytest.param(1515.5, 1516.0, id="plain"),
        pytest.param(math.nan, 0.0, id="NaN is zero"),
        pytest.param(math.inf, 9.223372036854775807e18, id="infinity saturates"),
    ],
)
def test_round64_rounds_ties_upward(value: float, expected: float) -> None:
    assert numbers.round64(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.125, "0.13"),
        (1.005, "1.01"),
        (2.345, "2.35"),
        (math.inf, "Infinity"),
        (math.nan, "NaN"),
        (500.005, "500.01"),
        (1e306, f"1{'0' * 306}.00"),
    ],
)
def test_two_decimals_rounds_half_up_on_the_decimal_text(value: float, expected: str) -> None:
    assert numbers.two_decimals(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(500.0, "500.0"), (0.51, "0.51"), (1.2e9, "1.2E9"), (1e7, "1.0E7"), (0.0005, "5.0E-4"), (-0.001, "-0.001")],
)
def test_plain_prints_the_shortest_text(value: float, expected: str) -> None:
    assert numbers.plain(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(math.nan, 0), (1e300, 2**31 - 1), (-1e300, -(2**31)), (2.9, 2), (-2.9, -2)]
)
def test_trunc32_cuts_toward_zero_and_saturates(value: float, expected: int) -> None:
    assert numbers.trunc32(value) == expected


SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("10 s", 10 * SECOND, id="what Flink reads"),
        pytest.param("100", 100_000_000, id="no unit is milliseconds"),
        pytest.param("1.5 s", 1_500_000_000, id="fraction"),
        pytest.param(".5h", 1800 * SECOND, id="less than one"),
        pytest.param("0.1 s", 100_000_000, id="fraction that is none in base two"),
        pytest.param("1h 30min", 5400 * SECOND, id="several units"),
        pytest.param(" 1H30M ", 5400 * SECOND, id="without blanks between, in any case"),
    ],
)
def test_parse_time_reads_what_people_write(text: str, nanoseconds: int) -> None:
    assert syntax.parse_time(text).nanoseconds == nanoseconds


@pytest.mark.parametrize("text", ["", "s", "1.5", "-1 s", "1.5.5 s", "10 fortnights", "9" * 20 + " s", "1 s later"])
def test_parse_time_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match=r"a duration|unit must be|whole number"):
        syntax.parse_time(text)


def test_refused_duration_shows_the_forms() -> None:
    with pytest.raises(ValueError, match=r"a whole number and a unit, such as '90 s', '1500 ms' or '2 h'"):
        syntax.parse_duration("1.5 s")


@pytest.mark.parametrize("values", [{"a": "1"}, {"a:b": "c,d", "'x": " y "}])
def test_map_reads_back_as_it_was_written(values: dict[str, str]) -> None:
    assert syntax.parse_map(syntax.format_map(values)) == values


@pytest.mark.parametrize("text", ["1 d", "90 min", "2 h", "61 s", "1500 ms", "0 ms", "5 ns"])
def test_a_duration_prints_as_it_is_read(text: str) -> None:
    duration = syntax.parse_duration(text)

    assert syntax.parse_duration(str(duration)) == duration


def test_parse_enum_names_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="AVG, MAX, MIN"):
        syntax.parse_enum("median", BusyTimeAggregator)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("a", ("a",), id="one"),
        pytest.param("a; b ;c", ("a", "b", "c"), id="semicolons, trimmed"),
        pytest.param("a,b", ("a,b",), id="a comma alone does not separate"),
        pytest.param("[a, b]", ("a", "b"), id="flow list"),
        pytest.param("[]", (), id="empty flow list"),
        pytest.param("'a;b';c", ("a;b", "c"), id="single quotes protect"),
        pytest.param('"a;b" ; c', ("a;b", "c"), id="double quotes protect"),
        pytest.param("'it''s';b", ("it's", "b"), id="a doubled quote stands for one"),
        pytest.param("['a, b', c]", ("a, b", "c"), id="quotes in a flow list"),
        pytest.param("- a", ("a",), id="YAML list of one"),
        pytest.param("- a\n- b;c\n", ("a", "b;c"), id="YAML list"),
        pytest.param(" - 'a'\n\n - b # why\n", ("a", "b"), id="YAML list, indented, with quotes and a comment"),
        pytest.param("-a;- b", ("-a", "- b"), id="no YAML list without a blank"),
        pytest.param("- a\nb", ("- a\nb",), id="no YAML list where a line is no item"),
    ],
)
def test_parse_list_separates_at_semicolons(text: str, expected: tuple[str, ...]) -> None:
    assert syntax.parse_list(text) == expected


@pytest.mark.parametrize("text", ["'a", '"a;b', "'a'b;c"])
def test_parse_list_refuses_broken_quotes(text: str) -> None:
    with pytest.raises(ValueError, match="quote"):
        syntax.parse_list(text)


@given(st.lists(st.text(alphabet="ab;,'\" []:x-\n", min_size=1)))
def test_format_list_is_read_back(values: list[str]) -> None:
    assert syntax.parse_list(syntax.format_list(values)) == tuple(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("k:v,k2:v2", {"k": "v", "k2": "v2"}, id="plain"),
        pytest.param("{k: v, k2: '8'}", {"k": "v", "k2": "8"}, id="flow map"),
        pytest.param("{'0123': '8', b: 4}", {"0123": "8", "b": "4"}, id="flow map with a quoted key"),
    ],
)
def test_parse_map_reads_pairs(text: str, expected: dict[str, str]) -> None:
    assert syntax.parse_map(text) == expected


@pytest.mark.parametrize("text", ["a:1,a:2", "a:1,b:2, a :1", "{a: 1, a: 2}"])
def test_parse_map_refuses_a_key_that_is_there_twice(text: str) -> None:
    with pytest.raises(ValueError, match="each key once; 'a' is there more than once"):
        syntax.parse_map(text)


@pytest.mark.parametrize("text", ["k", "k:v:w", "k:v,l"])
def test_parse_map_refuses_what_is_no_pair(text: str) -> None:
    with pytest.raises(ValueError, match="pairs"):
        syntax.parse_map(text)
