import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.job import BusyTimeAggregator

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("10 s", 10 * SECOND, id="blank before the unit"),
        pytest.param("10s", 10 * SECOND, id="no blank"),
        pytest.param("  10   sec ", 10 * SECOND, id="blanks around and several between"),
        pytest.param("100", 100_000_000, id="no unit is milliseconds"),
        pytest.param("0", 0, id="zero"),
        pytest.param("1 D", 86_400 * SECOND, id="units in any case"),
        pytest.param("2 days", 2 * 86_400 * SECOND, id="days"),
        pytest.param("3 hours", 3 * 3600 * SECOND, id="hours"),
        pytest.param("5min", 300 * SECOND, id="min"),
        pytest.param("5 m", 300 * SECOND, id="m is minutes"),
        pytest.param("7 secs", 7 * SECOND, id="secs"),
        pytest.param("8 millis", 8_000_000, id="millis"),
        pytest.param("9 µs", 9_000, id="microseconds"),
        pytest.param("9 micros", 9_000, id="micros"),
        pytest.param("4 nanosecond", 4, id="nanoseconds"),
    ],
)
def test_parse_duration_reads_every_unit(text: str, nanoseconds: int) -> None:
    assert syntax.parse_duration(text).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "1.5 s", "-1 s", "+1 s", "PT10S", "10 fortnights", "1 s 2 ms", "99999999999999999999 s", "١ s"],
)
def test_parse_duration_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        syntax.parse_duration(text)


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


@pytest.mark.parametrize(
    ("nanoseconds", "ms", "seconds"), [(1_999_000_000, 1999, 1), (-991_000_000, -991, -1), (1_999_999, 1, 0)]
)
def test_durations_round_toward_minus_infinity(nanoseconds: int, ms: int, seconds: int) -> None:
    duration = syntax.Duration(nanoseconds)

    assert (duration.ms, duration.seconds) == (ms, seconds)


@pytest.mark.parametrize("text", ["1 d", "90 min", "2 h", "61 s", "1500 ms", "0 ms", "5 ns"])
def test_a_duration_prints_as_it_is_read(text: str) -> None:
    duration = syntax.parse_duration(text)

    assert syntax.parse_duration(str(duration)) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("100", 100, id="no unit is bytes"),
        pytest.param("100 bytes", 100, id="bytes"),
        pytest.param("2k", 2048, id="k"),
        pytest.param("2 KB", 2048, id="any case"),
        pytest.param("3 mebibytes", 3 << 20, id="long name"),
        pytest.param("4g", 4 << 30, id="g"),
        pytest.param("1 tb", 1 << 40, id="tb"),
    ],
)
def test_parse_memory_reads_powers_of_1024(text: str, size: int) -> None:
    assert syntax.parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "1.5g", "-1", "1 pb", "1 g b", "g"])
def test_parse_memory_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        syntax.parse_memory(text)


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("TRUE", True), ("False", False)])
def test_parse_bool_reads_any_case(text: str, expected: bool) -> None:
    assert syntax.parse_bool(text) is expected


@pytest.mark.parametrize("text", ["", "yes", "1", "on", "truee", " true"])
def test_parse_bool_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match="true or false"):
        syntax.parse_bool(text)


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("-7", -7), ("+7", 7), ("2147483647", 2**31 - 1)])
def test_parse_int_reads_decimal_digits(text: str, expected: int) -> None:
    assert syntax.parse_int(text) == expected


@pytest.mark.parametrize("text", ["", "1.0", "1_000", "2147483648", "0x10", "٣", "7 "])
def test_parse_int_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        syntax.parse_int(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.7", 0.7), (" 1 ", 1.0), ("-.5", -0.5), ("1e3", 1000.0), ("2.5d", 2.5), ("-Infinity", float("-inf"))],
)
def test_parse_double_reads_decimal_text(text: str, expected: float) -> None:
    assert syntax.parse_double(text) == expected


@pytest.mark.parametrize("text", ["", "0,7", "inf", "1_0", "70%", "nan", "1e"])
def test_parse_double_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match="decimal number"):
        syntax.parse_double(text)


@pytest.mark.parametrize(("text", "expected"), [("0.1", 0.10000000149011612), ("0.4", 0.4000000059604645)])
def test_parse_float32_widens_a_32_bit_float(text: str, expected: float) -> None:
    assert syntax.parse_float32(text) == expected


def test_parse_enum_reads_any_case() -> None:
    assert syntax.parse_enum("max", BusyTimeAggregator) is BusyTimeAggregator.MAX


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
