"""JSON of answers: what it comes to does not depend on the parser."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.http.answers import Response, json_of
from flink_autoscaler.core.errors import ResponseError

NUMBERS = st.integers() | st.floats() | st.integers(10**400, 10**410)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
ODD = [
    "1e400",
    "-0",
    "-0.0",
    "1E5",
    '"\\ud800"',
    '{"a": 1, "a": 2}',
    "[" * 60 + "]" * 60,
    " \n[1]\t",
    "NaN",
    "-Infinity",
]
WRONG = ["", "{", "[1,]", "01", "+1", "'a'", '"\n"', "[1] 2", "nan", '{"a" 1}', "[" * 90 + "]" * 90]


def parsed(text: str) -> object:
    return json_of(Response(200, "application/json", text.encode("utf-8")), "GET x")


@given(VALUES, st.booleans())
def test_json_is_what_it_was_written_from(value: object, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)

    assert repr(parsed(text)) == repr(json.loads(text.encode()))


@pytest.mark.parametrize("text", ODD)
def test_what_is_odd_is_read_as_by_python(text: str) -> None:
    assert repr(parsed(text)) == repr(json.loads(text.encode()))


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ResponseError, match="GET x"):
        parsed(text)


def test_a_number_with_thousands_of_digits_concerns_its_own_entry_alone() -> None:
    assert parsed(f"[{'1' * 5_000}, {'1' * 400}, 7]") == [float("inf"), int("1" * 400), 7]
