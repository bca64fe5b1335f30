"""Dataclasses as JSON values: back as they were, under their keys, and refused where they were damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.codec import Codec, EpochMs, Key, Via, Within, row


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


class Point(NamedTuple):
    across: float
    up: float = 0.0


@row
@dataclass(frozen=True)
class Part:
    count: int
    name: str = "part"


@dataclass(frozen=True)
class Inner:
    colour: Colour = Colour.RED
    at_ms: EpochMs | None = None

    def __post_init__(self) -> None:
        if self.at_ms == 13:
            raise ValueError("an unlucky one")


TRIPLES = Via(
    tuple[tuple[str, str, float], ...],
    lambda edges: [(*edge, weight) for edge, weight in edges.items()],
    lambda triples: {(start, end): weight for start, end, weight in triples},
)


@dataclass(frozen=True)
class Whole:
    value: Annotated[float, Key("v")]
    size: Annotated[int, Within(1, 9)] = 1
    is_on: bool = False
    series: bytes = b"\x00\xff"
    inner: Inner = Inner()
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    pair: tuple[float, int] = (1.5, 2)
    points: tuple[Point, ...] = ()
    names: frozenset[str] = frozenset()
    by_name: Mapping[str, Inner] = field(default_factory=dict)
    by_colour: Mapping[Colour, float | None] = field(default_factory=dict)
    edges: Annotated[Mapping[tuple[str, str], float], Key("links"), TRIPLES] = field(default_factory=dict)
    anything: Mapping[str, Any] = field(default_factory=dict)


OBJECTS, BRIEF, COMPACT = Codec(Whole), Codec(Whole, omits_defaults=True), Codec(Whole, is_compact=True)
EVERY = pytest.mark.parametrize("codec", [OBJECTS, BRIEF, COMPACT], ids=["objects", "without defaults", "compact"])

WHOLE = Whole(
    2.0,
    size=3,
    is_on=True,
    series=b"abc",
    inner=Inner(Colour.GREEN, 5),
    part=Part(3),
    parts=(Part(1), Part(2, "other")),
    pair=(0.5, 7),
    points=(Point(1.0, 2.0),),
    names=frozenset({"b", "a"}),
    by_name={"x": Inner()},
    by_colour={Colour.RED: None, Colour.GREEN: 1.0},
    edges={("a", "b"): 1.0},
    anything={"free": [1, "x"]},
)

# Six digits, so that the compact form has all of them.
FINITE = st.integers(-4000, 4000).map(lambda number: number / 4)
TEXT = st.text(max_size=5)
INNER = st.builds(Inner, st.sampled_from(Colour), st.none() | st.integers(14, 10**12))
PARTS = st.builds(Part, st.integers(), TEXT)
WHOLES = st.builds(
    Whole,
    FINITE,
    size=st.integers(1, 9),
    is_on=st.booleans(),
    series=st.binary(max_size=5),
    inner=INNER,
    part=st.none() | PARTS,
    parts=st.lists(PARTS, max_size=3).map(tuple),
    pair=st.tuples(FINITE, st.integers()),
    points=st.lists(st.builds(Point, FINITE, FINITE), max_size=3).map(tuple),
    names=st.frozensets(TEXT, max_size=3),
    by_name=st.dictionaries(TEXT, INNER, max_size=3),
    by_colour=st.dictionaries(st.sampled_from(Colour), st.none() | FINITE),
    edges=st.dictionaries(st.tuples(TEXT, TEXT), FINITE, max_size=3),
)


def through_json(written: Any) -> Any:
    return json.loads(json.dumps(written, allow_nan=False))


@EVERY
@given(WHOLES)
def test_value_comes_back_as_it_was(codec: Codec[Whole], value: Whole) -> None:
    assert codec.read(through_json(codec.write(value))) == value


@EVERY
def test_value_of_everything_comes_back_as_it_was(codec: Codec[Whole]) -> None:
    assert codec.read(through_json(codec.write(WHOLE))) == WHOLE


def test_object_has_its_keys_in_the_order_of_its_fields() -> None:
    assert json.dumps(OBJECTS.write(WHOLE)) == (
        '{"v": 2.0, "size": 3, "is_on": true, "series": "YWJj", "inner": {"colour": "green", "at_ms": 5}, '
        '"part": [3, "part"], "parts": [[1, "part"], [2, "other"]], "pair": [0.5, 7], "points": [[1.0, 2.0]], '
        '"names": ["a", "b"], "by_name": {"x": {"colour": "red", "at_ms": null}}, '
        '"by_colour": {"red": null, "green": 1.0}, "links": [["a", "b", 1.0]], "anything": {"free": [1, "x"]}}'
    )


def test_what_is_as_it_would_be_anyway_may_be_left_out() -> None:
    assert BRIEF.write(Whole(2.0, part=Part(3), by_name={"x": Inner()})) == {
        "v": 2.0,
        "part": [3, "part"],
        "by_name": {"x": {}},
    }


def test_unknown_keys_are_left_out_and_missing_ones_have_their_default() -> None:
    assert OBJECTS.read({"v": 1, "mood": "good", "inner": {"weather": 3}}) == Whole(1.0)


def test_what_is_written_is_none_of_what_the_value_has() -> None:
    by_name = {"x": Inner()}

    OBJECTS.write(Whole(1.0, by_name=by_name))["by_name"].clear()

    assert by_name == {"x": Inner()}


def test_numbers_take_no_more_room_than_they_need_in_the_compact_form() -> None:
    assert COMPACT.write(Whole(1 / 3))[1][0] == 0.333333
    assert COMPACT.write(Whole(1_700_000_000.125))[1][0] == 1_700_000_000.125
    assert COMPACT.write(Whole(1.0, parts=(Part(1), Part(2))))[0] == ["part"]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param({"v": None}, "v is no finite number", id="missing number"),
        pytest.param({"v": "2.0"}, "v is no finite number", id="text for a number"),
        pytest.param({"v": True}, "v is no finite number", id="truth for a number"),
        pytest.param({"v": float("nan")}, "v is no finite number", id="not a number"),
        pytest.param({"v": float("-inf")}, "v is no finite number", id="infinite"),
        pytest.param({"v": 10**400}, "v is", id="beyond all numbers"),
        pytest.param({"size": 2.0}, "size is no whole number from 1 to 9", id="fraction for a count"),
        pytest.param({"size": True}, "size is no whole number from 1 to 9", id="truth for a count"),
        pytest.param({"size": 10}, "size is no whole number from 1 to 9", id="too large"),
        pytest.param({"is_on": 1}, "is_on is neither true nor false", id="number for a truth"),
        pytest.param({"series": 5}, "series is", id="number for bytes"),
        pytest.param({"series": "x"}, "series is", id="no base64"),
        pytest.param({"inner": []}, "inner is no object", id="list for an object"),
        pytest.param({"inner": {"colour": "blue"}}, "inner.colour is", id="unknown member"),
        pytest.param({"inner": {"colour": []}}, "inner.colour is", id="list for a member"),
        pytest.param({"inner": {"at_ms": -1}}, "inner.at_ms is no whole number from 0", id="before 1970"),
        pytest.param({"inner": {"at_ms": 13}}, "inner is", id="refused by the class"),
        pytest.param({"part": {"count": 1}}, "part is no list", id="object for a row"),
        pytest.param({"part": [1]}, "part is", id="row too short"),
        pytest.param({"part": [1, "a", 2]}, "part is", id="row too long"),
        pytest.param({"part": [1, 5]}, "part is no text", id="number for a text"),
        pytest.param({"parts": "parts"}, "parts is no list", id="text for a series"),
        pytest.param({"pair": [1.0, 2, 3]}, "pair is", id="three for two"),
        pytest.param({"names": {"a": 1}}, "names is no list", id="object for a set"),
        pytest.param({"by_name": []}, "by_name is no object", id="list for a mapping"),
        pytest.param({"by_name": {"x": {"colour": "blue"}}}, "by_name.colour is", id="within a mapping"),
        pytest.param({"links": [["a", 1.0]]}, "links is", id="half a key"),
    ],
)
def test_damaged_value_is_refused_with_its_key(damage: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        OBJECTS.read({**OBJECTS.write(WHOLE), **damage})


def test_value_without_what_it_must_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^v is missing"):
        OBJECTS.read({})


@EVERY
@pytest.mark.parametrize("stored", [None, 5, "text", [], [1, 2, 3], True], ids=repr)
def test_something_else_is_refused(codec: Codec[Whole], stored: Any) -> None:
    with pytest.raises(ValueError, match=r"^it is "):
        codec.read(stored)


TEXTS, BODY = COMPACT.write(WHOLE)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param({}, id="mapping"),
        pytest.param([TEXTS, BODY[:-1]], id="field missing"),
        pytest.param([TEXTS, [*BODY, 1]], id="field too many"),
        pytest.param([TEXTS, ["2.0", *BODY[1:]]], id="text for a number"),
        pytest.param([TEXTS, [float("nan"), *BODY[1:]]], id="not a number"),
        pytest.param([[1, *TEXTS[1:]], BODY], id="number for a text"),
        pytest.param([[], BODY], id="text missing"),
        pytest.param([TEXTS, [*BODY[:9], [-1], *BODY[10:]]], id="text from the end"),
    ],
)
def test_damaged_compact_value_is_refused(stored: Any) -> None:
    with pytest.raises(ValueError, match=r"^it is "):
        COMPACT.read(stored)
